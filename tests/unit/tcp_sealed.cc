// tests/unit/tcp_sealed.cc: encrypted TCP connections.
// Goal: what is read is what was written, whatever the sizes; nothing of it can be seen on the
// wire; what somebody changes, leaves out, doubles or moves there is never handed on and ends the
// connection, which the path makes again; either end's wish is enough. Method: records through a
// wire in memory whose every bit is changed once; two transports whose connections go through a
// relay of the test.
#include "btl/tcp/sealed.h"

#include "btl/base/random.h"
#include "btl/base/sleeper.h"
#include "btl/tcp/tcp.h"
#include "tests/unit/tcp_identity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <string_view>

namespace pomona {
namespace {

constexpr std::string_view kSecret = "nobody but the two of us knows that the rank is 1";

std::vector<std::byte> random_bytes_of(Random& random, size_t length) {
    std::vector<std::byte> out(length);
    for (std::byte& each : out) each = static_cast<std::byte>(random.next());
    return out;
}

bool holds(const std::vector<std::byte>& bytes, std::string_view words) {
    std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return all.find(words) != all.npos;
}

// Bytes on their way; takes and gives at most so many at once.
struct Memory final : tcp::Wire {
    ssize_t write_wire(ConstBytes given) override {
        size_t part = std::min(given.size(), room);
        bytes.insert(bytes.end(), given.begin(), given.begin() + static_cast<ptrdiff_t>(part));
        return static_cast<ssize_t>(part);
    }
    ssize_t read_wire(Bytes place) override {
        size_t part = std::min({place.size(), bytes.size(), most});
        std::copy_n(bytes.begin(), part, place.begin());
        bytes.erase(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(part));
        return static_cast<ssize_t>(part);
    }
    std::vector<std::byte> bytes;
    size_t room = SIZE_MAX, most = SIZE_MAX;
};

const link::Crypto& crypto() { return *tcp_identity(0, 2)->crypto; }

struct Ends {
    explicit Ends(uint64_t records_per_key = tcp::kRecordsPerKey)
        : writer(crypto(), {std::byte{1}}, {std::byte{2}}, records_per_key),
          reader(crypto(), {std::byte{2}}, {std::byte{1}}, records_per_key) {}
    tcp::Sealed writer, reader;
    Memory wire;
};

// Any lengths, partial writes and reads, keys that change after 3 records.
TEST(Sealed, carries_any_bytes) {
    for (uint64_t records_per_key : {uint64_t{3}, tcp::kRecordsPerKey}) {
        Ends ends(records_per_key);
        Random random(20261122);
        std::vector<std::byte> sent, got;
        for (int round = 0; round < 3000; ++round) {
            ends.wire.room = random.chance(0.3) ? random.below(3000) : SIZE_MAX;
            ends.wire.most = random.chance(0.3) ? 1 + random.below(3000) : SIZE_MAX;
            size_t longest = random.chance(0.1) ? 300'000 : 200;
            auto first = random_bytes_of(random, random.below(longest));
            auto second = random_bytes_of(random, 1 + random.below(longest));
            ssize_t taken = ends.writer.write(ends.wire, first, second);
            ASSERT_GE(taken, 0);
            first.insert(first.end(), second.begin(), second.end());
            sent.insert(sent.end(), first.begin(), first.begin() + taken);
            if (random.chance(0.2)) continue;
            std::vector<std::byte> here(random.below(2 * longest)), behind(random.below(300));
            ssize_t read = ends.reader.read(ends.wire, here, behind);
            ASSERT_GE(read, 0);
            here.insert(here.end(), behind.begin(), behind.end());
            got.insert(got.end(), here.begin(), here.begin() + read);
            EXPECT_TRUE(static_cast<size_t>(read) == here.size() || !ends.reader.buffered());
        }
        ends.wire.room = ends.wire.most = SIZE_MAX;
        ASSERT_TRUE(ends.writer.flush(ends.wire));
        for (ssize_t read = 1; read > 0;) {
            std::vector<std::byte> here(100'000);
            read = ends.reader.read(ends.wire, here, {});
            ASSERT_GE(read, 0);
            got.insert(got.end(), here.begin(), here.begin() + read);
        }
        EXPECT_GT(sent.size(), 10'000'000u);
        EXPECT_TRUE(sent == got);
    }
}

// Reads all; false when the connection is over.
bool read_all(Ends& ends, std::vector<std::byte>& got) {
    for (;;) {
        std::vector<std::byte> here(1000);
        ssize_t read = ends.reader.read(ends.wire, here, {});
        if (read < 0) {
            EXPECT_EQ(errno, EBADMSG);
            return false;
        }
        got.insert(got.end(), here.begin(), here.begin() + read);
        if (read == 0) return true;
    }
}

// Three records of 40 bytes each.
std::vector<std::byte> three(Ends& ends) {
    for (int i = 0; i < 3; ++i)
        EXPECT_EQ(ends.writer.write(ends.wire, bytes_of(kSecret.substr(0, 40)), {}), 40);
    return ends.wire.bytes;
}
constexpr size_t kRecord = tcp::kRecordHead + 40 + link::Seal::kTag;

TEST(Sealed, hides_what_is_sent) {
    Ends ends;
    auto bytes = three(ends);
    EXPECT_EQ(bytes.size(), 3 * kRecord);
    EXPECT_FALSE(holds(bytes, kSecret.substr(0, 8)));
    // The same bytes do not look the same twice.
    EXPECT_FALSE(std::equal(bytes.begin(), bytes.begin() + kRecord, bytes.begin() + kRecord));
}

TEST(Sealed, hands_on_nothing_that_was_changed) {
    for (size_t bit = 0; bit < 8 * 2 * kRecord; ++bit) {
        Ends ends;
        three(ends);
        ends.wire.bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
        std::vector<std::byte> got;
        bool more = read_all(ends, got);
        size_t whole = bit / 8 / kRecord;
        EXPECT_EQ(got.size(), 40 * whole) << "bit " << bit;
        // A longer length is waited for; nothing that follows can make it right.
        if (!more) continue;
        EXPECT_LT(bit / 8 % kRecord, tcp::kRecordHead);
        ends.wire.bytes.assign(2 * tcp::kRecordMost, std::byte{0});
        EXPECT_FALSE(read_all(ends, got)) << "bit " << bit;
        EXPECT_EQ(got.size(), 40 * whole) << "bit " << bit;
    }
}

TEST(Sealed, refuses_records_out_of_their_order) {
    auto record = [](size_t n) { return static_cast<ptrdiff_t>(n * kRecord); };
    for (std::string_view manner : {"replayed", "left out", "exchanged", "of another connection"}) {
        Ends ends;
        auto bytes = three(ends);
        auto& wire = ends.wire.bytes;
        size_t right = 1;
        if (manner == "replayed")
            wire.insert(wire.begin() + record(1), bytes.begin(), bytes.begin() + record(1));
        if (manner == "left out") wire.erase(wire.begin() + record(1), wire.begin() + record(2));
        if (manner == "exchanged")
            std::swap_ranges(wire.begin() + record(1), wire.begin() + record(2),
                             wire.begin() + record(2));
        if (manner == "of another connection") {
            ends.reader = tcp::Sealed(crypto(), {std::byte{2}}, {std::byte{3}});
            right = 0;
        }
        std::vector<std::byte> got;
        EXPECT_FALSE(read_all(ends, got)) << manner;
        EXPECT_EQ(got.size(), 40 * right) << manner;
    }
}

// ---- between transports

struct Receiver final : Sink {
    std::byte* place(int, const FrameHeader&, size_t length) override {
        room.resize(length);
        return room.data();
    }
    void arrive(int, const FrameHeader&, ConstBytes payload) override {
        right += payload.size() >= kSecret.size() &&
                 std::memcmp(payload.data(), kSecret.data(), kSecret.size()) == 0;
        ++arrived;
    }
    void up(int) override { ++ups, is_up = true; }
    void gone(int, const Error& error) override { is_up = false, why = error.text(); }
    std::vector<std::byte> room;
    int arrived = 0, right = 0, ups = 0;
    bool is_up = false;
    std::string why;
};

// Passes bytes on between who connects to it and a rank; keeps them, and may change one bit.
struct Relay {
    explicit Relay(uint16_t target) : target(target) {
        listener = std::move(tcp::Socket::listen("127.0.0.1", 0).value());
    }
    void turn() {
        tcp::Socket made = listener.accept();
        if (made.open()) {
            near = std::move(made);
            far = std::move(tcp::Socket::connect("127.0.0.1", target, 0).value());
            connected = false;
        }
        if (!near.open()) return;
        if (!connected && far.finished() != 1) return;
        connected = true;
        bool on = pass(near, far) && pass(far, near);
        if (!on) near.close(), far.close();
    }
    bool pass(tcp::Socket& from, tcp::Socket& to) {
        std::byte bytes[4096];
        ssize_t got = from.read(bytes, {});
        if (got <= 0) return got == 0;
        Bytes all(bytes, static_cast<size_t>(got));
        if (flip) all[all.size() / 2] ^= std::byte{4};
        flip = false;
        seen.insert(seen.end(), all.begin(), all.end());
        for (int copies = std::exchange(twice, false) ? 2 : 1; copies > 0; --copies)
            for (ConstBytes rest = all; !rest.empty();) {
                ssize_t moved = to.write(rest, {});
                if (moved < 0) return false;
                rest = rest.subspan(static_cast<size_t>(moved));
            }
        return true;
    }
    uint16_t target;
    tcp::Socket listener, near, far;
    bool connected = false, flip = false, twice = false;
    std::vector<std::byte> seen;
};

struct Pair {
    Pair(const char* dialers, const char* listeners) {
        const char* encrypt[] = {dialers, listeners};
        for (int rank = 0; rank < 2; ++rank) {
            params[rank].encrypt = encrypt[rank];
            TcpOptions options{tcp_identity(rank, 2), true, nullptr};
            options.makes_paths = true;
            auto made = make_tcp_transport(params[rank], counters, std::move(options));
            EXPECT_TRUE(made.ok());
            ranks[rank] = std::move(*made);
        }
        relay = std::make_unique<Relay>(tcp::parse_address(ranks[1]->address())->places[0].port);
        dial();
    }
    void dial() {
        auto address = address_at(relay->listener.port(), {"127.0.0.1"});
        EXPECT_TRUE(ranks[0]->connect(1, tcp::write_address(address)).ok());
    }
    template <class Condition> bool until(Condition condition) {
        RealClock clock;
        for (Nanoseconds end = clock.now() + 20'000'000'000; clock.now() < end;) {
            if (condition()) return true;
            relay->turn();
            for (int rank = 0; rank < 2; ++rank) {
                ranks[rank]->poll(sinks[rank], 16);
                ranks[rank]->arm();
                ranks[rank]->disarm();
            }
        }
        return false;
    }
    bool both_up() {
        return until([&] { return sinks[0].is_up && sinks[1].is_up; });
    }
    bool send(size_t length) {
        std::vector<std::byte> payload(length);
        for (size_t at = 0; at + kSecret.size() <= length; at += kSecret.size())
            std::memcpy(payload.data() + at, kSecret.data(), kSecret.size());
        return until([&] {
            return ranks[0]->path(1)->push({{1, 2, 3, 4}}, payload) == Push::sent;
        });
    }
    Params params[2];
    Counters counters;
    std::unique_ptr<Transport> ranks[2];
    Receiver sinks[2];
    std::unique_ptr<Relay> relay;
};

// Either end's wish is enough, and without one nothing is encrypted.
TEST(Encrypted, where_one_end_wants_it) {
    struct Row {
        const char *dialer, *listener;
        bool hidden;
    };
    for (Row row : {Row{"", "", false},
                    {"all", "", true},
                    {"", "all", true},
                    {"all", "all", true},
                    {"wifi,network", "no", false},
                    {"wifi,loopback", "", true}}) {
        Pair pair(row.dialer, row.listener);
        ASSERT_TRUE(pair.both_up()) << row.dialer << " and " << row.listener;
        for (size_t length : {50, 5000, 500'000}) ASSERT_TRUE(pair.send(length));
        ASSERT_TRUE(pair.until([&] { return pair.sinks[1].arrived == 3; }));
        EXPECT_EQ(pair.sinks[1].right, 3);
        EXPECT_GT(pair.relay->seen.size(), 505'000u);
        EXPECT_EQ(holds(pair.relay->seen, kSecret), !row.hidden)
            << row.dialer << " and " << row.listener;
    }
}

// A bit changed on the way, or bytes sent twice: the path is lost, nothing wrong arrives, and the
// path can be made again.
TEST(Encrypted, ends_when_somebody_interferes) {
    for (bool flip : {true, false}) {
        Pair pair("all", "");
        ASSERT_TRUE(pair.both_up() && pair.send(100));
        ASSERT_TRUE(pair.until([&] { return pair.sinks[1].arrived == 1; }));
        (flip ? pair.relay->flip : pair.relay->twice) = true;
        ASSERT_TRUE(pair.send(100));
        ASSERT_TRUE(pair.until([&] { return !pair.sinks[1].is_up; }));
        EXPECT_NE(pair.sinks[1].why.find("Encrypted bytes were changed on their way"),
                  std::string::npos)
            << pair.sinks[1].why;
        EXPECT_EQ(pair.sinks[1].arrived, flip ? 1 : 2);
        EXPECT_EQ(pair.sinks[1].right, pair.sinks[1].arrived);
        ASSERT_TRUE(pair.until([&] { return !pair.sinks[0].is_up; }));
        pair.dial();
        ASSERT_TRUE(pair.both_up() && pair.send(100'000));
        int before = pair.sinks[1].arrived;
        ASSERT_TRUE(pair.until([&] { return pair.sinks[1].arrived == before + 1; }));
        EXPECT_EQ(pair.sinks[1].right, pair.sinks[1].arrived);
    }
}

// The same without encryption goes unnoticed here: this test can see a difference.
TEST(Encrypted, or_else_a_changed_bit_arrives) {
    Pair pair("", "");
    ASSERT_TRUE(pair.both_up() && pair.send(100));
    ASSERT_TRUE(pair.until([&] { return pair.sinks[1].arrived == 1; }));
    pair.relay->flip = true;
    ASSERT_TRUE(pair.send(100));
    ASSERT_TRUE(pair.until([&] { return pair.sinks[1].arrived == 2; }));
    EXPECT_TRUE(pair.sinks[1].is_up);
}

TEST(Encrypted, words_that_mean_nothing_are_named) {
    std::vector<tcp::InterfaceKind> kinds;
    EXPECT_EQ(tcp::parse_encrypt("", kinds), "");
    EXPECT_TRUE(kinds.empty());
    EXPECT_EQ(tcp::parse_encrypt("wifi,network", kinds), "");
    EXPECT_EQ(kinds.size(), 3u);
    for (const char* bad : {"wifi,", "eth0", "all,some", "10.0.0.0/8", "WIFI"})
        EXPECT_EQ(tcp::parse_encrypt(bad, kinds).find("encrypt: \""), 0u) << bad;
    Params params;
    params.encrypt = "wlan";
    Counters counters;
    EXPECT_FALSE(make_tcp_transport(params, counters, {tcp_identity(0, 2), true, nullptr}).ok());
}

}  // namespace
}  // namespace pomona
