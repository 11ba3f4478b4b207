// tests/unit/btl_base.cc: parameters, readers of wire formats, the engine's header and tables.
#include "btl/base/bytes.h"
#include "btl/base/params_handed.h"
#include "btl/base/random.h"
#include "btl/tcp/wire.h"
#include "mpi/p2p/header.h"
#include "mpi/p2p/operations.h"

#include <gtest/gtest.h>

namespace pomona {
namespace {

struct Read {
    Params params;
    std::vector<std::string> complaints;
};
Read read(std::vector<const char*> environment) {
    Read out;
    environment.insert(environment.begin(), "HOME=/nowhere");
    environment.push_back(nullptr);
    out.params = read_params(environment.data(),
                             [&](const std::string& line) { out.complaints.push_back(line); });
    return out;
}

TEST(Params, environment_sets_values_with_units) {
    Read got = read({"POMONA_EAGER_MAX=64K", "POMONA_RMA_SHARED=no", "POMONA_ALLREDUCE=ring"});
    EXPECT_TRUE(got.complaints.empty());
    EXPECT_EQ(got.params.eager_max, 65536u);
    EXPECT_FALSE(got.params.rma_shared);
    EXPECT_EQ(got.params.allreduce, "ring");
}

TEST(Params, wrong_names_get_the_nearest_one) {
    Read got = read({"POMONA_EAGER_MAXX=1"});
    ASSERT_EQ(got.complaints.size(), 1u);
    EXPECT_NE(got.complaints[0].find("did you mean eager_max"), std::string::npos)
        << got.complaints[0];
}

// Variables of the compiler wrappers and of the scripts are not taken for parameters.
TEST(Params, other_variables_of_pomona_are_no_mistakes) {
    Read got =
        read({"POMONA_CC=clang", "POMONA_CXX=clang++", "POMONA_SEED=1", "POMONA_FUZZ_SECONDS=5"});
    EXPECT_TRUE(got.complaints.empty()) << got.complaints[0];
}

TEST(Params, wrong_values_are_told_and_ignored) {
    for (const char* wrong :
         {"POMONA_EAGER_MAX=", "POMONA_EAGER_MAX=x", "POMONA_EAGER_MAX=1Q", "POMONA_EAGER_MAX=-1",
          "POMONA_EAGER_MAX=99999999999999999999", "POMONA_EAGER_MAX=9999999999G",
          "POMONA_RMA_SHARED=maybe", "POMONA_PROGRESS=often", "POMONA_RDMA_CRC=some"}) {
        Read got = read({wrong});
        EXPECT_EQ(got.complaints.size(), 1u) << wrong;
        EXPECT_EQ(got.params.eager_max, Params{}.eager_max) << wrong;
        EXPECT_EQ(got.params.progress, Params{}.progress) << wrong;
    }
    // Of those that are a word, an empty one is as none.
    Read empty = read({"POMONA_PROGRESS=", "POMONA_FUTURES="});
    EXPECT_TRUE(empty.complaints.empty());
    EXPECT_EQ(empty.params.progress, Params{}.progress);
}

// Goal: the file of a launcher reads back whole, and no shortened or lengthened one is taken.
TEST(HandedParams, reads_back_what_was_written) {
    HandedParams handed;
    handed.config = "/a/b.conf";
    handed.lines = {{"nap_us", "7", "/a/b.conf:3"}, {"bcast", "", "/a/b.conf:4"}};
    handed.inherit("links", "shm=1:2:3", "mpirun");
    handed.told = {"POMONA_NO=1\n2"};
    std::vector<std::byte> bytes = handed.bytes();
    auto back = HandedParams::parse(bytes);
    ASSERT_TRUE(back);
    EXPECT_EQ(back->bytes(), bytes);
    EXPECT_EQ(back->config, handed.config);
    ASSERT_EQ(back->lines.size(), 2u);
    EXPECT_EQ(back->lines[0].origin, "/a/b.conf:3");
    ASSERT_TRUE(back->origin_of("links", "shm=1:2:3"));
    EXPECT_FALSE(back->origin_of("links", "shm=1:2:4"));
    EXPECT_EQ(back->told, handed.told);
    for (size_t length = 0; length < bytes.size(); ++length)
        EXPECT_FALSE(HandedParams::parse(ConstBytes(bytes).first(length))) << length;
    bytes.push_back({});
    EXPECT_FALSE(HandedParams::parse(bytes));
}

TEST(Params, every_row_of_the_table_reads_back_what_it_shows) {
    for (const ParamInfo& info : param_table()) {
        Params params;
        std::string value = get_param(params, info.name);
        EXPECT_TRUE(set_param(params, info.name, value).ok()) << info.name;
        EXPECT_EQ(get_param(params, info.name), value);
    }
    Params params;
    EXPECT_FALSE(set_param(params, "no_such", "1").ok());
}

TEST(Reader, never_reads_past_the_end) {
    Writer out;
    out.put(uint32_t{7});
    out.put_text("abc");
    Reader in(out.bytes());
    EXPECT_EQ(in.get<uint32_t>(), 7u);
    EXPECT_EQ(in.get_text(10), "abc");
    EXPECT_FALSE(in.failed());
    EXPECT_EQ(in.get<uint64_t>(), 0u);
    EXPECT_TRUE(in.failed());
    Reader small(ConstBytes(out.bytes()).subspan(4));
    EXPECT_EQ(small.get_text(2), "");  // longer than allowed
    EXPECT_TRUE(small.failed());
}

// Every header survives the way out and back; lengths that contradict the payload do not parse.
TEST(Header, packs_and_parses) {
    Random random(1);
    for (int i = 0; i < 10000; ++i) {
        Header header;
        header.context = random.next();
        header.source = static_cast<int32_t>(random.below(1 << 20));
        header.tag = static_cast<int32_t>(random.next());
        header.kind = static_cast<FrameKind>(1 + random.below(13));
        if (header.kind == FrameKind::notice) header.kind = FrameKind::settled;
        header.length = random.below(kLengthMax + 1);
        header.flags = static_cast<uint8_t>(random.next());
        bool whole = header.kind == FrameKind::rts && header.flags & kFlagWhole;
        bool carries = header.kind == FrameKind::eager || header.kind == FrameKind::data || whole;
        if (header.kind == FrameKind::eager) header.flags &= kFlagSync;
        header.token = random.next();
        auto back = parse(header.pack(), carries ? header.length : 0);
        ASSERT_TRUE(back);
        EXPECT_EQ(back->context, header.context);
        EXPECT_EQ(back->source, header.source);
        EXPECT_EQ(back->tag, header.tag);
        EXPECT_EQ(back->length, header.length);
        EXPECT_EQ(back->kind, header.kind);
        EXPECT_EQ(back->flags, header.flags);
        EXPECT_EQ(back->token, header.token);
        EXPECT_FALSE(parse(header.pack(), carries ? header.length + 1 : 1));
        bool plain = header.kind == FrameKind::eager && !header.flags;
        EXPECT_EQ(plain_message(header.pack(), carries ? header.length : 0), plain);
        EXPECT_FALSE(plain_message(header.pack(), carries ? header.length + 1 : 1));
    }
    EXPECT_FALSE(parse(FrameHeader{{0, 0, 0, 0}}, 0)) << "kind 0";
    EXPECT_FALSE(parse(FrameHeader{{0, 0, uint64_t{200} << 48, 0}}, 0)) << "unknown kind";
}

TEST(Address, round_trip_and_limits) {
    tcp::Address address;
    for (const char* ip : {"127.0.0.1", "10.0.0.7", "fe80::1", "fd00::7"})
        address.places.push_back(
            {"en0", tcp::InterfaceKind::wifi, tcp::Ip::parse(ip).value(), 24, 4711});
    auto bytes = tcp::write_address(address);
    auto parsed = tcp::parse_address(bytes);
    ASSERT_TRUE(parsed);
    EXPECT_EQ(*parsed, address);
    for (size_t length = 0; length < bytes.size(); ++length)
        EXPECT_FALSE(tcp::parse_address(ConstBytes(bytes).first(length)));
}

TEST(OperationTable, numbers_are_not_used_again) {
    OperationTable<int> table;
    int a = 1, b = 2;
    uint64_t first = table.add(&a);
    EXPECT_EQ(table.find(first), &a);
    table.remove(first);
    EXPECT_EQ(table.find(first), nullptr);
    uint64_t second = table.add(&b);
    EXPECT_NE(second, first);
    EXPECT_EQ(table.find(first), nullptr);
    EXPECT_EQ(table.find(second), &b);
    EXPECT_EQ(table.find(0), nullptr);
    EXPECT_EQ(table.find(~uint64_t{0}), nullptr);
}

}  // namespace
}  // namespace pomona
