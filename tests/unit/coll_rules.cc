// tests/unit/coll_rules.cc: rules for choosing algorithms: read, refused with a line and a mend,
// applied.
#include "btl/base/choices_file.h"
#include "coll/select.h"

#include <gtest/gtest.h>

namespace pomona::coll {
namespace {

Rules parsed(std::string_view text) {
    std::string problem;
    auto rules = parse_rules(text, problem);
    EXPECT_TRUE(rules.ok()) << problem;
    return rules.ok() ? *rules : Rules();
}

std::string problem_of(std::string_view text) {
    std::string problem;
    EXPECT_FALSE(parse_rules(text, problem).ok()) << text;
    return problem;
}

TEST(Rules, are_read_and_written) {
    Rules rules = parsed(
        "# a comment\n"
        "allreduce: 0..4K board, 4K..1MiB ring:segments=4, 1M.. rabenseifner on level net\n"
        "\tbcast on level host of 2..8 ranks: 64K.. tree:segments=8,radix=4\r\n"
        "barrier of 3 ranks: tree ; alltoall: auto");
    EXPECT_EQ(rules_text(rules),
              "allreduce: 0..4K board\n"
              "allreduce: 4K..1M ring:segments=4\n"
              "allreduce on level net: 1M.. rabenseifner\n"
              "bcast on level host of 2..8 ranks: 64K.. tree:segments=8,radix=4\n"
              "barrier of 3 ranks: tree\n"
              "alltoall: auto\n");
    EXPECT_EQ(rules_text(parsed(rules_text(rules))), rules_text(rules));
    EXPECT_EQ(rules.rows.back().line, 5);
    EXPECT_TRUE(parsed("").rows.empty());
    EXPECT_TRUE(parsed(" none ").rows.empty());
}

TEST(Rules, tell_the_line_and_the_mend) {
    struct {
        const char *text, *said;
    } cases[] = {
        {"\n\nallreduce 0..4K board", "Line 3: 'allreduce 0..4K board' has no ':'"},
        {"alreduce: board", "did you mean allreduce?"},
        {"neighbor: linear", "there is no collective 'neighbor'"},
        {"bcast: ring", "bcast has no algorithm 'ring'"},
        {"allreduce: 0..4K bord", "did you mean board?"},
        {"allreduce: 0..4K board,4K.. ring", "separated by a comma and a space"},
        {"allreduce: 4K..4K board", "its end must be greater"},
        {"allreduce: 4k.. board", "no range of bytes"},
        {"allreduce: ..4K board", "no range of bytes"},
        {"allreduce: 0..99999999999G board", "no range of bytes"},
        {"allreduce:", "nothing behind the ':'"},
        {"allreduce: 0..4K", "an algorithm is missing"},
        {"allreduce: board, ", "behind the last comma"},
        {"allreduce: ring:segments=65536", "32768 at most"},
        {"allreduce on level cable: ring", "host, loopback or net"},
        {"allreduce of many ranks: ring", "as in of 2 ranks"},
        {"allreduce of 4..2 ranks: ring", "as in of 2 ranks"},
        {"allreduce of 0 ranks: ring", "as in of 2 ranks"},
        {"allreduce: ring for ever", "'for' is not understood"},
    };
    for (auto& each : cases) {
        std::string said = problem_of(each.text);
        EXPECT_NE(said.find(each.said), said.npos) << each.text << " -> " << said;
        EXPECT_EQ(said.substr(0, 5), "Line ") << said;
    }
}

std::string taken(const Shape& shape, const Machine& machine, std::string_view rules,
                  const Choice& choice = {}) {
    Rules all = parsed(rules);
    const Rules* list[] = {&all};
    return select(shape, machine, choice, list).algorithm->name;
}

TEST(Rules, count_for_their_sizes_and_communicators) {
    Shape shape{.collective = Collective::allreduce, .size = 4, .count = 1024, .element = 4};
    Machine host = Machine::shared_memory(), loopback = Machine::tcp_loopback();
    std::string usual = taken(shape, host, "");
    ASSERT_NE(usual, "linear");
    EXPECT_EQ(taken(shape, host, "allreduce: 4K.. linear"), "linear");
    EXPECT_EQ(taken(shape, host, "allreduce: 0..4K linear"), usual);
    EXPECT_EQ(taken(shape, host, "allreduce: 0..4097 linear"), "linear");
    EXPECT_EQ(taken(shape, host, "allreduce of 4 ranks: linear"), "linear");
    EXPECT_EQ(taken(shape, host, "allreduce of 2 ranks: linear"), usual);
    EXPECT_EQ(taken(shape, host, "allreduce on level loopback: linear"), usual);
    EXPECT_EQ(taken(shape, loopback, "allreduce on level loopback: linear"), "linear");
    // The first that fits counts; auto leaves it to the formulas.
    EXPECT_EQ(taken(shape, host, "allreduce: auto, linear"), usual);
    // What the user says for all sizes comes first; what is not legal is passed over.
    Choice tree{"tree", {}, false, false};
    EXPECT_EQ(taken(shape, host, "allreduce: linear", tree), "tree");
    EXPECT_EQ(taken(shape, host, "allreduce: hierarchical"), usual);
    std::vector<int> nodes{0, 0, 1, 1};
    shape.nodes = nodes;
    EXPECT_EQ(taken(shape, Machine::cluster(),
                    "allreduce on level host: linear\n"
                    "allreduce on level net: tree"),
              "tree");
}

// Only what all members know may decide: the blocks of an alltoallv each knows for itself.
TEST(Rules, of_some_sizes_do_not_count_where_not_all_know_the_size) {
    Block blocks[4] = {{0, 8}, {8, 8}, {16, 8}, {24, 8}};
    Shape shape{.collective = Collective::alltoall, .size = 4, .irregular = true};
    shape.input_blocks = blocks, shape.result_blocks = blocks;
    Machine machine = Machine::shared_memory();
    std::string usual = taken(shape, machine, "");
    std::string other = usual == "linear" ? "pairwise" : "linear";
    EXPECT_EQ(taken(shape, machine, "alltoall: 0..1M " + other), usual);
    EXPECT_EQ(taken(shape, machine, "alltoall: " + other), other);
}

TEST(Rules, are_explained) {
    Shape shape{.collective = Collective::allreduce, .size = 4, .count = 1024, .element = 4};
    Machine machine = Machine::shared_memory();
    std::string text =
        explain(shape, machine, "given", parsed("\nallreduce: 4K.. linear"), "the file");
    EXPECT_NE(text.find("line 2 of the file counts: allreduce: 4K.. linear\n  linear is taken"),
              text.npos)
        << text;
    text = explain(shape, machine, "given", parsed("allreduce: hierarchical"), "the file");
    EXPECT_NE(text.find("it is not for this call"), text.npos) << text;
    EXPECT_EQ(explain(shape, machine, "given", parsed("bcast: linear"), "the file"),
              explain(shape, machine, "given"));
}

TEST(ChoicesFile, hands_on_rules_with_their_line_numbers) {
    auto handed = handed_choices("# mine; all of it\n\nbcast: linear # why\n", "here");
    ASSERT_TRUE(handed.ok());
    EXPECT_EQ(*handed, ";;bcast: linear");
    EXPECT_EQ(parsed(*handed).rows[0].line, 3);
    EXPECT_EQ(*handed_choices("# nothing\n", "here"), "");
    EXPECT_EQ(handed_choices("bcast: linear; x\n", "here").error().code, Code::malformed);
    EXPECT_EQ(handed_choices("bcast: \x01\n", "here").error().code, Code::malformed);
    std::string large(70 << 10, '\n');
    EXPECT_EQ(handed_choices(large, "here").error().code, Code::malformed);
}

TEST(ChoicesFile, keeps_what_people_write) {
    std::string first =
        with_tuned_choices("", "this machine", "here", "2026-01-31", "bcast: linear\n");
    EXPECT_EQ(parsed(*handed_choices(first, "here")).rows.size(), 1u) << first;
    EXPECT_EQ(*handed_choices(first, "elsewhere"), "");
    std::string mine = "allreduce: tree\n" + first + "scan: linear\n";
    std::string second =
        with_tuned_choices(mine, "this machine", "here", "2026-02-01", "reduce: tree\n");
    EXPECT_EQ(rules_text(parsed(*handed_choices(second, "here"))),
              "allreduce: tree\nscan: linear\nreduce: tree\n")
        << second;
    EXPECT_EQ(rules_text(parsed(*handed_choices(second, "elsewhere"))),
              "allreduce: tree\nscan: linear\n");
    EXPECT_EQ(with_tuned_choices(second, "this machine", "here", "2026-02-01", "reduce: tree\n"),
              second);
}

}  // namespace
}  // namespace pomona::coll
