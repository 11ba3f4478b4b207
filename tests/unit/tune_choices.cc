// tests/unit/tune_choices.cc: `pomona tune`'s plan of what to time, its judgement, and how it knows
// a busy machine. Figures here are made up.
#include "mpi/tools/quiet.h"
#include "mpi/tools/tune_choices.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace pomona {
namespace {

using coll::Collective;

coll::Choice named(const char* text) {
    std::string problem;
    auto choice = coll::parse_choice(text, problem);
    EXPECT_TRUE(choice.ok()) << problem;
    return *choice;
}

// Goal: all ranks compute the same cases; the formulas' choice is the first of each.
TEST(TuneChoices, are_the_formulas_first_ones) {
    ChoiceWorld world;
    world.ranks = 4;
    auto cases = choice_cases(world);
    ASSERT_GT(cases.size(), 10u);
    for (const ChoiceCase& each : cases) {
        EXPECT_GE(each.candidates.size(), 2u);
        bool blocks = each.collective == Collective::allgather ||
                      each.collective == Collective::alltoall ||
                      each.collective == Collective::reduce_scatter;
        EXPECT_LE(each.bytes * (blocks ? 4 : 1), size_t{32} << 20);
        coll::Shape shape{.collective = each.collective,
                          .size = 4,
                          .count = each.bytes / 4,
                          .element = 4,
                          .board = true};
        auto plan = coll::select(shape, coll::Machine::shared_memory());
        EXPECT_EQ(each.candidates[0].algorithm, plan.algorithm->name);
    }
}

TEST(TuneChoices, are_timed_in_text_and_back) {
    ChoiceTimes times{
        Collective::allreduce,
        4096,
        {{named("board"), {100, 120, 140, 90}, {110, 125, 130, 95}},
         {named("ring:segments=4"), {200.5, 240, 250, 200}, {210, 230, 260, 205}, true}}};
    std::vector<ChoiceTimes> back;
    ASSERT_TRUE(parse_choice_times(choice_times_text(times) + "end\n", back));
    ASSERT_EQ(back.size(), 1u);
    EXPECT_EQ(choice_times_text(back[0]), choice_times_text(times));
    for (const char* bad : {"", "end\n", "time allreduce 8 nothing 1 1 1 1 1 1 1 1\nend\n",
                            "time allreduce 8 ring 1 1 1 1 0 1 1 1\nend\n",
                            "time gather 8 linear 1 1 1 1 1 1 1 1\nend\n",
                            "won allreduce 8 ring 1 1 1 1 1 1 1 1\nend\n",
                            "time allreduce 8 ring 1 1 1 1 1 1 1\nend\n",
                            "time allreduce 8 ring 1 1 1 1 1 1 1 1\n", "hello\nend\n"}) {
        back.clear();
        EXPECT_FALSE(parse_choice_times(bad, back)) << bad;
    }
}

// A few lucky calls, or one slow spell, move nothing: the middle must be clearly better, and the
// lower quarter too.
TEST(TuneChoices, change_only_what_is_clearly_quicker) {
    auto best = [](double quarter, double middle) {
        CallTime time{quarter, middle};
        ChoiceTimes times{Collective::bcast,
                          8,
                          {{named("board"), {100, 120}, {100, 120}}, {named("chain"), time, time}}};
        return times.best().choice.algorithm;
    };
    EXPECT_EQ(best(80, 100), "chain");
    EXPECT_EQ(best(98, 80), "chain");
    EXPECT_EQ(best(100, 80), "board");
    EXPECT_EQ(best(50, 119), "board");
    EXPECT_EQ(best(120, 60), "board");
}

// Who is much quicker with one kind of data and much slower with the other is not taken; who is
// near the quickest with both is.
TEST(TuneChoices, count_by_the_data_that_suits_them_worse) {
    auto best = [](CallTime same, CallTime fresh) {
        ChoiceTimes times{Collective::allreduce,
                          8,
                          {{named("ring"), {100, 100}, {100, 100}},
                           {named("chunks"), same, fresh},
                           {named("linear"), {130, 130}, {60, 60}}}};
        return times.best().choice.algorithm;
    };
    EXPECT_EQ(best({50, 50}, {300, 300}), "ring");
    EXPECT_EQ(best({105, 105}, {70, 70}), "chunks");
    EXPECT_EQ(best({135, 135}, {70, 70}), "linear");
}

// Made-up times: a case stands between two sizes of one collective with unlike winners.
TEST(TuneChoices, are_made_between_sizes_with_unlike_winners) {
    auto won = [](Collective collective, size_t bytes, const char* winner) {
        return ChoiceTimes{collective, bytes, {{named(winner), {50, 50}, {50, 50}}}};
    };
    ChoiceWorld world;
    world.ranks = 4;
    std::vector<ChoiceTimes> measured{won(Collective::bcast, 4 << 10, "chunks"),
                                      won(Collective::allreduce, 16 << 10, "ring:segments=2"),
                                      won(Collective::allreduce, 256 << 10, "chunks"),
                                      won(Collective::allreduce, 4 << 10, "chunks")};
    sort_by_size(measured);
    EXPECT_EQ(measured[0].bytes, size_t{4} << 10);
    EXPECT_EQ(measured.back().collective, Collective::bcast);
    auto cases = cases_between(world, measured);
    ASSERT_EQ(cases.size(), 2u);
    EXPECT_EQ(cases[0].bytes, size_t{8} << 10);
    EXPECT_EQ(cases[1].bytes, size_t{64} << 10);
    EXPECT_GE(cases[1].candidates.size(), 2u);
}

// A winner among sizes for which the formulas would take it anyway is no reason to time more; what
// they would take in the middle of two sizes with the same winner, and is not that one, is.
TEST(TuneChoices, are_made_where_the_formulas_would_take_another) {
    ChoiceWorld world;
    world.ranks = 4;
    auto cases = choice_cases(world);
    auto middle = std::find_if(cases.begin(), cases.end(), [](const ChoiceCase& each) {
        return each.collective == Collective::allreduce && each.bytes == 64 << 10;
    });
    ASSERT_NE(middle, cases.end());
    auto won = [&](size_t bytes, const coll::Choice& winner) {
        return ChoiceTimes{Collective::allreduce, bytes, {{winner, {50, 50}, {50, 50}}}};
    };
    auto between = [&](const coll::Choice& winner) {
        return cases_between(world, {won(32 << 10, winner), won(128 << 10, winner)});
    };
    EXPECT_TRUE(between(middle->candidates[0]).empty());
    auto other = between(middle->candidates[1]);
    ASSERT_EQ(other.size(), 1u);
    EXPECT_EQ(other[0].bytes, size_t{64} << 10);
}

// Made-up times: ahead by a third and then by a hundredth wins, ahead by a third and then behind
// does not, nor does what was clearly ahead in neither.
TEST(TuneChoices, have_to_win_again) {
    auto timed = [](double ns) {
        return ChoiceTimes{
            Collective::bcast,
            8,
            {{named("board"), {100, 100}, {100, 100}}, {named("chain"), {ns, ns}, {ns, ns}}}};
    };
    auto wins = [&](double first, double second) {
        ChoiceTimes before = timed(first);
        return wins_again(before, before.times[1], timed(second));
    };
    EXPECT_TRUE(wins(67, 99));
    EXPECT_FALSE(wins(67, 101));
    EXPECT_FALSE(wins(97, 98));
    EXPECT_TRUE(wins(94, 94));
}

TEST(TuneChoices, become_ranges_around_the_sizes) {
    auto won = [](size_t bytes, const char* winner) {
        return ChoiceTimes{
            Collective::bcast,
            bytes,
            {{named("binomial"), {100, 100}, {100, 100}}, {named(winner), {50, 50}, {50, 50}}}};
    };
    ChoiceTimes as_it_was{
        Collective::bcast, 64 << 10, {{named("binomial"), {100, 100}, {100, 100}}}};
    std::vector<ChoiceTimes> measured{won(1 << 10, "board"), won(4 << 10, "board"),
                                      won(16 << 10, "chunks"), as_it_was, won(1 << 20, "chunks")};
    EXPECT_EQ(coll::rules_text(rules_of(measured, coll::Reach::host, 2)),
              "bcast on level host of 2 ranks: 512..8K board\n"
              "bcast on level host of 2 ranks: 8K..32K chunks\n"
              "bcast on level host of 2 ranks: 512K..2M chunks\n");
    // A size between them bounds its neighbours' ranges.
    EXPECT_EQ(coll::rules_text(
                  rules_of({won(4 << 10, "board"), won(8 << 10, "chain")}, coll::Reach::host, 2)),
              "bcast on level host of 2 ranks: 2K..8K board\n"
              "bcast on level host of 2 ranks: 8K..16K chain\n");
    // 4 MiB for each of 16 ranks are too large to be timed.
    ChoiceTimes largest = won(1 << 20, "linear");
    largest.collective = Collective::alltoall;
    EXPECT_EQ(coll::rules_text(rules_of({largest}, coll::Reach::host, 16)),
              "alltoall on level host of 16 ranks: 512K.. linear\n");
    EXPECT_TRUE(rules_of({as_it_was}, coll::Reach::host, 2).rows.empty());
    EXPECT_NE(choices_report(measured, 2).find("beaten in 4 of 5 cases"), std::string::npos);
}

// Made-up times: at the size in the middle nothing is clear, at those around it chunks win.
TEST(TuneChoices, go_with_the_sizes_around_where_times_leave_it_open) {
    auto timed = [](size_t bytes, double chunks, double chain, bool lost) {
        auto steady = [](double ns) { return CallTime{ns, ns, ns, ns}; };
        return ChoiceTimes{Collective::bcast,
                           bytes,
                           {{named("binomial"), steady(100), steady(100)},
                            {named("chain"), steady(chain), steady(chain)},
                            {named("chunks"), steady(chunks), steady(chunks), lost}}};
    };
    auto rules = [&](const ChoiceTimes& middle, size_t above = 4 << 20, double chunks_above = 50) {
        return coll::rules_text(rules_of(
            {timed(256 << 10, 50, 150, false), middle, timed(above, chunks_above, 150, false)},
            coll::Reach::host, 2));
    };
    std::string one = "bcast on level host of 2 ranks: 128K..8M chunks\n";
    std::string apart =
        "bcast on level host of 2 ranks: 128K..512K chunks\n"
        "bcast on level host of 2 ranks: 2M..8M chunks\n";
    EXPECT_EQ(rules(timed(1 << 20, 99, 150, false)), one);
    EXPECT_EQ(rules(timed(1 << 20, 104, 150, false)), one);
    EXPECT_EQ(rules(timed(1 << 20, 60, 150, true)), one) << "ahead once only";
    EXPECT_EQ(rules(timed(1 << 20, 107, 150, false)), apart) << "clearly behind";
    EXPECT_NE(rules(timed(1 << 20, 99, 80, false)).find("chain"), std::string::npos)
        << "another wins";
    EXPECT_EQ(rules(timed(1 << 20, 99, 150, false), 4 << 20, 120),
              "bcast on level host of 2 ranks: 128K..512K chunks\n");
    EXPECT_EQ(rules(timed(1 << 20, 99, 150, false), 16 << 20),
              "bcast on level host of 2 ranks: 128K..512K chunks\n"
              "bcast on level host of 2 ranks: 8M.. chunks\n")
        << "the next size is too far";
    std::vector<ChoiceTimes> many{timed(8 << 10, 50, 150, false)};
    for (size_t bytes = 16 << 10; bytes <= 1 << 20; bytes *= 2)
        many.push_back(timed(bytes, 99, 150, false));
    many.push_back(timed(2 << 20, 50, 150, false));
    EXPECT_EQ(rules_of(many, coll::Reach::host, 2).rows.size(), 2u) << "too many between";
    // Two in a row.
    std::vector<ChoiceTimes> two{timed(256 << 10, 50, 150, false), timed(1 << 20, 99, 150, false),
                                 timed(2 << 20, 102, 150, true), timed(4 << 20, 50, 150, false)};
    EXPECT_EQ(coll::rules_text(rules_of(two, coll::Reach::host, 2)), one);
    two[2] = timed(2 << 20, 110, 150, false);
    EXPECT_EQ(rules_of(two, coll::Reach::host, 2).rows.size(), 2u);
    two[2] = timed(2 << 20, 99, 150, false);
    two[3].collective = Collective::reduce;
    EXPECT_EQ(rules_of(two, coll::Reach::host, 2).rows.size(), 2u) << "one of each collective";
    std::vector<ChoiceTimes> measured{timed(256 << 10, 50, 150, false),
                                      timed(1 << 20, 60, 150, true),
                                      timed(4 << 20, 50, 150, false)};
    EXPECT_EQ(&measured[1].best(), measured[1].times.data());
    std::string report = choices_report(measured, 2);
    EXPECT_NE(report.find("beaten in 2 of 3 cases"), std::string::npos) << report;
    EXPECT_NE(report.find("chunks, as the sizes around it"), std::string::npos) << report;
}

// Made-up times, as of long calls beside busy programs: most were interrupted, so the quickest ones
// say whether chunks, which win at the sizes around, may be taken here too.
TEST(TuneChoices, are_left_open_by_calls_that_were_interrupted) {
    auto won = [](size_t bytes) {
        return ChoiceTimes{Collective::bcast,
                           bytes,
                           {{named("binomial"), {100, 100, 100, 100}, {100, 100, 100, 100}},
                            {named("chunks"), {50, 50, 50, 50}, {50, 50, 50, 50}}}};
    };
    auto rows = [&](CallTime binomial, CallTime chunks) {
        ChoiceTimes middle{Collective::bcast,
                           1 << 20,
                           {{named("binomial"), {100, 100, 100, 100}, binomial},
                            {named("chunks"), {100, 100, 100, 100}, chunks}}};
        return rules_of({won(256 << 10), middle, won(4 << 20)}, coll::Reach::host, 2).rows.size();
    };
    CallTime steady{100, 100, 100, 100};
    EXPECT_EQ(rows(steady, {120, 120, 120, 110}), 2u) << "clearly behind";
    EXPECT_EQ(rows(steady, {300, 500, 900, 99}), 1u);
    EXPECT_EQ(rows({300, 500, 900, 99}, {400, 600, 900, 102}), 1u);
    EXPECT_EQ(rows(steady, {300, 500, 900, 110}), 2u) << "its quickest call, too";
    EXPECT_EQ(rows(steady, {120, 120, 120, 99}), 2u) << "not interrupted";
}

TEST(Quiet, reads_what_the_processors_did) {
    auto times = parse_processor_times("cpu  100 50 25 800 10 5 10 100 0 0\ncpu0 ...", 100);
    ASSERT_TRUE(times.has_value());
    EXPECT_DOUBLE_EQ(times->busy, 1.9);
    EXPECT_DOUBLE_EQ(times->steal, 1);
    EXPECT_DOUBLE_EQ(times->all, 11);
    for (const char* none : {"", "cpu 1 2 3", "cpu 0 0 0 0", "intr 5"})
        EXPECT_FALSE(parse_processor_times(none, 100).has_value()) << none;
}

TEST(Quiet, tells_others_from_our_own) {
    ProcessorTimes before{10, 0, 100}, after{24, 0, 120};  // 2 processors, 10 s
    Disturbance own = disturbance_between(before, after, 13, 10, 2);
    EXPECT_NEAR(*own.others, 0.1, 1e-9);
    EXPECT_EQ(why_busy(own), "");
    Disturbance others = disturbance_between(before, after, 4, 10, 2);
    EXPECT_EQ(why_busy(others), "other programs used 1.00 of its 2 processors (0.25 is the limit)");
    Disturbance stolen = disturbance_between(before, {24, 2, 120}, 14, 10, 2);
    EXPECT_NE(why_busy(stolen).find("10 % of its processors' time"), std::string::npos);
    Disturbance uneven{.spread = spread_of({1.1, 2.5, 3})};
    EXPECT_NE(why_busy(uneven).find("2.50 times"), std::string::npos);
    EXPECT_EQ(spread_of({}), 1);
}

}  // namespace
}  // namespace pomona
