// tests/fuzz/link_frames.cc: libFuzzer over the frames that a link takes from its paths.
// Any frames, in any order and mixed with own sends, broken paths and time that passes, end in what
// the rules of transport.h allow: a payload is given back once, nothing is read from it afterwards,
// pieces lie within what was asked for, and a process is told to be gone once, after which nothing
// arrives. The input's first byte chooses the paths, the others are actions with their operands.
#include "btl/link/link.h"
#include "btl/link/relay_wire.h"
#include "btl/link/wire.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <set>

using namespace pomona;

static void must(bool holds) {
    if (!holds) std::abort();
}

namespace {

constexpr size_t kRoom = 1 << 16;
constexpr int kPeer = 1;
constexpr int kRanks = 6;  // the others are behind the peer

struct FakeClock final : Clock {
    Nanoseconds now() override { return time; }
    Nanoseconds time = 1;
};

struct Frame {
    FrameHeader header;
    std::vector<std::byte> payload;
};

// One path to one peer, whose other end is the input.
struct FakePath final : Transport, Endpoint {
    explicit FakePath(bool reliable) : reliable(reliable) { caps_ = {0, 1 << 14, 1 << 15}; }
    // -- Transport
    const char* name() const override { return "fake"; }
    std::vector<std::byte> address() const override { return {std::byte{1}}; }
    Result<Endpoint*> connect(int, ConstBytes) override {
        if (state == 0) state = 1;
        return static_cast<Endpoint*>(this);
    }
    Endpoint* path(int) override { return this; }
    PathDescription describe(int) override { return {"fake", "wired", reliable, reliable, 0, 0}; }
    int poll(Sink& sink, int) override {
        if (state == 1) state = 2, sink.up(kPeer);
        int handed = 0;
        for (; state == 2 && !arriving.empty(); ++handed) {
            Frame frame = std::move(arriving.front());
            arriving.pop_front();
            hand(sink, frame);
        }
        if (breaks || abandoned) {
            bool was = state != 0;
            state = 0;
            breaks = abandoned = false;
            arriving.clear();
            rest = 0;
            if (was) sink.gone(kPeer, Error{Code::peer_gone, "of this test", kPeer});
        }
        return handed;
    }
    bool arm() override { return true; }
    void disarm() override {}
    void hand(Sink& sink, const Frame& frame) {
        std::byte* place = nullptr;
        if (frame.payload.size() > 64)
            place = sink.place(kPeer, frame.header, frame.payload.size());
        if (abandoned) return;
        if (place) {
            std::memcpy(place, frame.payload.data(), frame.payload.size());
            sink.arrive(kPeer, frame.header, {place, frame.payload.size()});
        } else {
            sink.arrive(kPeer, frame.header, frame.payload);
        }
    }
    // -- Endpoint
    Push push(const FrameHeader&, ConstBytes payload) override {
        if (state != 2 || abandoned) return state == 2 ? Push::gone : Push::busy;
        if (busy || rest != 0) return Push::busy;
        read(payload);
        return Push::sent;
    }
    Push push_fill(const FrameHeader& header, size_t length, FillFunction fill,
                   void* context) override {
        if (push(header, {}) != Push::sent) return Push::busy;
        std::vector<std::byte> bytes(length);
        fill(context, bytes);
        return Push::sent;
    }
    Push push_part(const FrameHeader& header, ConstBytes payload, size_t& taken) override {
        Push done = push(header, payload);
        if (done != Push::sent) return done;
        taken = payload.size() - payload.size() / 3;
        rest = payload.size() - taken;
        return done;
    }
    Push push_gathered(const FrameHeader& header, ConstBytes first, ConstBytes second,
                       size_t& taken) override {
        Push done = push_part(header, second, taken);
        if (done == Push::sent) read(first);
        return done;
    }
    Push push_rest(ConstBytes bytes, size_t& taken) override {
        must(bytes.size() == rest && !abandoned);
        if (busy) return Push::busy;
        read(bytes);
        taken = std::max<size_t>(1, bytes.size() / 2);
        rest -= taken;
        return Push::sent;
    }
    Pace pace() override { return {reliable ? 1.0 : 0.0, rest, 0}; }
    void abandon(const Error&) override { abandoned = true; }
    // What was given back must not be read: the sanitizer sees it, for it is freed.
    void read(ConstBytes bytes) {
        for (std::byte each : bytes) sum += std::to_integer<unsigned>(each);
    }

    bool reliable;
    int state = 0;  // 0: down, 1: being made, 2: up
    bool busy = false, breaks = false, abandoned = false;
    size_t rest = 0;
    unsigned sum = 0;
    std::deque<Frame> arriving;
};

struct FakeEngine final : Sink {
    std::byte* place(int peer, const FrameHeader& header, size_t length) override {
        must(!told.count(peer));
        if (header.word[0] % 4 != 1 || header.word[3] > kRoom || length > kRoom - header.word[3])
            return nullptr;
        return room.data() + header.word[3];
    }
    void arrive(int peer, const FrameHeader&, ConstBytes payload) override {
        must(!told.count(peer) && peer < kRanks);
        for (std::byte each : payload) sum += std::to_integer<unsigned>(each);
    }
    void gone(int peer, const Error&) override { must(told.insert(peer).second); }
    void released(int, uint64_t ticket) override { must(sending.erase(ticket) == 1); }

    std::set<int> told;
    unsigned sum = 0;
    std::vector<std::byte> room = std::vector<std::byte>(kRoom);
    std::map<uint64_t, std::vector<std::byte>> sending;
};

struct Input {
    ConstBytes bytes;
    uint64_t next(size_t width = 1) {
        uint64_t value = 0;
        width = std::min(width, bytes.size());
        std::memcpy(&value, bytes.data(), width);
        bytes = bytes.subspan(width);
        return value;
    }
};

struct World {
    World(bool several, bool reliable) {
        params.link_window = 64 << 10;
        std::vector<std::unique_ptr<Transport>> all;
        for (int i = 0; i < 1 + several; ++i) {
            paths.push_back(new FakePath(reliable || i == 1));
            all.emplace_back(paths.back());
        }
        LinkOptions options;
        options.clock = &clock;
        options.size = kRanks;
        options.relays = [] { return std::vector<int>{0, 1, 2}; };
        options.address_of = [](int) { return Error{Code::not_found}; };
        options.caps = {0, 1 << 14, 1 << 14};
        links = make_link_transport(params, counters, std::move(options), std::move(all));
        endpoint = *links->connect(kPeer, links->address());
    }
    // A frame as a peer might write it: its numbers are near what is due.
    Frame likely(Input& in) {
        link::LinkHeader header;
        uint64_t what = in.next();
        header.kind = static_cast<link::Kind>(1 + what % 6);
        header.flags = static_cast<uint8_t>(what >> 5);
        header.number = in.next();
        header.next_message = in.next();
        header.next_piece = in.next();
        header.place = in.next();
        header.offset = in.next() * 100;
        header.time = in.next();
        size_t length = in.next() * 20;
        Frame frame{header.pack(), std::vector<std::byte>(length)};
        if (header.kind == link::Kind::state) {
            std::vector<link::Range> ranges[2];
            for (auto& list : ranges)
                for (uint64_t n = in.next() % 3; n > 0; --n) {
                    uint64_t first = in.next();
                    list.push_back({first, first + in.next() % 8});
                }
            frame.payload = link::write_ranges(ranges[0], ranges[1]);
        }
        if (header.kind == link::Kind::relay) frame.payload = for_others(in);
        return frame;
    }
    // A frame of a path through others that comes from the peer.
    static std::vector<std::byte> for_others(Input& in) {
        link::RelayHeader header;
        header.kind = static_cast<link::RelayKind>(in.next() % 8);
        header.at = in.next() % 6;
        header.route.count = in.next() % 6;
        for (size_t i = 0; i < header.route.count; ++i)
            header.route.ranks[i] = static_cast<uint32_t>(in.next() % (kRanks + 1));
        header.name = {static_cast<uint32_t>(in.next()), static_cast<uint32_t>(in.next())};
        header.sent = in.next(2);
        header.got = in.next(2);
        std::vector<std::byte> out(link::kRelayHead + in.next());
        header.write(out.data());
        for (size_t i = link::kRelayHead; i < out.size(); ++i)
            out[i] = static_cast<std::byte>(in.next());
        return out;
    }
    void act(Input& in) {
        FakePath& path = *paths[in.next() % paths.size()];
        uint64_t ticket = ++tickets;
        switch (in.next() % 9) {
        case 0:
        case 1: path.arriving.push_back(likely(in)); break;
        case 2: {
            Frame frame{};
            for (uint64_t& word : frame.header.word) word = in.next(8);
            frame.payload.resize(in.next(2) % 4000);
            path.arriving.push_back(std::move(frame));
            break;
        }
        case 3: {
            std::vector<std::byte> payload(in.next(2) % (16 << 10));
            endpoint->push({{1, 2, 3, 4}}, payload);
            break;
        }
        case 4: {
            auto& payload = engine.sending[ticket];
            payload.resize((8 << 10) + in.next(2) % (8 << 10));
            bool held = false;
            Push push = endpoint->push_held({{1, 2, 3, 4}}, payload, ticket, held);
            if (push != Push::sent || !held) engine.sending.erase(ticket);
            break;
        }
        case 5: {
            auto& payload = engine.sending[ticket];
            payload.resize(1 + in.next(3) % (600 << 10));
            Bulk bulk;
            bulk.place = 1;
            bulk.ticket = ticket;
            bulk.length = payload.size();
            bulk.data = payload.data();
            if (endpoint->push_bulk(bulk) != Push::sent) engine.sending.erase(ticket);
            break;
        }
        case 6: path.breaks = true; break;
        case 7: path.busy = !path.busy; break;
        default: clock.time += static_cast<Nanoseconds>(in.next()) * 3'000'000; break;
        }
        links->poll(engine, 16);
        // The memory is the caller's: nobody may look at it any more.
        if (engine.told.count(kPeer)) engine.sending.clear();
    }

    Params params;
    Counters counters;
    FakeClock clock;
    std::vector<FakePath*> paths;  // owned by `links`
    FakeEngine engine;
    std::unique_ptr<Transport> links;
    Endpoint* endpoint = nullptr;
    uint64_t tickets = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) return 0;
    Input in{{reinterpret_cast<const std::byte*>(data), size}};
    uint64_t paths = in.next();
    World world((paths & 1) != 0, (paths & 2) != 0);
    while (!in.bytes.empty()) world.act(in);
    return 0;
}
