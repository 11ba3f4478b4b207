// tests/unit/handshake.cc: how two ends of a connection prove that they are of one job.
// Goal: ranks of a job agree on one connection, whoever dials; nobody else gets anywhere: with
// another key, job or rank, with any byte changed, with messages replayed or reflected; ranks that
// differ in what they must agree on learn in what. Method: both state machines in one test, whose
// messages it carries, cuts, changes and replays; the library's functions against vectors of their
// standards.
#include "btl/link/handshake.h"

#include "btl/base/random.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace pomona::link {
namespace {

const Crypto& crypto() {
    std::string why;
    auto opened = Crypto::open(why);
    EXPECT_TRUE(opened.ok()) << why;
    return **opened;
}

std::vector<std::byte> hex(std::string_view text) {
    std::vector<std::byte> out;
    for (size_t i = 0; i + 1 < text.size(); i += 2)
        out.push_back(
            static_cast<std::byte>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16)));
    return out;
}

Identity identity_of(int rank, uint64_t key = 1) {
    Identity made;
    made.crypto = &crypto();
    Random random(key);
    for (std::byte& each : made.key) each = static_cast<std::byte>(random.next());
    made.job = "a job";
    made.rank = rank;
    made.size = 8;
    made.fingerprint.add("eager_max", "4096", "mpirun --set");
    return made;
}

Nonce nonce_of(uint64_t seed) {
    Random random(seed);
    Nonce out;
    for (std::byte& each : out) each = static_cast<std::byte>(random.next());
    return out;
}

using State = Handshake::State;

// Brings `bytes` to an end, in pieces of random length and no more than it wants.
void bring(Handshake& to, ConstBytes bytes, Random& random) {
    while (!bytes.empty() && to.state() == State::waiting) {
        size_t part = std::min<size_t>(bytes.size(), 1 + random.below(to.wants()));
        to.feed(bytes.first(part));
        bytes = bytes.subspan(part);
    }
}

// Messages go to and fro until nobody has any.
void converse(Handshake& a, Handshake& b, Random& random) {
    for (int round = 0; round < 10; ++round) {
        auto from_a = a.take_output();
        bring(b, from_a, random);
        auto from_b = b.take_output();
        bring(a, from_b, random);
        if (from_a.empty() && from_b.empty()) return;
    }
}

TEST(Handshake, agrees_whoever_dials) {
    Random random(1);
    for (int round = 0; round < 50; ++round)
        for (auto [dialer, listener] : {std::pair{2, 5}, std::pair{5, 2}}) {
            Identity here = identity_of(dialer), there = identity_of(listener);
            there.encrypts = round % 2;
            Handshake a = Handshake::dial(here, listener, 3, nonce_of(random.next()), 17);
            Handshake b = Handshake::listen(there, 4, nonce_of(random.next()));
            converse(a, b, random);
            Handshake& lower = dialer < listener ? a : b;
            Handshake& higher = dialer < listener ? b : a;
            ASSERT_EQ(lower.state(), State::decide);
            ASSERT_EQ(higher.state(), State::waiting);
            EXPECT_EQ(b.peer(), dialer);
            EXPECT_EQ(a.peer_path(), 4);
            EXPECT_EQ(b.peer_path(), 3);
            if (dialer > listener) { EXPECT_EQ(b.seen(), 17u); }
            lower.accept(18);
            converse(a, b, random);
            ASSERT_EQ(higher.state(), State::done);
            EXPECT_EQ(higher.number(), 18u);
            EXPECT_EQ(a.wants() + b.wants(), 0u);
            ASSERT_EQ(a.encrypted(), round % 2 == 1);
            ASSERT_EQ(b.encrypted(), a.encrypted());
            EXPECT_EQ(a.keys().from_dialer, b.keys().from_dialer);
            EXPECT_EQ(a.keys().from_listener, b.keys().from_listener);
            if (a.encrypted()) { EXPECT_NE(a.keys().from_dialer, a.keys().from_listener); }
        }
}

// Whatever differs, the end that would use the connection refuses.
TEST(Handshake, refuses_who_is_not_of_the_job) {
    Random random(2);
    enum class Fault { key, job, itself, to, from, size };
    for (Fault fault : {Fault::key, Fault::job, Fault::itself, Fault::to, Fault::from, Fault::size})
        for (auto [dialer, listener] : {std::pair{2, 5}, std::pair{5, 2}}) {
            SCOPED_TRACE(static_cast<int>(fault));
            Identity here = identity_of(dialer, fault == Fault::key ? 2 : 1);
            Identity there = identity_of(listener);
            if (fault == Fault::job) here.job = "another job";
            if (fault == Fault::itself) here.rank = listener;
            if (fault == Fault::size) here.rank = 8;
            int meant = fault == Fault::to ? 7 : listener;
            Handshake a = Handshake::dial(here, meant, 0, nonce_of(1), 0);
            if (fault == Fault::from) there.rank = 4;  // somebody else answers
            Handshake b = Handshake::listen(there, 0, nonce_of(2));
            converse(a, b, random);
            EXPECT_NE(a.state(), State::decide);
            EXPECT_NE(b.state(), State::decide);
            EXPECT_TRUE(a.state() == State::refused || b.state() == State::refused);
        }
}

// A byte changed on the way, in any message: nobody decides for the connection, and nobody uses it.
TEST(Handshake, refuses_what_was_changed) {
    Random random(3);
    for (auto [dialer, listener] : {std::pair{2, 5}, std::pair{5, 2}}) {
        Identity here = identity_of(dialer), there = identity_of(listener);
        // Of the four messages, `which` is changed at `place`; until there is no such byte.
        for (int which = 0; which < 4; ++which)
            for (size_t place = 0;; ++place) {
                Handshake a = Handshake::dial(here, listener, 0, nonce_of(random.next()), 3);
                Handshake b = Handshake::listen(there, 0, nonce_of(random.next()));
                bool changed = false, decided = false;
                int said = 0;
                for (int turn = 0; turn < 6; ++turn) {
                    Handshake& from = turn % 2 == 0 ? a : b;
                    Handshake& to = turn % 2 == 0 ? b : a;
                    if (from.state() == State::decide) from.accept(4), decided = true;
                    auto bytes = from.take_output();
                    if (bytes.empty()) continue;
                    if (said++ == which && place < bytes.size()) {
                        bytes[place] ^= static_cast<std::byte>(1 << random.below(8));
                        changed = true;
                    }
                    bring(to, bytes, random);
                }
                if (!changed) break;
                Handshake& higher = dialer < listener ? b : a;
                EXPECT_NE(higher.state(), State::done) << which << " " << place;
                // The one that decides has done so before the last message, if only that was
                // changed.
                EXPECT_TRUE(!decided || which == said - 1) << which << " " << place;
            }
    }
}

// Messages of one handshake, brought to a listener again; and a dialer's own words back to it.
TEST(Handshake, refuses_replays_and_reflections) {
    Random random(4);
    Identity here = identity_of(5), there = identity_of(2);
    Handshake a = Handshake::dial(here, 2, 0, nonce_of(1), 0);
    Handshake b = Handshake::listen(there, 0, nonce_of(2));
    auto hello = a.take_output();
    bring(b, hello, random);
    auto challenge = b.take_output();
    bring(a, challenge, random);
    auto proof = a.take_output();
    bring(b, proof, random);
    ASSERT_EQ(b.state(), State::decide);
    // The listener asks something else each time.
    Handshake again = Handshake::listen(there, 0, nonce_of(3));
    bring(again, hello, random);
    bring(again, proof, random);
    EXPECT_EQ(again.state(), State::refused);
    // So does the dialer.
    Handshake dialer = Handshake::dial(here, 2, 0, nonce_of(4), 0);
    bring(dialer, challenge, random);
    EXPECT_EQ(dialer.state(), State::refused);
    // Rank 2's own challenge and hello prove nothing to rank 2.
    Handshake mirror = Handshake::dial(there, 5, 0, nonce_of(5), 0);
    Handshake behind = Handshake::listen(there, 0, nonce_of(6));
    auto own = mirror.take_output();
    bring(behind, own, random);
    EXPECT_EQ(behind.state(), State::refused);
    bring(mirror, challenge, random);
    EXPECT_EQ(mirror.state(), State::refused);
}

TEST(Handshake, tells_in_what_ranks_differ) {
    Random random(5);
    for (auto [dialer, listener] : {std::pair{2, 5}, std::pair{5, 2}}) {
        Identity here = identity_of(dialer), there = identity_of(listener);
        there.fingerprint = {};
        there.fingerprint.add("eager_max", "8192", "POMONA_EAGER_MAX");
        Handshake a = Handshake::dial(here, listener, 0, nonce_of(1), 0);
        Handshake b = Handshake::listen(there, 0, nonce_of(2));
        converse(a, b, random);
        EXPECT_EQ(a.state(), State::different);
        EXPECT_EQ(b.state(), State::different);
        EXPECT_EQ(difference_of({"this", here.fingerprint}, {"that", a.peer_facts()}),
                  "this has eager_max = 4096 (mpirun --set), that has eager_max = 8192 "
                  "(POMONA_EAGER_MAX)");
        EXPECT_EQ(b.peer_facts().bytes(), here.fingerprint.bytes());
    }
}

// Facts that were changed on the way are not believed.
TEST(Handshake, facts_are_proved) {
    Random random(6);
    Identity here = identity_of(2), there = identity_of(5);
    there.fingerprint.add("more", "1", "here");
    Handshake a = Handshake::dial(here, 5, 0, nonce_of(1), 0);
    Handshake b = Handshake::listen(there, 0, nonce_of(2));
    bring(b, a.take_output(), random);
    bring(a, b.take_output(), random);
    auto facts = a.take_output();  // with the proof before it
    size_t length = here.fingerprint.bytes().size() + 44;
    for (size_t place = facts.size() - length; place < facts.size(); ++place) {
        Handshake fresh = b;
        auto changed = facts;
        changed[place] ^= std::byte{4};
        bring(fresh, changed, random);
        EXPECT_NE(fresh.state(), State::different) << place;
    }
}

// ---- the library

TEST(Crypto, hmac_as_in_rfc_4231) {
    Digest out;
    auto key = hex("4a656665");
    ASSERT_TRUE(
        crypto().authenticate(key, {bytes_of("what do ya want "), bytes_of("for nothing?")}, out));
    auto right = hex("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    EXPECT_TRUE(same_bytes(out, right));
}

TEST(Crypto, hkdf_as_in_rfc_5869) {
    Digest out;
    auto secret = hex("0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b");
    ASSERT_TRUE(crypto().derive(secret, hex("000102030405060708090a0b0c"),
                                hex("f0f1f2f3f4f5f6f7f8f9"), out));
    auto right = hex("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf");
    EXPECT_TRUE(same_bytes(out, right));
}

// Test case 13 of the GCM specification: a key and a nonce of zeros, no data. And records of all
// lengths.
TEST(Crypto, records_open_as_they_were_closed) {
    Digest zeros{};
    std::byte tag[Seal::kTag];
    ASSERT_TRUE(crypto().seal(zeros)->close(0, {}, {}, nullptr, tag));
    EXPECT_TRUE(same_bytes(ConstBytes(tag, sizeof tag), hex("530f8afbc74536b9a963b4f1c4cb738b")));
    Random random(7);
    auto closer = crypto().seal(zeros), opener = crypto().seal(zeros);
    for (uint64_t number = 0; number < 200; ++number) {
        std::vector<std::byte> plain(random.below(3000)), sealed(plain.size()), back(plain.size());
        for (std::byte& each : plain) each = static_cast<std::byte>(random.next());
        std::byte head[4] = {std::byte(number)};
        ASSERT_TRUE(closer->close(number, head, plain, sealed.data(), tag));
        ASSERT_TRUE(opener->open(number, head, sealed, tag, back.data()));
        EXPECT_EQ(back, plain);
        EXPECT_FALSE(opener->open(number + 1, head, sealed, tag, back.data())) << "its place";
        if (!sealed.empty()) {
            sealed[random.below(sealed.size())] ^= std::byte{1};
            EXPECT_FALSE(opener->open(number, head, sealed, tag, back.data())) << "a byte";
        } else {
            head[0] ^= std::byte{1};
            EXPECT_FALSE(opener->open(number, head, sealed, tag, back.data())) << "its head";
        }
    }
}

}  // namespace
}  // namespace pomona::link
