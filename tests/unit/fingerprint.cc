// tests/unit/fingerprint.cc: what ranks must have alike: which facts there are, that a difference
// in each changes the number, that the form on the wire reads back, and that differences are named.
#include "btl/base/fingerprint.h"
#include "btl/base/random.h"
#include "mpi/runtime/agreement.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace pomona {
namespace {

Params params_of(std::vector<const char*> environment) {
    environment.insert(environment.begin(), "HOME=/nowhere");
    environment.push_back(nullptr);
    return read_params(environment.data(), [](const std::string& line) { FAIL() << line; });
}

std::string difference(const Params& one, const Params& other) {
    return difference_of({"rank 0", agreement_of(one)}, {"rank 1", agreement_of(other)});
}

// A value that the parameter has not by default. The last of its words, where it takes some only.
std::string other_value(const ParamInfo& info) {
    const std::pair<std::string_view, std::vector<std::string>> words[] = {
#define PARAM_WORDS(name, ...) {#name, {__VA_ARGS__}},
#include "btl/base/params_words.def"
#undef PARAM_WORDS
    };
    std::string now = get_param(Params{}, info.name);
    for (const auto& [name, values] : words)
        if (name == info.name) return values.back() == now ? values.front() : values.back();
    if (info.type == ParamType::Flag) return now == "yes" ? "no" : "yes";
    return info.type == ParamType::Text ? "net=1:2:3" : "77";
}

// Goal: each parameter whose scope is `same` counts, and no other. Method: change one after the
// other.
TEST(Agreement, parameters_count_by_their_scope) {
    uint64_t standard = agreement_of(Params{}).hash();
    EXPECT_EQ(agreement_of(Params{}).hash(), standard);
    int same = 0, own = 0;
    for (const ParamInfo& info : param_table()) {
        Params changed;
        ASSERT_TRUE(set_param(changed, info.name, other_value(info)).ok()) << info.name;
        bool counts = agreement_of(changed).hash() != standard;
        EXPECT_EQ(counts, info.scope == ParamScope::same) << info.name;
        ++(counts ? same : own);
    }
    EXPECT_GT(same, 0);
    EXPECT_GT(own, 0);
}

TEST(Agreement, has_the_facts_that_are_no_parameters) {
    Fingerprint facts = agreement_of(Params{});
    for (const char* name : {"abi", "version", "frames", "catalog", "links"}) {
        bool found = false;
        for (const Fact& each : facts.facts())
            found |= each.name == name && !each.value.empty() && !each.source.empty();
        EXPECT_TRUE(found) << name;
    }
}

TEST(Agreement, the_same_costs_in_other_words_agree) {
    Params named;
    named.links = "built-in";
    EXPECT_EQ(agreement_of(named).hash(), agreement_of(Params{}).hash());
    named.links = "shm=0:125:0.0380";
    EXPECT_EQ(agreement_of(named).hash(), agreement_of(Params{}).hash());
    EXPECT_EQ(difference(named, Params{}), "");
}

TEST(Agreement, a_difference_names_both_values_and_where_they_came_from) {
    Params linear = params_of({"POMONA_BCAST=linear", "POMONA_SPIN_US=7"});
    EXPECT_EQ(linear.source("bcast"), "POMONA_BCAST");
    EXPECT_EQ(difference(linear, params_of({})),
              "rank 0 has bcast = linear (POMONA_BCAST), rank 1 has bcast = auto (built-in)");
    Params few = params_of({"POMONA_SHM_BOARD=2"});
    EXPECT_EQ(difference(linear, few),
              "rank 0 has shm_board = 32 (built-in), rank 1 has shm_board = 2 (POMONA_SHM_BOARD); "
              "rank 0 has bcast = linear (POMONA_BCAST), rank 1 has bcast = auto (built-in)");
}

TEST(Fingerprint, names_what_one_side_does_not_know) {
    Fingerprint one, other;
    one.add("both", "1", "here"), other.add("both", "1", "there");
    one.add("left", "", "here"), other.add("right", "x", "there");
    EXPECT_NE(one.hash(), other.hash());
    EXPECT_EQ(difference_of({"a", one}, {"b", other}),
              "a has left = (empty) (here), b does not know left; "
              "a does not know right, b has right = x (there)");
}

// Texts must not flow into each other, and where a value came from does not count.
TEST(Fingerprint, hashes_names_and_values_alone) {
    Fingerprint ab_c, a_bc, elsewhere;
    ab_c.add("ab", "c", "here"), a_bc.add("a", "bc", "here"), elsewhere.add("ab", "c", "there");
    EXPECT_NE(ab_c.hash(), a_bc.hash());
    EXPECT_EQ(ab_c.hash(), elsewhere.hash());
}

TEST(Fingerprint, reads_back_and_refuses_damage) {
    Params params = params_of({"POMONA_BCAST=linear"});
    Fingerprint out = agreement_of(params);
    std::vector<std::byte> bytes = out.bytes();
    EXPECT_LE(bytes.size(), Fingerprint::kBytesMax);
    auto back = Fingerprint::parse(bytes);
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(back->hash(), out.hash());
    EXPECT_EQ(back->facts().size(), out.facts().size());
    for (size_t length = 0; length < bytes.size(); ++length)
        EXPECT_FALSE(Fingerprint::parse(ConstBytes(bytes).first(length)).ok()) << length;
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(Fingerprint::parse(bytes).ok());
    Random random(1);
    for (int i = 0; i < 20000; ++i) {
        std::vector<std::byte> damaged = out.bytes();
        for (int flips = 0; flips < 4; ++flips)
            damaged[random.below(damaged.size())] = static_cast<std::byte>(random.next());
        auto parsed = Fingerprint::parse(damaged);  // must not read or write out of bounds
        if (!parsed.ok()) continue;
        EXPECT_LE(parsed->bytes().size(), Fingerprint::kBytesMax);
    }
}

TEST(Fingerprint, more_than_fits_is_left_out) {
    Fingerprint large;
    for (int i = 0; i < 300; ++i) large.add(std::to_string(i), std::string(9000, 'x'), "here");
    auto back = Fingerprint::parse(large.bytes());
    ASSERT_TRUE(back.ok());
    EXPECT_LT(back->facts().size(), 300u);
    EXPECT_GT(back->facts().size(), 10u);
}

}  // namespace
}  // namespace pomona
