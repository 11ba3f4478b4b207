// tests/unit/manual_carrier.h: a carrier that keeps every operation until the test ends it, and a
// completion that counts.
#pragma once

#include "coll/run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace pomona::coll {

class ManualCarrier final : public Carrier {
public:
    struct Operation {
        bool send;
        int peer, slot;
        size_t length;
        Completion* done;
    };
    std::vector<Operation> operations;
    int cancelled = 0;
    int at_once = 0;                 // so many posts, looks or messages are over at once
    std::vector<int> messages_over;  // those: to a peer, or from one (negative)
    bool lending = false;
    std::vector<Completion*> next;  // parts of what is computed; only with `turns`
    bool turns = false;
    bool helping = false;
    std::vector<std::pair<AsideReduction, Completion*>> helped;
    std::vector<ReducingReceive*> reducing;
    std::vector<Bytes> received;
    std::vector<std::byte> own_chunk = std::vector<std::byte>(kPieceBytes);  // for all there are

    bool lends(int) override { return lending; }
    void recv_reducing(int peer, int slot, size_t length, ReducingReceive& receive,
                       Completion& done) override {
        operations.push_back({false, peer, slot, length, &done});
        reducing.push_back(&receive);
    }
    bool later(Completion& part) override {
        if (turns) next.push_back(&part);
        return turns;
    }
    bool aside(const AsideReduction& reduction, Completion& done) override {
        if (helping) helped.emplace_back(reduction, &done);
        return helping;
    }
    // What an engine does in a turn.
    void turn() {
        for (Completion* each : std::exchange(next, {})) each->function(each, nullptr);
    }
    void send(int peer, int slot, ConstBytes data, Completion& done) override {
        operations.push_back({true, peer, slot, data.size(), &done});
    }
    void recv(int peer, int slot, Bytes data, Completion& done) override {
        operations.push_back({false, peer, slot, data.size(), &done});
        received.push_back(data);
    }
    void post(ConstBytes data, size_t, Completion& done) override {
        operations.push_back({true, -1, 0, data.size(), &done});
    }
    void look(int peer, size_t, size_t said, Bytes, Completion& done) override {
        operations.push_back({false, peer, 0, said_bytes(said), &done});
    }
    std::byte* chunk(int, int) override { return own_chunk.data(); }
    bool post_now(ConstBytes, size_t) { return at_once > 0 && at_once--; }
    bool look_now(int, size_t, size_t, Bytes) { return at_once > 0 && at_once--; }
    bool send_now(int peer, int, ConstBytes) { return note_now(peer); }
    bool recv_now(int peer, int, Bytes) { return note_now(-peer); }
    void cancel(Completion& done) override {
        if (std::find(next.begin(), next.end(), &done) != next.end()) return;  // it cannot
        for (const auto& [reduction, its_done] : helped)
            if (its_done == &done) return;
        ++cancelled;
        end(done, &kWithdrawn);
    }
    void end(Completion& done, const Error* error = nullptr) {
        for (auto it = operations.begin(); it != operations.end(); ++it)
            if (it->done == &done) {
                operations.erase(it);
                return done.function(&done, error);
            }
        FAIL() << "an operation ended twice";
    }

private:
    bool note_now(int peer) {
        if (at_once == 0) return false;
        return --at_once, messages_over.push_back(peer), true;
    }
    const Error kWithdrawn{Code::internal, "Withdrawn", -1, 0};
};

struct Done : Completion {
    Done() {
        function = [](Completion* self, const Error* error) {
            auto* done = static_cast<Done*>(self);
            ++done->calls;
            if (error) done->error = *error;
        };
    }
    int calls = 0;
    Error error{Code::ok, "", -1, 0};
};

}  // namespace pomona::coll
