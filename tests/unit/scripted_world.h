// tests/unit/scripted_world.h: one rank with the whole library above a transport whose peers the
// test plays.
// Idea: what the rank pushes is kept in a list, what the test puts into `incoming` arrives at the
// next poll. So a test decides in which order frames, refusals and deaths come.
#pragma once

#include "btl/base/format.h"
#include "btl/send_offer.h"
#include "mpi/abi/current.h"
#include "mpi/include/mpi.h"
#include "mpi/p2p/header.h"

#include <cstring>
#include <deque>
#include <functional>
#include <gtest/gtest.h>
#include <unistd.h>

namespace pomona {

struct ScriptedEndpoint final : Endpoint {
    ScriptedEndpoint() { caps_ = {0, 100, 1000}; }
    Push push(const FrameHeader& header, ConstBytes payload) override {
        if (answer != Push::sent) return answer;
        auto parsed = parse(header, payload.size());
        EXPECT_TRUE(parsed.has_value());
        bool data = parsed && parsed->kind == FrameKind::data;
        if (data && room == 0) return Push::busy;
        if (data) --room;
        if (data && keeps_data)
            bytes_of_data.insert(bytes_of_data.end(), payload.begin(), payload.end());
        if (parsed) pushed.push_back(*parsed);
        return Push::sent;
    }
    Push push_fill(const FrameHeader& header, size_t length, FillFunction fill,
                   void* context) override {
        std::vector<std::byte> bytes(length);
        fill(context, bytes);
        return push(header, bytes);
    }
    bool pulls() override { return readable; }
    bool pull(uint64_t address, Bytes target) override {
        if (reading_us) usleep(reading_us);
        if (can_read)
            std::memcpy(target.data(), reinterpret_cast<const void*>(address), target.size());
        return can_read;
    }
    std::atomic<uint64_t>* own_offer(uint32_t index) override {
        return offers && index < std::size(own) ? &own[index] : nullptr;
    }
    std::atomic<uint64_t>* offer_of_peer(uint32_t index) override {
        return offers && index < std::size(of_peer) ? &of_peer[index] : nullptr;
    }
    // Those of one message.
    SendOffer own_word(uint64_t token) {
        return SendOffer(own[static_cast<uint32_t>(token)], static_cast<uint32_t>(token >> 32));
    }
    SendOffer word_of_peer(uint64_t token) {
        return SendOffer(of_peer[static_cast<uint32_t>(token)], static_cast<uint32_t>(token >> 32));
    }
    void abandon(const Error&) override {
        abandoned = true;
        answer = Push::gone;
    }
    // The last frame of a kind that was pushed; a header of length 0 and token 0 if there is none.
    Header last(FrameKind kind) const {
        for (auto each = pushed.rbegin(); each != pushed.rend(); ++each)
            if (each->kind == kind) return *each;
        return {};
    }
    long count(FrameKind kind) const {
        return std::count_if(pushed.begin(), pushed.end(),
                             [&](const Header& each) { return each.kind == kind; });
    }
    Push answer = Push::sent;
    bool readable = false;      // this rank may read the peer's memory, and says where its own lies
    bool can_read = false;      // ... which lies in this process
    useconds_t reading_us = 0;  // what that takes more
    bool abandoned = false;
    bool offers = false;  // there are words that both ends reach
    std::atomic<uint64_t> own[128]{}, of_peer[128]{};
    std::vector<Header> pushed;
    int room = 1 << 30;  // so many fragments are taken
    bool keeps_data = false;
    std::vector<std::byte> bytes_of_data;
};

struct ScriptedTransport final : Transport {
    explicit ScriptedTransport(int size) : endpoints(static_cast<size_t>(size)) {}
    const char* name() const override { return "scripted"; }
    std::vector<std::byte> address() const override { return {}; }
    Result<Endpoint*> connect(int peer, ConstBytes) override {
        if (peer == not_up) return static_cast<Endpoint*>(nullptr);
        if (peer == out_of_reach) return Error{Code::refused, "This test says no", peer};
        return static_cast<Endpoint*>(&endpoints[static_cast<size_t>(peer)]);
    }
    int poll(Sink& sink, int most) override {
        ++polls;
        int handed = 0;
        while (handed < most && !incoming.empty() && !sink.enough) {
            auto next = std::move(incoming.front());
            incoming.pop_front();
            ++handed;
            next(sink);
        }
        return handed;
    }
    bool arm() override { return sleeps; }
    void disarm() override {}
    Nanoseconds sleep_max() override {
        if (asked_for_sleep) asked_for_sleep();
        return kSleepForever;
    }
    // To be handed over by polls.
    void frame(int peer, Header header, ConstBytes payload = {}) {
        std::vector<std::byte> bytes(payload.begin(), payload.end());
        incoming.push_back([=](Sink& sink) {
            sink.arrive(peer, header.pack(), {bytes.data(), bytes.size()});
        });
    }
    void death(int peer) {
        endpoints[static_cast<size_t>(peer)].answer = Push::gone;
        incoming.push_back([=](Sink& sink) {
            sink.gone(peer, {Code::peer_gone, "The scripted peer has ended", peer});
        });
    }
    int out_of_reach = -1, not_up = -1;       // a peer
    bool sleeps = false;                      // can be armed
    std::function<void()> asked_for_sleep{};  // called by sleep_max()
    int polls = 0;
    std::vector<ScriptedEndpoint> endpoints;  // by peer
    std::deque<std::function<void(Sink&)>> incoming;
};

class ScriptedWireup final : public Wireup {
public:
    explicit ScriptedWireup(int size) {
        job_.size = job_.local_size = job_.universe_size = size;
        job_.id = job_.tag = "scripted";
        job_.node_of.assign(static_cast<size_t>(size), 0);
        for (int rank = 0; rank < size; ++rank) job_.local_ranks.push_back(rank);
    }
    const Job& job() const override { return job_; }
    Status publish(std::string_view, ConstBytes) override { return {}; }
    Status fence() override { return {}; }
    Result<std::vector<std::byte>> lookup(int, std::string_view) override {
        return Error{Code::not_found, "Nothing is published here"};
    }
    [[noreturn]] void abort(int code, std::string_view) override { std::_Exit(code ? code : 1); }
    void on_peer_death(std::function<void(int)>) override {}
    Status finalize() override { return {}; }

private:
    Job job_;
};

// Rank 0 of `size`; errors are returned. It never finalizes, so its Process stays.
struct ScriptedWorld {
    explicit ScriptedWorld(int size = 3, int level = MPI_THREAD_SINGLE) {
        const char* const environment[] = {"POMONA_LOG=error", nullptr};
        process = new Process(environment);
        current_process = process;
        process->transports.push_back(std::make_unique<ScriptedTransport>(size));
        transport = static_cast<ScriptedTransport*>(process->transports.back().get());
        EXPECT_TRUE(process->start(level, std::make_unique<ScriptedWireup>(size)).ok());
        EXPECT_EQ(MPI_Init(nullptr, nullptr), MPI_SUCCESS);
        EXPECT_EQ(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), MPI_SUCCESS);
    }
    ~ScriptedWorld() { current_process = nullptr; }
    ScriptedWorld(const ScriptedWorld&) = delete;
    ScriptedEndpoint& peer(int rank) { return transport->endpoints[static_cast<size_t>(rank)]; }
    Engine& engine() { return process->engine; }
    uint64_t context() { return process->world()->context(); }
    void turns(int times = 10) {
        for (int i = 0; i < times; ++i) engine().turn();
    }
    // A message of 8 bytes to this rank.
    void message(int from, int tag, uint64_t value) {
        transport->frame(from, {context(), from, tag, sizeof value, FrameKind::eager, 0, 0},
                         {reinterpret_cast<const std::byte*>(&value), sizeof value});
    }
    // The question of a large message to this rank.
    void question(int from, int tag, size_t length, uint64_t token) {
        transport->frame(from, {context(), from, tag, length, FrameKind::rts, 0, token});
    }
    // The error of a request, which is over after a few looks at the latest.
    static int error_of(MPI_Request& request, MPI_Status* status = MPI_STATUS_IGNORE) {
        for (int i = 0; i < 100; ++i) {
            int over = 0;
            int error = MPI_Test(&request, &over, status);
            if (error != MPI_SUCCESS || over) return error;
        }
        ADD_FAILURE() << "the request is not over";
        return -1;
    }
    static bool pending(MPI_Request& request) {
        int over = 0;
        return MPI_Request_get_status(request, &over, MPI_STATUS_IGNORE) == MPI_SUCCESS && !over;
    }

    Process* process;
    ScriptedTransport* transport;
};

}  // namespace pomona
