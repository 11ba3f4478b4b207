// tests/unit/coll_run.cc: the Runner: order, reuse, errors and cancelling.
#include "coll/builder.h"
#include "coll/catalog.h"
#include "coll/run.h"
#include "tests/unit/manual_carrier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

namespace pomona::coll {
namespace {

Schedule three_receives() {
    Shape shape{.rank = 0, .size = 4, .element = 1};
    Builder s(shape);
    for (int peer = 1; peer < 4; ++peer) s.recv(peer, s.result(8 * peer, 8));
    s.send(1, s.result(8, 24));
    return s.finish();
}

TEST(Runner, starts_what_is_ready_and_ends_once) {
    Schedule schedule = three_receives();
    ManualCarrier carrier;
    Runner runner;
    std::byte result[64];
    for (int round = 1; round <= 3; ++round) {  // reused, as persistent collectives do
        Done done;
        runner.prepare(schedule);
        runner.start(carrier, {.result = result}, done);
        ASSERT_EQ(carrier.operations.size(), 3u);
        while (carrier.operations.size() > 1) carrier.end(*carrier.operations.back().done);
        carrier.end(*carrier.operations[0].done);
        ASSERT_EQ(carrier.operations.size(), 1u);  // now the send, whose regions are all there
        EXPECT_TRUE(carrier.operations[0].send);
        EXPECT_EQ(done.calls, 0);
        carrier.end(*carrier.operations[0].done);
        EXPECT_EQ(done.calls, 1);
        EXPECT_FALSE(runner.running());
    }
}

// Goal: what is over at once is not done again, and the rest follows. Method: a board whose posts
// and looks are over at once so often; the first that is not goes the usual way.
TEST(Runner, goes_on_behind_what_it_did_ahead) {
    Shape shape{.rank = 1, .size = 3, .element = 1};
    Builder s(shape);
    s.post(s.input(0, 8));
    for (int peer : {2, 0}) s.look(peer, 0, 8, s.scratch(8));
    s.copy(s.input(0, 8), s.result(0, 8));
    s.send(0, s.result(0, 8));
    Schedule schedule = s.finish();
    ASSERT_EQ(schedule.steps().size(), 5u);
    std::byte input[8] = {std::byte{7}}, result[8];
    for (int at_once = 0; at_once <= 3; ++at_once) {
        ManualCarrier carrier;
        carrier.at_once = at_once;
        Runner runner;
        Done done;
        runner.prepare(schedule);
        result[0] = std::byte{0};
        Binding binding{.input = input, .result = result};
        StepId from = runner.run_ahead(carrier, binding);
        EXPECT_EQ(from, at_once < 3 ? static_cast<StepId>(at_once) : 4u);
        EXPECT_EQ(done.calls, 0);
        EXPECT_FALSE(runner.running());
        runner.start(carrier, binding, done, {.steps = from});
        EXPECT_EQ(result[0], std::byte{7});
        // Posts and looks that were not over at once, and the send.
        ASSERT_EQ(carrier.operations.size(), 3u - static_cast<size_t>(at_once) + 1);
        while (!carrier.operations.empty()) carrier.end(*carrier.operations[0].done);
        EXPECT_EQ(done.calls, 1);
        EXPECT_EQ(done.error.code, Code::ok);
    }
}

// The same by messages: sends that wait for no message go before receives that stand before them.
TEST(Runner, goes_on_behind_the_messages_that_were_over_at_once) {
    Shape shape{.rank = 0, .size = 5, .element = 1};
    Builder s(shape);
    for (int peer : {1, 2}) s.recv(peer, s.result(8 * static_cast<size_t>(peer), 8));
    s.send(3, s.input(0, 8));
    s.copy(s.input(0, 8), s.result(0, 8));
    s.send(4, s.result(0, 8));
    s.send(1, s.result(0, 16));  // of what has been copied and received from 1
    Schedule schedule = s.finish();
    const std::vector<int> order = {3, 4, -1, 1, -2};
    std::byte input[8] = {std::byte{7}}, result[24];
    for (size_t at_once = 0; at_once <= order.size(); ++at_once) {
        ManualCarrier carrier;
        carrier.at_once = static_cast<int>(at_once);
        Runner runner;
        Done done;
        runner.prepare(schedule);
        result[0] = std::byte{0};
        Binding binding{.input = input, .result = result};
        runner.order_messages();
        Ahead ahead{.ordered = runner.run_messages_ahead(carrier, binding)};
        EXPECT_TRUE(std::equal(carrier.messages_over.begin(), carrier.messages_over.end(),
                               order.begin(), order.begin() + static_cast<int>(at_once)));
        EXPECT_EQ(ahead.ordered == schedule.steps().size(), at_once == order.size());
        EXPECT_FALSE(runner.running());
        if (at_once == order.size()) break;
        runner.start(carrier, binding, done, ahead);
        EXPECT_EQ(result[0], std::byte{7});
        size_t ended = at_once;
        for (; !carrier.operations.empty(); ++ended) {
            EXPECT_EQ(done.calls, 0);
            carrier.end(*carrier.operations[0].done);
        }
        EXPECT_EQ(ended, order.size()) << at_once << " were over";
        EXPECT_EQ(done.calls, 1);
        EXPECT_EQ(done.error.code, Code::ok);
    }
    EXPECT_EQ(result[0], std::byte{7});
}

TEST(Runner, cancels_the_rest_after_an_error_and_reports_the_first) {
    Schedule schedule = three_receives();
    ManualCarrier carrier;
    Runner runner;
    std::byte result[64];
    Done done;
    runner.prepare(schedule);
    runner.start(carrier, {.result = result}, done);
    Error gone{Code::peer_gone, "Connection closed", 2, 0};
    carrier.end(*carrier.operations[1].done, &gone);
    EXPECT_EQ(carrier.cancelled, 2);
    EXPECT_TRUE(carrier.operations.empty());
    EXPECT_EQ(done.calls, 1);
    EXPECT_EQ(done.error.code, Code::peer_gone);
    EXPECT_EQ(done.error.peer, 2);
}

// A member that gave another count: who is told passes on that there is no data, and nobody waits.
TEST(Runner, a_truncated_message_leaves_the_others_in_order) {
    Schedule schedule = three_receives();
    ManualCarrier carrier;
    Runner runner;
    std::byte result[64];
    Done done;
    Error truncated{Code::truncated, "longer", 1, 0};
    runner.prepare(schedule);
    runner.start(carrier, {.result = result}, done);
    carrier.end(*carrier.operations[0].done, &truncated);
    for (int left = 2; left > 0; --left) {
        ASSERT_EQ(carrier.operations.size(), static_cast<size_t>(left));
        carrier.end(*carrier.operations[0].done);
    }
    EXPECT_EQ(carrier.cancelled, 0);
    ASSERT_EQ(carrier.operations.size(), 1u);
    EXPECT_TRUE(carrier.operations[0].send);
    EXPECT_EQ(carrier.operations[0].length, 0u);
    carrier.end(*carrier.operations[0].done);
    EXPECT_EQ(done.calls, 1);
    EXPECT_EQ(done.error.code, Code::truncated);
}

std::vector<float> ramp(size_t count, float first, float step) {
    std::vector<float> out(count);
    for (float& each : out) each = first, first += step;
    return out;
}

// Goal: what comes in pieces is reduced as if it had come at once, also where cuts run through
// elements.
// Method: a difference, whose operands must not be swapped, of messages cut anywhere, pieces in any
// order.
TEST(ReducingReceive, takes_pieces_cut_anywhere_in_any_order) {
    struct Difference : Reducer {
        Difference() {
            any_run = true;
            to = [](const Reducer*, void* out, const void* left, const void* right, size_t count) {
                for (size_t i = 0; i < count; ++i) {
                    float a, b;
                    std::memcpy(&a, static_cast<const char*>(left) + 4 * i, 4);
                    std::memcpy(&b, static_cast<const char*>(right) + 4 * i, 4);
                    a -= b;
                    std::memcpy(static_cast<char*>(out) + 4 * i, &a, 4);
                }
            };
        }
    } difference;
    std::minstd_rand random(7);
    for (int round = 0; round < 300; ++round) {
        size_t count = 1 + random() % 40, bytes = 4 * count;
        auto message = ramp(count, 100, 3), other = ramp(count, -5, 0.5f);
        bool left = random() % 2 != 0;
        int into = static_cast<int>(random() % 3);  // the landing, the other operand, or neither
        std::vector<float> landing(count, -1), neither(count, -2), wanted(count);
        for (size_t i = 0; i < count; ++i)
            wanted[i] = left ? message[i] - other[i] : other[i] - message[i];
        std::vector<float>& target = into == 0 ? landing : into == 1 ? other : neither;
        std::vector<size_t> cuts{0, bytes};
        for (size_t i = random() % 6; i > 0; --i) cuts.push_back(random() % (bytes + 1));
        std::sort(cuts.begin(), cuts.end());
        std::vector<size_t> order(cuts.size() - 1);
        std::iota(order.begin(), order.end(), size_t{0});
        std::shuffle(order.begin(), order.end(), random);
        auto at = [](std::vector<float>& in) { return reinterpret_cast<std::byte*>(in.data()); };
        ReducingReceive receive;
        receive.begin({&difference, 4, at(landing), at(other), at(target), left});
        for (size_t i : order)
            receive.take(cuts[i], {at(message) + cuts[i], cuts[i + 1] - cuts[i]});
        receive.finish();
        ASSERT_EQ(target, wanted) << "round " << round;
    }
}

// Goal: a receive whose only reader is a reduction does it, once, where the carrier lends what
// arrives and the operation takes any run; all others stay two steps. Method: the carrier asks for
// one or the other.
TEST(Runner, reduces_what_the_carrier_lends) {
    constexpr size_t bytes = 8192, count = bytes / 4;
    KernelReducer sum(*find_kernel(ReduceOp::sum, ElementType::f32));
    enum Case { usual, into_other, chained, second_reader, waits, lends_not, whole_only, cases };
    for (int which = 0; which < cases; ++which) {
        Shape shape{.rank = 0, .size = 2, .element = 4};
        Builder s(shape);
        Region arrived = s.scratch(bytes), own = s.input(0, bytes);
        if (which == waits) s.recv(1, s.result(0, bytes));
        s.recv(1, arrived);
        if (which == second_reader) s.send(1, arrived);
        bool beside = which == into_other || which == waits || which == second_reader;
        s.reduce(own, arrived, beside ? s.result(0, bytes) : arrived);
        if (which == chained) s.reduce(arrived, own, s.result(0, bytes));
        else if (!beside) s.copy(arrived, s.result(0, bytes));
        Schedule schedule = s.finish();
        auto input = ramp(count, 1, 1), message = ramp(count, 0.5f, 2);
        std::vector<float> result(count), wanted(count);
        for (size_t i = 0; i < count; ++i) wanted[i] = input[i] + message[i];
        sum.any_run = which != whole_only;
        ManualCarrier carrier;
        carrier.lending = which != lends_not;
        Runner runner;
        for (int round = 0; round < 2; ++round) {
            Done done;
            std::fill(result.begin(), result.end(), -1.0f);
            carrier.reducing.clear();
            runner.prepare(schedule);
            runner.start(carrier, {.input = input.data(), .result = result.data(), .reducer = &sum},
                         done);
            bool reduces = which == usual || which == into_other || which == chained;
            ASSERT_EQ(carrier.reducing.size(), reduces ? 1u : 0u) << "case " << which;
            ASSERT_EQ(carrier.operations.size(), which == waits ? 2u : 1u);
            if (!reduces) {
                runner.fail({Code::timed_out, "The test goes on", -1, 0});
                continue;
            }
            auto* from = reinterpret_cast<const std::byte*>(message.data());
            carrier.reducing[0]->take(4098, {from + 4098, bytes - 4098});
            carrier.reducing[0]->take(0, {from, 4098});
            carrier.end(*carrier.operations[0].done);
            EXPECT_EQ(done.calls, 1);
            if (which == chained)
                for (size_t i = 0; i < count; ++i) wanted[i] = 2 * input[i] + message[i];
            ASSERT_EQ(result, wanted) << "case " << which;
        }
    }
}

// Goal: while a long copy is done messages pass, so that a gather's root reads blocks that are
// there before it is done with its own. Method: turns by hand; without turns, alone, or where the
// areas overlap it is done at once; so is one into a chunk, for which others wait.
TEST(Runner, copies_long_blocks_in_parts) {
    constexpr size_t bytes = 200'001;
    enum Case { by_turns, no_turns, alone, overlapping, cases };
    for (int which = 0; which < cases; ++which) {
        Shape shape{.rank = 0, .size = 2, .element = 1};
        Builder s(shape);
        if (which != alone) s.recv(1, s.result(2 * bytes, 8));
        s.copy(which == overlapping ? s.result(100, bytes) : s.input(0, bytes), s.result(0, bytes));
        Schedule schedule = s.finish();
        ManualCarrier carrier;
        carrier.turns = which != no_turns;
        std::vector<unsigned char> input(bytes), result(3 * bytes);
        for (size_t i = 0; i < bytes; ++i)
            input[i] = result[100 + i] = static_cast<unsigned char>(i * 7 + i / 251);
        Runner runner;
        Done done;
        runner.prepare(schedule);
        runner.start(carrier, {.input = input.data(), .result = result.data()}, done);
        EXPECT_EQ(carrier.operations.size(), which == alone ? 0u : 1u);
        int turns = 0;
        for (; !carrier.next.empty(); ++turns) {
            EXPECT_NE(std::memcmp(result.data(), input.data(), bytes), 0);
            if (turns == 0) carrier.end(*carrier.operations[0].done);
            EXPECT_EQ(done.calls, 0) << "a part is still to come";
            carrier.turn();
        }
        EXPECT_EQ(turns, which == by_turns ? 2 : 0) << "case " << which;
        EXPECT_EQ(std::memcmp(result.data(), input.data(), bytes), 0) << "case " << which;
        while (!carrier.operations.empty()) carrier.end(*carrier.operations[0].done);
        EXPECT_EQ(done.calls, 1);
    }
}

TEST(Runner, copies_into_chunks_at_once) {
    Shape shape{.rank = 0, .size = 2, .element = 1, .board = true};
    Builder s(shape);
    s.recv(1, s.result(0, 8));
    s.copy(s.input(0, kPieceBytes), s.chunk(0, 0, kPieceBytes));
    Schedule schedule = s.finish();
    ManualCarrier carrier;
    carrier.turns = true;
    std::vector<std::byte> input(kPieceBytes, std::byte{7}), result(8);
    Runner runner;
    Done done;
    runner.prepare(schedule);
    runner.start(carrier, {.input = input.data(), .result = result.data()}, done);
    EXPECT_TRUE(carrier.next.empty());
    EXPECT_EQ(carrier.own_chunk, input);
    carrier.end(*carrier.operations[0].done);
    EXPECT_EQ(done.calls, 1);
}

// Goal: while a long vector is added up, messages go on; the sum is whole, and what waits for it
// starts behind its last part. Method: turns of the carrier are counted; in the third one, other
// messages complete.
TEST(Runner, reduces_long_vectors_in_parts) {
    constexpr size_t count = 250'001, bytes = count * 4;
    KernelReducer sum(*find_kernel(ReduceOp::sum, ElementType::f32));
    Shape shape{.rank = 0, .size = 3, .element = 4};
    Builder s(shape);
    Region arrived = s.scratch(bytes), beside = s.scratch(8);
    s.recv(1, arrived);
    s.reduce(s.input(0, bytes), arrived, s.result(0, bytes));
    s.send(1, s.result(0, bytes));
    s.recv(2, beside);
    s.send(2, beside);
    Schedule schedule = s.finish();
    auto input = ramp(count, 1, 1);
    std::vector<float> result(count), wanted(count);
    enum Case { whole, by_turns, only_runs, fails, cases };
    for (int which = 0; which < cases; ++which) {
        ManualCarrier carrier;
        carrier.turns = which != whole;
        sum.any_run = which != only_runs;
        Runner runner;
        Done done;
        std::fill(result.begin(), result.end(), -1.0f);
        runner.prepare(schedule);
        runner.start(carrier, {.input = input.data(), .result = result.data(), .reducer = &sum},
                     done);
        ASSERT_EQ(carrier.operations.size(), 2u);
        auto* landed = reinterpret_cast<float*>(carrier.received[0].data());
        for (size_t i = 0; i < count; ++i) landed[i] = 3, wanted[i] = input[i] + 3;
        carrier.end(*carrier.operations[0].done);
        bool parts = which == by_turns || which == fails;
        ASSERT_EQ(carrier.next.size(), parts ? 1u : 0u) << "case " << which;
        int turns = 0;
        for (; !carrier.next.empty(); ++turns) {
            EXPECT_EQ(carrier.operations.size(), 1u) << "nothing waits for a part";
            EXPECT_EQ(result[count - 1], -1.0f);
            if (turns == 3) {
                carrier.end(*carrier.operations[0].done);
                ASSERT_EQ(carrier.operations.size(), 1u) << "its answer goes at once";
                EXPECT_EQ(carrier.operations[0].peer, 2);
                if (which == fails) {
                    runner.fail({Code::timed_out, "The job ends", -1, 0});
                    EXPECT_EQ(done.calls, 0) << "a part is still to come";
                }
            }
            carrier.turn();
            if (which == fails && turns == 3) break;
        }
        if (which == fails) {
            EXPECT_EQ(done.calls, 1);
            EXPECT_TRUE(carrier.next.empty());
            EXPECT_EQ(result[count - 1], -1.0f) << "no part is added up for nobody";
            continue;
        }
        EXPECT_EQ(turns, parts ? 9 : 0);
        ASSERT_EQ(result, wanted) << "case " << which;
        while (!carrier.operations.empty()) carrier.end(*carrier.operations[0].done);
        EXPECT_EQ(done.calls, 1);
    }
}

// Goal: a long reduction goes to the carrier's helper whole, and what waits for it starts when that
// says so; a short one, and a user's function, do not; after a failure the execution ends when the
// helper has left its memory. Method: the helper's work is done by hand.
TEST(Runner, puts_long_reductions_aside) {
    constexpr size_t count = 250'001, bytes = count * 4, few = 1000;
    enum Case { helped, no_helper, users_function, fails, cases };
    for (int which = 0; which < cases; ++which) {
        KernelReducer sum(*find_kernel(ReduceOp::sum, ElementType::f32));
        if (which == users_function) sum.kernel = nullptr;
        if (which == users_function)
            sum.to = [](const Reducer*, void*, const void*, const void*, size_t) {};
        Shape shape{.rank = 0, .size = 2, .element = 4};
        Builder s(shape);
        s.reduce(s.input(bytes, 4 * few), s.input(bytes, 4 * few), s.result(bytes, 4 * few));
        s.reduce(s.input(0, bytes), s.input(0, bytes), s.result(0, bytes));
        s.send(1, s.result(0, bytes));
        Schedule schedule = s.finish();
        auto input = ramp(count + few, 1, 1);
        std::vector<float> result(count + few, -1);
        ManualCarrier carrier;
        carrier.helping = which != no_helper;
        Runner runner;
        Done done;
        runner.prepare(schedule);
        runner.start(carrier, {.input = input.data(), .result = result.data(), .reducer = &sum},
                     done);
        bool aside = which == helped || which == fails;
        ASSERT_EQ(carrier.helped.size(), aside ? 1u : 0u) << "case " << which;
        ASSERT_EQ(carrier.operations.size(), aside ? 0u : 1u) << "case " << which;
        if (aside) {
            auto [all, its_done] = carrier.helped[0];
            EXPECT_EQ(result[0], -1.0f);
            EXPECT_EQ(all.count, count);
            if (which == fails) {
                runner.fail({Code::timed_out, "The job ends", -1, 0});
                EXPECT_EQ(done.calls, 0) << "the helper is in its memory";
            }
            all.kernel->to(all.out, all.left, all.right, all.count);
            carrier.helped.clear();
            its_done->function(its_done, nullptr);
        }
        if (which == fails) {
            EXPECT_EQ(done.calls, 1);
            EXPECT_TRUE(carrier.operations.empty());
            continue;
        }
        ASSERT_EQ(carrier.operations.size(), 1u);
        carrier.end(*carrier.operations[0].done);
        EXPECT_EQ(done.calls, 1);
        if (which == users_function) continue;
        for (size_t i = 0; i < count + few; ++i) ASSERT_EQ(result[i], 2 * input[i]);
    }
}

// Goal: an execution that failed leaves nothing behind. Method: its receive had begun to reduce;
// the next one receives and reduces in two steps.
TEST(Runner, forgets_what_a_failed_execution_was_to_reduce) {
    constexpr size_t bytes = 4096;
    KernelReducer sum(*find_kernel(ReduceOp::sum, ElementType::u8));
    Shape shape{.rank = 0, .size = 2, .element = 1};
    Builder s(shape);
    s.recv(1, s.result(0, bytes));
    s.reduce(s.input(0, bytes), s.result(0, bytes), s.result(0, bytes));
    Schedule schedule = s.finish();
    std::vector<uint8_t> input(bytes, 3), result(bytes, 4);
    ManualCarrier carrier;
    Runner runner;
    for (bool lending : {true, false}) {
        Done done;
        carrier.lending = lending;
        runner.prepare(schedule);
        runner.start(carrier, {.input = input.data(), .result = result.data(), .reducer = &sum},
                     done);
        ASSERT_EQ(carrier.operations.size(), 1u);
        if (lending) runner.fail({Code::timed_out, "The job ends", -1, 0});
        else carrier.end(*carrier.operations[0].done);
        EXPECT_EQ(done.calls, 1);
    }
    EXPECT_EQ(result, std::vector<uint8_t>(bytes, 7));
}

TEST(Runner, can_be_ended_from_outside) {
    Schedule schedule = three_receives();
    ManualCarrier carrier;
    Runner runner;
    std::byte result[64];
    Done done;
    runner.prepare(schedule);
    runner.start(carrier, {.result = result}, done);
    runner.fail({Code::timed_out, "The job ends", -1, 0});
    EXPECT_EQ(done.calls, 1);
    EXPECT_EQ(done.error.code, Code::timed_out);
    runner.fail({Code::timed_out, "The job ends", -1, 0});
    EXPECT_EQ(done.calls, 1);
}

TEST(Runner, does_nothing_at_once) {
    Shape shape{.collective = Collective::barrier, .size = 1};
    Schedule schedule =
        build_schedule(*find_algorithm(Collective::barrier, "dissemination"), shape, {});
    ManualCarrier carrier;
    Runner runner;
    Done done;
    runner.prepare(schedule);
    runner.start(carrier, {}, done);
    EXPECT_EQ(done.calls, 1);
}

}  // namespace
}  // namespace pomona::coll
