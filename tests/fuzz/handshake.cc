// tests/fuzz/handshake.cc: libFuzzer over the handshake of a new connection.
// Whatever arrives, nobody is let in without the key: bytes that a stranger sends to a listener or
// answers to a dialer, and handshakes of two ranks of a job of which some bytes are changed on the
// way. The first byte chooses among the three.
#include "btl/link/handshake.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>

using namespace pomona;
using namespace pomona::link;
using State = Handshake::State;

static void must(bool holds) {
    if (!holds) std::abort();
}

static Identity identity_of(int rank, bool differs) {
    std::string why;
    auto crypto = Crypto::open(why);
    must(crypto.ok());
    Identity made;
    made.crypto = *crypto;
    made.key[0] = std::byte{1};
    made.job = "job";
    made.rank = rank;
    made.size = 8;
    made.fingerprint.add("bcast", differs ? "ring" : "auto", "this test");
    return made;
}

// No more than it wants, as long as it wants something.
static void feed(Handshake& to, ConstBytes bytes) {
    while (!bytes.empty() && to.state() == State::waiting) {
        size_t part = std::min(bytes.size(), to.wants());
        must(part > 0);
        to.feed(bytes.first(part));
        bytes = bytes.subspan(part);
    }
}

static void stranger(Handshake handshake, ConstBytes bytes) {
    feed(handshake, bytes);
    must(handshake.state() == State::waiting || handshake.state() == State::refused);
    must(!handshake.proved());
}

// Each three bytes change one byte of all that is said, at a place (16 bits).
static void both_sides(ConstBytes changes, bool lower_dials, bool differs) {
    Identity lower = identity_of(2, false), higher = identity_of(5, differs);
    Nonce one{std::byte{1}}, other{std::byte{2}};
    Handshake ends[2] = {lower_dials ? Handshake::dial(lower, 5, 0, one, 0)
                                     : Handshake::dial(higher, 2, 0, one, 0),
                         Handshake::listen(lower_dials ? higher : lower, 0, other)};
    size_t said = 0;
    bool changed = false;
    for (int turn = 0; turn < 8; ++turn) {
        Handshake& from = ends[turn % 2];
        if (from.state() == State::decide) from.accept(1);
        std::vector<std::byte> bytes = from.take_output();
        for (ConstBytes each = changes; each.size() >= 3; each = each.subspan(3)) {
            size_t place = std::to_integer<size_t>(each[0]) | std::to_integer<size_t>(each[1]) << 8;
            if (place < said || place >= said + bytes.size()) continue;
            bytes[place - said] ^= each[2];
            changed = changed || each[2] != std::byte{0};
        }
        said += bytes.size();
        feed(ends[1 - turn % 2], bytes);
    }
    Handshake& follower = ends[lower_dials ? 1 : 0];
    State right = differs ? State::different : State::done;
    if (!changed) must(follower.state() == right);
    if (differs) must(ends[0].state() != State::done && ends[1].state() != State::done);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) return 0;
    ConstBytes rest{reinterpret_cast<const std::byte*>(data) + 1, size - 1};
    static const Identity own = identity_of(2, false);
    switch (data[0] % 4) {
    case 0: stranger(Handshake::listen(own, 0, {}), rest); break;
    case 1: stranger(Handshake::dial(own, 5, 0, {}, 0), rest); break;
    case 2: both_sides(rest, data[0] & 4, false); break;
    default: both_sides(rest, data[0] & 4, true); break;
    }
    return 0;
}
