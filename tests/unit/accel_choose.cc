// tests/unit/accel_choose.cc: the choice of modules, with made-up modules and made-up times.
// Goal: a module serves where it is faster, never where its bits differ; files come back as they
// were or are refused; installed kernels pass on by size. No clock is read: times come from a
// formula.
#include "accel/choose.h"

#include "btl/base/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <unistd.h>

namespace pomona {
namespace {

int fake_calls = 0;

const ReduceKernel& portable_sum() {
    return *find_kernel(ReduceOp::sum, ElementType::f32, best_isa());
}

// Right, and counted.
void good_to(void* out, const void* a, const void* b, size_t count) {
    ++fake_calls;
    portable_sum().to(out, a, b, count);
}
void good_into(void* inout, const void* in, size_t count) { good_to(inout, in, inout, count); }
const ReduceKernel good_kernel{good_into, good_to, "good", 4};
const ReduceKernel* find_good(ReduceOp op, ElementType type) {
    return op == ReduceOp::sum && type == ElementType::f32 ? &good_kernel : nullptr;
}

// As a GPU that takes subnormal numbers as zero.
void flushing_to(void* out, const void* a, const void* b, size_t count) {
    auto* result = static_cast<float*>(out);
    for (size_t i = 0; i < count; ++i) {
        float x = static_cast<const float*>(a)[i], y = static_cast<const float*>(b)[i];
        auto flush = [](float v) { return std::fpclassify(v) == FP_SUBNORMAL ? v * 0 : v; };
        result[i] = flush(flush(x) + flush(y));
    }
}
void flushing_into(void* inout, const void* in, size_t n) { flushing_to(inout, in, inout, n); }
const ReduceKernel flushing_kernel{flushing_into, flushing_to, "flushing", 4};
const ReduceKernel* find_flushing(ReduceOp op, ElementType type) {
    return op == ReduceOp::sum && type == ElementType::f32 ? &flushing_kernel : nullptr;
}

// Portable: 1 ns for 100 bytes. `good`: 10 us to start, then ten times faster: ahead from about
// 1.2 MB.
Nanoseconds made_up_time(const ReduceKernel& kernel, size_t bytes) {
    auto size = static_cast<Nanoseconds>(bytes);
    return &kernel == &good_kernel ? 10000 + size / 1000 : size / 100;
}

const Choice& sum_row(const Choices& choices) {
    for (const Choice& row : choices.rows)
        if (row.op == ReduceOp::sum && row.type == ElementType::f32) return row;
    ADD_FAILURE() << "no row for sum f32";
    return choices.rows.front();
}

TEST(Choose, takes_the_faster_module_from_its_crossover_on) {
    Choices choices = measure_choices({{Module::vdsp, find_good}}, made_up_time);
    const Choice& row = sum_row(choices);
    EXPECT_EQ(row.module_for(8), Module::portable);
    EXPECT_EQ(row.module_for(1 << 20), Module::portable);
    EXPECT_EQ(row.module_for(4 << 20), Module::vdsp);
    EXPECT_EQ(row.module_for(size_t{1} << 40), Module::vdsp);
    EXPECT_FALSE(row.differs[1]);
}

TEST(Choose, never_takes_a_module_with_other_bits) {
    auto fast = [](const ReduceKernel& kernel, size_t) {
        return Nanoseconds{&kernel == &flushing_kernel ? 1 : 1000};
    };
    Choices choices = measure_choices({{Module::metal, find_flushing}}, fast);
    EXPECT_TRUE(sum_row(choices).differs[2]);
    EXPECT_EQ(sum_row(choices).module_for(64 << 20), Module::portable);
}

TEST(Choose, smooths_one_odd_measurement) {
    auto disturbed = [](const ReduceKernel& kernel, size_t bytes) {
        bool odd = &kernel == &good_kernel && bytes == 262144;
        return odd ? 1 : made_up_time(kernel, bytes);
    };
    Choices choices = measure_choices({{Module::vdsp, find_good}}, disturbed);
    EXPECT_EQ(sum_row(choices).module_for(262144), Module::portable);
}

TEST(Choose, finds_kernels_alike_or_not) {
    for (auto type : {ElementType::f16, ElementType::bf16, ElementType::f32, ElementType::f64,
                      ElementType::i32, ElementType::complex_f32})
        EXPECT_TRUE(same_results(ReduceOp::sum, type,
                                 *find_kernel(ReduceOp::sum, type, Isa::portable),
                                 *find_kernel(ReduceOp::sum, type)));
    EXPECT_FALSE(same_results(ReduceOp::sum, ElementType::i32,
                              *find_kernel(ReduceOp::sum, ElementType::i32),
                              *find_kernel(ReduceOp::bxor, ElementType::i32)));
    EXPECT_FALSE(same_results(ReduceOp::sum, ElementType::f32, portable_sum(), flushing_kernel));
}

TEST(Choose, reads_what_it_wrote) {
    Choices choices =
        measure_choices({{Module::vdsp, find_good}, {Module::metal, find_flushing}}, made_up_time);
    std::string text = choices_text(choices);
    Result<Choices> again = parse_choices(text);
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(choices_text(again.value()), text);
    EXPECT_EQ(sum_row(again.value()).module_for(4 << 20), Module::vdsp);
    EXPECT_TRUE(sum_row(again.value()).differs[2]);

    std::string folder = testing::TempDir() + "pomona_choose_" + std::to_string(getpid());
    std::string path = folder + "/a/b/accel";
    EXPECT_EQ(load_choices(path).error().code, Code::not_found);
    ASSERT_TRUE(save_choices(choices, path).ok());
    Result<Choices> loaded = load_choices(path);
    ASSERT_TRUE(loaded.ok());
    EXPECT_EQ(choices_text(loaded.value()), text);
    choices.machine = "another machine";
    ASSERT_TRUE(save_choices(choices, path).ok());
    EXPECT_EQ(load_choices(path).error().code, Code::not_found);
    EXPECT_FALSE(save_choices(choices, "/dev/null/accel").ok());
    unlink(path.c_str());
    for (const char* part : {"/a/b", "/a", ""}) rmdir((folder + part).c_str());
}

TEST(Choose, refuses_what_is_no_such_file) {
    const std::string head = "pomona-accel 1\nmachine x\n";
    EXPECT_TRUE(parse_choices(head).ok());
    EXPECT_TRUE(parse_choices(head + "sum f32 4096:vdsp:3,2,0 differs=metal\n").ok());
    for (const char* line : {"", "pomona-accel 2\nmachine x\n", "pomona-accel 1\n"})
        EXPECT_FALSE(parse_choices(line).ok()) << line;
    for (const char* line :
         {"add f32", "sum f33", "sum f32 4096", "sum f32 4096:vdsp", "sum f32 4096:vdsp:1,2",
          "sum f32 4096:vdsp:1,2,3,4", "sum f32 4096:cuda:1,2,3", "sum f32 x:vdsp:1,2,3",
          "sum f32 -1:vdsp:1,2,3", "sum f32 1:vdsp:1,2,-3",
          "sum f32 99999999999999999999:vdsp:1,2,3", "sum f32 64:vdsp:1,2,3 64:vdsp:1,2,3",
          "sum f32 differs=", "\n"})
        EXPECT_FALSE(parse_choices(head + line + "\n").ok()) << line;
    // Any damage is read to the end without harm.
    std::string text = choices_text(measure_choices({}, made_up_time));
    Random random(3);
    for (int i = 0; i < 3000; ++i) {
        std::string damaged = text;
        for (int k = random.between(1, 5); k > 0; --k)
            damaged[random.below(damaged.size())] = static_cast<char>(random.below(256));
        damaged.resize(random.below(damaged.size() + 1));
        Result<Choices> result = parse_choices(damaged);
        EXPECT_TRUE(!result.ok() || !choices_text(result.value()).empty());
    }
}

TEST(Choose, installed_kernels_pass_on_by_size) {
    std::vector<Candidate> candidates{{Module::vdsp, find_good}};
    Choices choices = measure_choices(candidates, made_up_time);
    std::vector<float> a(2 << 20, 1), b(2 << 20, 2);
    auto run = [&](size_t count) {
        fake_calls = 0;
        find_kernel(ReduceOp::sum, ElementType::f32)->into(b.data(), a.data(), count);
        return fake_calls;
    };
    install_choices(choices, candidates, "auto");
    EXPECT_EQ(run(10), 0);
    EXPECT_EQ(run(b.size()), 1);
    EXPECT_EQ(b[9], 4.0f);
    EXPECT_EQ(b.back(), 3.0f);
    EXPECT_EQ(find_kernel(ReduceOp::sum, ElementType::f32)->element_size, 4u);
    EXPECT_EQ(find_kernel(ReduceOp::max, ElementType::f32),
              find_kernel(ReduceOp::max, ElementType::f32, best_isa()));
    install_choices(choices, candidates, "vdsp");
    EXPECT_EQ(run(10), 1);
    install_choices(choices, candidates, "portable");
    EXPECT_EQ(run(b.size()), 0);
    uninstall_choices();
    EXPECT_EQ(find_kernel(ReduceOp::sum, ElementType::f32), &portable_sum());
}

TEST(Choose, starts_with_any_known_mode) {
    const char* environment[] = {"XDG_CACHE_HOME=/nonexistent", nullptr};
    EXPECT_TRUE(start_accel("portable", environment).ok());
    EXPECT_TRUE(start_accel("auto", environment).ok());
    EXPECT_EQ(start_accel("gpu", environment).error().code, Code::invalid_argument);
}

TEST(Choose, keeps_its_file_where_caches_belong) {
    const char* plain[] = {"HOME=/home/u", nullptr};
    const char* xdg[] = {"HOMES=/x", "XDG_CACHE_HOME=/c", "HOME=/home/u", nullptr};
    const char* none[] = {"PATH=/bin", nullptr};
#if defined(__APPLE__)
    EXPECT_EQ(accel_cache_path(plain), "/home/u/Library/Caches/pomona/accel");
#else
    EXPECT_EQ(accel_cache_path(plain), "/home/u/.cache/pomona/accel");
#endif
    EXPECT_EQ(accel_cache_path(xdg), "/c/pomona/accel");
    EXPECT_EQ(accel_cache_path(none), "");
}

}  // namespace
}  // namespace pomona
