// tests/verbs/cables_test.cc: several cables between two ranks: a path by RDMA by each.
// Goal: long payloads are shared among the cables by what each carries; one that is pulled in the
// middle of a payload costs none of it, and is used again when it is back. Method: ranks in one
// process (rdma_world.h); a payload whose bytes tell where they belong, placed by a sink that
// counts each.
#include "btl/rdma/crc32c.h"
#include "tests/verbs/rdma_world.h"

namespace pomona {
namespace {

// Takes one long payload.
struct Whole final : Sink {
    explicit Whole(size_t length) : bytes(length) {}
    std::byte* place(int, const FrameHeader& header, size_t length) override {
        EXPECT_LE(header.word[3] + length, bytes.size());
        open += length;
        return bytes.data() + header.word[3];
    }
    void arrive(int, const FrameHeader& header, ConstBytes payload) override {
        std::byte* at = bytes.data() + header.word[3];
        if (payload.data() != at) std::memcpy(at, payload.data(), payload.size());
        else open -= payload.size();
        arrived += payload.size();
    }
    void displaced(int, const FrameHeader& header, size_t length) override {
        EXPECT_LE(header.word[3] + length, bytes.size());
        open -= length;
        ++displaced_;
    }
    void released(int, uint64_t) override { released_ = true; }
    void gone(int peer, const Error&) override { ADD_FAILURE() << peer; }
    std::vector<std::byte> bytes;
    size_t arrived = 0;
    size_t open = 0;  // bytes of places that were given, and not yet filled or taken back
    int displaced_ = 0;
    bool released_ = false;
};

// Sends `length` bytes from 0 to 1, with `each_turn(bytes that have arrived)`. How often what had
// been written to its place was taken back.
int send_whole(Ranks& world, size_t length, const std::function<void(size_t)>& each_turn = {}) {
    auto source = payload_of(length, length);
    Whole target(length), sender(0);
    world.ranks[0].taker = &sender;
    world.ranks[1].taker = &target;
    Bulk bulk;
    bulk.length = length;
    bulk.data = source.data();
    EXPECT_EQ(world.endpoint(0, 1).push_bulk(bulk), Push::sent);
    EXPECT_TRUE(world.until([&] {
        if (each_turn) each_turn(target.arrived);
        return target.arrived >= length && sender.released_;
    }));
    EXPECT_EQ(target.arrived, length);
    EXPECT_EQ(target.open, 0u);
    EXPECT_EQ(target.bytes, source);
    for (auto& each : world.ranks) each.taker = &each.sink;
    return target.displaced_;
}

std::vector<double> shares(Ranks& world, const std::function<void()>& what) {
    std::vector<uint64_t> before;
    uint64_t sum = 0;
    for (auto* each : world.ranks[1].by_cable) before.push_back(each->bytes);
    what();
    std::vector<double> out;
    for (size_t i = 0; i < before.size(); ++i) {
        out.push_back(static_cast<double>(world.ranks[1].by_cable[i]->bytes - before[i]));
        sum += world.ranks[1].by_cable[i]->bytes - before[i];
    }
    for (double& each : out) each /= static_cast<double>(sum);
    return out;
}

// What is measured may be the machine's own pauses.
bool eventually(const std::function<bool()>& holds) {
    for (int tries = 0; tries < 200; ++tries)
        if (holds()) return true;
    return false;
}

TEST(Cables, each_is_a_path_of_its_own) {
    Ranks world(2, -1, 2);
    world.exchange(50);
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
    std::string names[2];
    for (size_t i : {0u, 1u}) {
        std::string text = world.ranks[0].by_cable[i]->describe(1).text;
        EXPECT_EQ(text.find("rdma_en4"), std::string::npos) << "the cable to another machine";
        names[i] = text.substr(0, text.find(" 10.77."));
    }
    EXPECT_NE(names[0], names[1]);
    world.exchange(2000);
}

// Goal: cables are found whatever addresses they have: link-local ones, those that systems take for
// themselves, an IPv4 one behind others, and unlike ones at both ends; and by an IPv4 network that
// two devices have in common at the first try. Method: tables of addresses by command.
TEST(Cables, are_found_by_any_addresses) {
    for (const char* first : {"on", "local", "self", "late"})
        for (const char* second : {"on", "self"}) {
            Ranks world(2, -1, 2);
            fabric().say(std::string("gids 0 * ") + first);
            fabric().say(std::string("gids 1 * ") + second);
            for (auto& rank : world.ranks) rank.address = rank.transport->address();
            world.exchange(50);
            EXPECT_TRUE(world.until([&] { return world.joined(0, 1); }))
                << first << " and " << second << ": "
                << world.ranks[0].by_cable[0]->describe(1).text << "; "
                << world.ranks[0].by_cable[1]->describe(1).text;
            world.exchange(200);
            fabric().calm();
        }
}

// Goal: a cable whose address comes late is found when it is there. Method: one end of a cable has
// none at first, and then one of its kind.
TEST(Cables, are_found_when_their_address_comes) {
    for (const char* later : {"local", "self", "late"}) {
        fabric().calm();
        Ranks world(2, -1, 2);
        fabric().say("gids 1 rdma_en3 off");
        world.exchange(50);
        ASSERT_TRUE(world.until([&] { return world.ranks[0].by_cable[0]->up_now[1]; }));
        EXPECT_FALSE(world.joined(0, 1));
        fabric().say(std::string("gids 1 rdma_en3 ") + later);
        EXPECT_TRUE(world.until([&] { return world.joined(0, 1); })) << later;
        world.exchange(200);
        fabric().calm();
    }
}

// Goal: each cable has its room back after what filled it was lost. Method: of each cable in turn
// long messages are lost, more than there is room for; then it carries them again.
TEST(Cables, have_their_room_back_after_losses) {
    fabric().calm();
    Ranks world(2, -1, 2);
    world.exchange(50);
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
    for (size_t cable : {0u, 1u}) {
        std::string text = world.ranks[0].by_cable[cable]->describe(1).text;
        std::string name = text.find("rdma_en2") != text.npos ? "rdma_en2" : "rdma_en3";
        fabric().say("message_most 0 " + name + " 4096");
        for (int times = 0; times < 4; ++times) send_whole(world, 4 << 20);
        fabric().calm();
        // Its rate, which was none for a while, is looked at again now and then; where others have
        // the processors, few payloads are sent meanwhile.
        bool carries = false;
        Nanoseconds end = world.clock.now() + 30'000'000'000;
        for (int tries = 0; !carries && (tries < 100 || world.clock.now() < end); ++tries)
            carries = shares(world, [&] { send_whole(world, 4 << 20); })[cable] > 0.1;
        EXPECT_TRUE(carries) << "cable " << cable;
    }
}

// Goal: a device that loses long messages from some time on, or stands still when it has some,
// though short ones get through, holds nothing up: its path is made anew with what still gets
// through. Method: by one cable and by two.
TEST(Cables, carry_no_long_messages_from_some_time_on) {
    const std::pair<const char*, const char*> kFaults[] = {
        {"message_most 0 * 8192", ", messages of 8192"}, {"deep 0 * 0", ""}};
    for (auto [fault, most] : kFaults)
        for (size_t cables : {1u, 2u}) {
            fabric().calm();
            Ranks world(2, -1, cables);
            world.exchange(50);
            ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
            send_whole(world, 4 << 20);
            fabric().say(fault);
            for (int times = 0; times < 3; ++times) send_whole(world, 4 << 20);
            for (auto* each : world.ranks[0].by_cable) {
                EXPECT_TRUE(world.until([&, most = std::string(most)] {
                    world.exchange(10);
                    std::string text = each->describe(1).text;
                    size_t at = text.find(", messages of");
                    return each->up_now[1] && (at == text.npos ? "" : text.substr(at)) == most;
                })) << fault
                    << ": " << each->describe(1).text;
            }
            // And is used, when its rate has been looked at again.
            EXPECT_TRUE(world.goes_by_rdma()) << fault;
        }
    fabric().calm();
}

// Goal: a receiver that computes is not taken for a device that stands still. Method: as much as
// there is room for is on its way, and only the sender looks for 0.6 s.
TEST(Cables, wait_for_who_computes) {
    fabric().calm();
    Ranks world(2);
    world.exchange(50);
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
    send_whole(world, 4 << 20);
    int losses = world.ranks[0].rdma->losses + world.ranks[1].rdma->losses;
    bool computes = true;
    send_whole(world, 8 << 20, [&](size_t) {
        Nanoseconds end = world.clock.now() + 600'000'000;
        while (std::exchange(computes, false))
            while (world.clock.now() < end)
                world.ranks[0].transport->poll(*world.ranks[0].taker, 16);
    });
    EXPECT_EQ(world.ranks[0].rdma->losses + world.ranks[1].rdma->losses, losses);
}

TEST(Cables, share_long_payloads_by_their_rates) {
    Ranks world(2, -1, 2);
    world.exchange(50);
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
    fabric().say("rate * * 400");
    auto share = [&](size_t which, double least, double most) {
        return eventually([&] {
            double part = shares(world, [&] { send_whole(world, 16 << 20); })[which];
            return part > least && part < most;
        });
    };
    EXPECT_TRUE(share(0, 0.35, 0.65));
    bool first = world.ranks[0].by_cable[0]->describe(1).text.find("rdma_en2") != std::string::npos;
    fabric().say("rate 0 rdma_en2 100");
    EXPECT_TRUE(share(first ? 0 : 1, 0.05, 0.35));
    fabric().calm();
}

// Goal: a piece that was changed on its way is not taken for what was sent, though it has been
// copied to its place when that is seen; and pieces are copied there by the path itself.
TEST(Cables, a_piece_that_was_changed_is_sent_again) {
    Ranks world(2);
    world.exchange(50);
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
    if (!rdma::crc32c_is_quick()) return;  // there are no checksums
    EXPECT_TRUE(eventually([&] {
        send_whole(world, 4 << 20);
        return world.ranks[1].rdma->placed > (1 << 20);
    }));
    fabric().say("corrupt * * 200");
    EXPECT_TRUE(eventually([&] { return send_whole(world, 4 << 20) > 0; }));
    fabric().calm();
    world.exchange(200);
}

TEST(Cables, one_is_pulled_in_the_middle_of_a_payload) {
    Ranks world(2, -1, 2);
    world.exchange(50);
    ASSERT_TRUE(world.until([&] { return world.joined(0, 1); }));
    for (const char* cable : {"rdma_en2", "rdma_en3", "*"}) {
        fabric().say("rate * * 500");
        bool pulled = false;
        send_whole(world, 16 << 20, [&](size_t arrived) {
            if (arrived < (4 << 20) || pulled) return;
            pulled = true;
            fabric().say(std::string("pull 0 ") + cable);
        });
        EXPECT_TRUE(pulled);
        world.exchange(100);
        fabric().calm();
        ASSERT_TRUE(world.until([&] { return world.joined(0, 1); })) << cable;
    }
    fabric().say("rate * * 500");
    // A path that was silent is used when it has answered.
    EXPECT_TRUE(eventually([&] {
        auto again = shares(world, [&] { send_whole(world, 16 << 20); });
        return again[0] > 0.1 && again[1] > 0.1;
    }));
    fabric().calm();
}

}  // namespace
}  // namespace pomona
