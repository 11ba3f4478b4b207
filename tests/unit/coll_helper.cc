// tests/unit/coll_helper.cc: the thread that helps with long reductions (coll/helper.h).
// Goal: every reduction is whole and ends once, in order, whoever does its parts: the thread alone,
// both, or the caller where the thread gets no core. `ctest -R threads_` runs it under ranks, also
// with the thread sanitizer.
#include "coll/helper.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace pomona::coll {
namespace {

// A sum of floats, into either operand or beside them.
struct Job : Completion {
    Job(const ReduceKernel& kernel, size_t count, int target, unsigned seed) {
        std::minstd_rand random(seed);
        left.resize(count), right.resize(count), out.resize(count), wanted.resize(count);
        for (size_t i = 0; i < count; ++i) {
            left[i] = static_cast<float>(random() % 1000), right[i] = static_cast<float>(i % 77);
            wanted[i] = left[i] + right[i];
        }
        float* to = target == 0 ? left.data() : target == 1 ? right.data() : out.data();
        result = target == 0 ? &left : target == 1 ? &right : &out;
        auto at = [](float* in) { return reinterpret_cast<std::byte*>(in); };
        reduction = {&kernel, at(to), at(left.data()), at(right.data()), count, sizeof(float)};
        function = [](Completion* self, const Error* error) {
            auto* job = static_cast<Job*>(self);
            EXPECT_EQ(error, nullptr);
            EXPECT_EQ(*job->result, job->wanted);
            EXPECT_EQ(job->number, *job->ended) << "in the order in which they were offered";
            ++*job->ended;
        };
    }
    AsideReduction reduction;
    std::vector<float> left, right, out, wanted;
    std::vector<float>* result = nullptr;
    int number = 0;
    int* ended = nullptr;
};

TEST(Helper, reductions_of_all_lengths_end_in_order) {
    const ReduceKernel& sum = *find_kernel(ReduceOp::sum, ElementType::f32);
    enum Who { thread, both, caller, cases };
    std::minstd_rand random(5);
    for (int who = 0; who < cases; ++who) {
        auto helper = Helper::start();
        ASSERT_NE(helper, nullptr);
        int offered = 0, ended = 0;
        std::vector<std::unique_ptr<Job>> jobs;
        while (offered < 60) {
            size_t count = 1 + random() % (4 * kReducePart / sizeof(float));
            jobs.push_back(std::make_unique<Job>(sum, count, offered % 3, random()));
            jobs.back()->number = offered++;
            jobs.back()->ended = &ended;
            ASSERT_TRUE(helper->offer(jobs.back()->reduction, *jobs.back()));
            // By bursts, so that the thread sleeps between them.
            if (random() % 4 == 0) continue;
            while (helper->busy()) {
                if (who == both) helper->take_part();
                while (who == caller && helper->take_part() > 0) continue;
                helper->collect();
                std::this_thread::yield();
            }
        }
        while (helper->busy()) helper->collect();
        EXPECT_EQ(ended, offered);
        if (who == thread) { EXPECT_GT(helper->bytes(), 0u); }
    }
}

TEST(Helper, refuses_more_than_it_has_room_for) {
    const ReduceKernel& sum = *find_kernel(ReduceOp::sum, ElementType::f32);
    auto helper = Helper::start();
    ASSERT_NE(helper, nullptr);
    int offered = 0, ended = 0;
    std::vector<std::unique_ptr<Job>> jobs;
    for (;; ++offered) {
        jobs.push_back(std::make_unique<Job>(sum, 100, 2, 1));
        jobs.back()->number = offered;
        jobs.back()->ended = &ended;
        if (!helper->offer(jobs.back()->reduction, *jobs.back())) break;
        ASSERT_LT(offered, 1000);
    }
    EXPECT_EQ(ended, 0) << "only collect() ends them";
    while (helper->busy()) helper->collect();
    EXPECT_EQ(ended, offered);
    EXPECT_TRUE(helper->offer(jobs.back()->reduction, *jobs.back()));  // there is room again
    while (helper->busy()) helper->collect();
}

// A completion offers the next one, as schedules do.
TEST(Helper, completions_may_offer_more) {
    const ReduceKernel& sum = *find_kernel(ReduceOp::sum, ElementType::f32);
    struct Chain : Completion {
        Helper* helper = nullptr;
        AsideReduction step;
        int left = 200;
    } chain;
    std::vector<float> total(60'000), one(60'000, 1);
    auto helper = Helper::start();
    ASSERT_NE(helper, nullptr);
    chain.helper = helper.get();
    auto* at = reinterpret_cast<std::byte*>(total.data());
    chain.step = {&sum, at, at, reinterpret_cast<std::byte*>(one.data()), one.size(), 4};
    chain.function = [](Completion* self, const Error*) {
        auto& here = *static_cast<Chain*>(self);
        if (--here.left > 0) { EXPECT_TRUE(here.helper->offer(here.step, here)); }
    };
    ASSERT_TRUE(helper->offer(chain.step, chain));
    while (helper->busy()) {
        helper->take_part();
        helper->collect();
    }
    EXPECT_EQ(total, std::vector<float>(60'000, 200));
}

}  // namespace
}  // namespace pomona::coll
