// tests/metal/host.cc: accel/metal.cc against the stand-in for Metal in mock.cc.
// Goal: right results through the whole flow, completion exactly once and off the calling thread,
// nothing left behind, faults of the device survived. The mock ends the program at any misuse;
// that it does so is tested too.
#include "accel/metal.h"

#include "accel/modules.h"
#include "accel/objc.h"
#include "coll/builder.h"
#include "coll/gates.h"
#include "tests/metal/mock.h"
#include "tests/unit/accel_reference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

extern "C" void* MTLCreateSystemDefaultDevice(void);

namespace pomona {
namespace {

class MetalHost : public testing::Test {
protected:
    void SetUp() override {
        mock_reset();
        before_ = mock_live_objects();
    }
    // The mock's own threads drop their last reference just after the handler.
    void TearDown() override {
        for (int i = 0; i < 2000 && mock_live_objects() != before_; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        EXPECT_EQ(mock_live_objects(), before_) << "objects leaked";
    }
    size_t before_ = 0;
};

std::unique_ptr<Metal> opened() {
    auto metal = Metal::open();
    EXPECT_TRUE(metal.ok());
    return std::move(metal).value();
}

template <class T> void check(Metal& metal, ReduceOp op, ElementType type, size_t count) {
    reference::Engine random(count);
    std::vector<T> a(count + 8), b(count + 8), out(count + 8), expected(count);
    for (size_t i = 0; i < count + 8; ++i) {
        a[i] = reference::random_value<T>(random);
        b[i] = reference::random_value<T>(random);
    }
    size_t shift = count % 5;
    find_kernel(op, type)->to(expected.data(), &a[shift], &b[2], count);
    MetalReduction r{op, type, {&out[1]}, {&a[shift]}, {&b[2]}, count, nullptr, 0};
    Status status = metal.run(r);
    ASSERT_TRUE(status.ok()) << op_name(op) << " " << type_name(type) << status.error().what;
    for (size_t i = 0; i < count; ++i)
        ASSERT_TRUE(reference::equal(out[1 + i], expected[i]))
            << op_name(op) << " " << type_name(type) << " element " << i << " of " << count;
}

TEST_F(MetalHost, computes_all_it_supports) {
    auto metal = opened();
    EXPECT_STREQ(metal->device_name(), "Mock GPU");
    int combinations = 0;
    for (int op = 0; op < op_count; ++op)
        for (int t = 0; t < type_count; ++t) {
            auto operation = static_cast<ReduceOp>(op);
            auto type = static_cast<ElementType>(t);
            if (!Metal::supports(operation, type)) continue;
            ++combinations;
            reference::with_type(type, [&](auto* pointer) {
                using T = std::remove_pointer_t<decltype(pointer)>;
                for (size_t count : {0, 1, 7, 1000, 9001}) check<T>(*metal, operation, type, count);
            });
            if (HasFatalFailure()) return;
        }
    // sum 9, prod 7, min and max 7 each, bits on 9 integers and bytes.
    EXPECT_EQ(combinations, 9 + 7 + 14 + 3 * 10);
}

TEST_F(MetalHost, wraps_arrays_that_share_pages) {
    auto metal = opened();
    std::vector<float> all(30000);
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<float>(i);
    MetalReduction r{
        ReduceOp::sum, ElementType::f32, {&all[20000]}, {&all[0]}, {&all[10000]}, 9999, nullptr, 0};
    ASSERT_TRUE(metal->run(r).ok());
    r.out = r.b;
    ASSERT_TRUE(metal->run(r).ok());
    for (size_t i = 0; i < 9999; ++i) {
        ASSERT_EQ(all[20000 + i], static_cast<float>(10000 + 2 * i));
        ASSERT_EQ(all[10000 + i], all[20000 + i]);
    }
}

TEST_F(MetalHost, completes_many_at_once_each_once) {
    auto metal = opened();
    constexpr size_t tasks = 50, length = 500;
    std::vector<std::vector<int>> a(tasks, std::vector<int>(length, 3)), b = a;
    std::atomic<int> completed{0}, failed{0};
    static std::atomic<int>*done_count, *fail_count;
    done_count = &completed;
    fail_count = &failed;
    mock_faults.hold = true;
    for (size_t i = 0; i < tasks; ++i) {
        MetalReduction r{ReduceOp::prod, ElementType::i32, {b[i].data()}, {a[i].data()},
                         {b[i].data()},  length,           nullptr,       0};
        auto done = [](void*, bool ok) { ++*(ok ? done_count : fail_count); };
        ASSERT_TRUE(metal->start(r, done, nullptr).ok());
    }
    EXPECT_EQ(completed, 0) << "completed before the device ran it";
    mock_let_go();
    metal.reset();  // waits
    EXPECT_EQ(completed, static_cast<int>(tasks));
    EXPECT_EQ(failed, 0);
    for (auto& array : b)
        for (int value : array) ASSERT_EQ(value, 9);
}

TEST_F(MetalHost, waits_for_an_event) {
    auto metal = opened();
    void* event = mock_new_event();
    std::vector<float> a(100, 1), b(100, 2);
    static std::atomic<bool> over;
    over = false;
    MetalReduction r{
        ReduceOp::sum, ElementType::f32, {b.data()}, {a.data()}, {b.data()}, 100, event, 7};
    ASSERT_TRUE(metal
                    ->start(
                        r, [](void*, bool) { over = true; }, nullptr)
                    .ok());
    mock_signal_event(event, 6);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(over);
    std::fill(a.begin(), a.end(), 5.0f);  // the producer's last write before its signal
    mock_signal_event(event, 7);
    metal.reset();
    EXPECT_TRUE(over);
    EXPECT_EQ(b[99], 7.0f);
    objc::send<void>(event, "release");
}

// A schedule waits for two halves that the GPU makes, and copies each when it is there: the path of
// a collective whose input a device still computes.
TEST_F(MetalHost, opens_the_gates_of_a_schedule) {
    auto metal = opened();
    constexpr size_t half = 4096, bytes = half * sizeof(float);
    std::vector<float> a(2 * half, 1), b(2 * half, 2), input(2 * half), result(2 * half);
    coll::Shape shape{.size = 1, .count = 2 * bytes, .element = 1};
    coll::Builder s(shape);
    for (int part = 0; part < 2; ++part) {
        size_t offset = static_cast<size_t>(part) * bytes;
        s.gate(part, s.input(offset, bytes));
        s.copy(s.input(offset, bytes), s.result(offset, bytes));
    }
    coll::Schedule schedule = s.finish();
    std::atomic<int> woken{0};
    auto wake = [](void* count) { ++*static_cast<std::atomic<int>*>(count); };
    coll::Gates gates(wake, &woken);
    void* openers[2];
    for (void*& opener : openers) opener = gates.opener(gates.make());
    struct Done : coll::Completion {
        int calls = 0;
        bool ok = false;
    } done;
    done.function = [](coll::Completion* self, const Error* error) {
        ++static_cast<Done*>(self)->calls;
        static_cast<Done*>(self)->ok = !error;
    };
    struct NoCarrier : coll::Carrier {
        void send(int, int, ConstBytes, coll::Completion&) override { std::abort(); }
        void recv(int, int, Bytes, coll::Completion&) override { std::abort(); }
    } carrier;
    mock_faults.hold = true;
    for (size_t part = 0; part < 2; ++part) {
        size_t at = part * half;
        MetalReduction r{
            ReduceOp::sum, ElementType::f32, {&input[at]}, {&a[at]}, {&b[at]}, half, nullptr, 0};
        ASSERT_TRUE(metal->start(r, coll::Gates::opened, openers[part]).ok());
    }
    coll::Runner runner;
    runner.prepare(schedule);
    runner.start(carrier, {.input = input.data(), .result = result.data(), .gate = &gates}, done);
    EXPECT_EQ(gates.poll(), 0) << "opened before the device ran it";
    EXPECT_TRUE(gates.arm());
    mock_let_go();
    while (woken < 1) std::this_thread::yield();
    EXPECT_EQ(done.calls, 0) << "completed on the device's thread";
    int completed = 0;
    while (gates.pending()) completed += gates.poll();
    EXPECT_EQ(completed, 2);
    EXPECT_EQ(done.calls, 1);
    EXPECT_TRUE(done.ok);
    for (float value : result) ASSERT_EQ(value, 3.0f);
    metal.reset();
}

TEST_F(MetalHost, reports_what_the_device_refuses) {
    mock_faults.no_device = true;
    EXPECT_EQ(Metal::open().error().code, Code::unsupported);
    mock_reset();
    mock_faults.library_fails = true;
    EXPECT_EQ(Metal::open().error().code, Code::unsupported);
    mock_reset();
    auto metal = opened();
    std::vector<float> a(10, 1), b(10, 2), out(10, 9);
    MetalReduction r{
        ReduceOp::sum, ElementType::f32, {out.data()}, {a.data()}, {b.data()}, 10, nullptr, 0};
    mock_faults.pipeline_fails = true;
    EXPECT_EQ(metal->run(r).error().code, Code::unsupported);
    mock_faults = {};
    mock_faults.memory_unreachable = true;
    EXPECT_EQ(metal->run(r).error().code, Code::unsupported);
    mock_faults = {};
    mock_faults.execution_fails = true;
    EXPECT_EQ(metal->run(r).error().code, Code::io);
    mock_faults = {};
    r.a.pointer = reinterpret_cast<char*>(a.data()) + 2;
    EXPECT_EQ(metal->run(r).error().code, Code::unsupported);  // not aligned to its elements
    r.a.pointer = a.data();
    r.type = ElementType::f64;
    EXPECT_EQ(metal->run(r).error().code, Code::unsupported);
    EXPECT_EQ(out[0], 9.0f);
    r.type = ElementType::f32;
    EXPECT_TRUE(metal->run(r).ok());
    EXPECT_EQ(out[0], 3.0f);
}

// As a form of the table; what the GPU cannot do there goes to the CPU. The table's device lives
// as long as the program, so its objects are no leak.
TEST(MetalTable, computes_and_falls_back) {
    mock_reset();
    const ReduceKernel* kernel = find_metal_kernel(ReduceOp::max, ElementType::bf16);
    ASSERT_NE(kernel, nullptr);
    EXPECT_STREQ(kernel->name, "metal");
    EXPECT_EQ(find_metal_kernel(ReduceOp::sum, ElementType::f64), nullptr);
    EXPECT_EQ(find_metal_kernel(ReduceOp::minloc, ElementType::int_int), nullptr);
    std::vector<uint16_t> a(100, 0x3f80), b(100, 0x4000);
    kernel->into(b.data(), a.data(), 100);
    EXPECT_EQ(b[99], 0x4000);
    EXPECT_EQ(mock_dispatches(), 1u);
    mock_faults.memory_unreachable = true;
    kernel->into(a.data(), b.data(), 100);
    EXPECT_EQ(a[99], 0x4000);
    EXPECT_EQ(mock_dispatches(), 1u);
    mock_reset();
}

// ---- the mock's own guards

objc::Id command_of(objc::Id device) {
    auto queue = objc::send<objc::Id>(device, "newCommandQueue");
    return objc::send<objc::Id>(queue, "commandBuffer");
}

TEST(MetalMockDeath, ends_the_program_at_misuse) {
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    objc::Pool pool;
    objc::Id device = MTLCreateSystemDefaultDevice();
    EXPECT_DEATH(objc::send<void>(device, "fly"), "unrecognized selector MTLDevice fly");
    EXPECT_DEATH(objc::send<objc::Id>(device,
                                      "newBufferWithBytesNoCopy:length:options:deallocator:",
                                      static_cast<void*>(&pool), 16384ul, 0ul, objc::Id(nullptr)),
                 "not page-aligned");
    EXPECT_DEATH(
        {
            objc::Id command = command_of(device);
            objc::send<objc::Id>(command, "computeCommandEncoder");
            objc::send<void>(command, "commit");
        },
        "commit before endEncoding");
    EXPECT_DEATH(
        {
            objc::Id command = command_of(device);
            objc::Id encoder = objc::send<objc::Id>(command, "computeCommandEncoder");
            objc::send<void>(encoder, "endEncoding");
            objc::send<void>(encoder, "endEncoding");
        },
        "encoding after endEncoding");
    EXPECT_DEATH(
        {
            objc::send<void>(device, "release");
            objc::send<objc::Id>(device, "newCommandQueue");
        },
        "freed or never was");
    objc::send<void>(device, "release");
}

}  // namespace
}  // namespace pomona
