// tests/metal/run.cc: the GPU kernels on the CPU, thread by thread.
// Goal: every kernel gives the reference's result for awkward counts and starts, in place too, and
// writes nothing else. Method: counts 0..37 and around 1000, starts 0..5 in each array; threads in
// reverse order and more of them than elements, as a grid of whole groups has; bits compared with
// the portable kernels, values with the reference in tests/unit/accel_reference.h.
#include "accel/metal_shape.h"
#include "tests/metal/kernels.h"
#include "tests/unit/accel_reference.h"

#include <gtest/gtest.h>

#include <string>

namespace pomona {
namespace {

struct Meaning {
    ReduceOp op;
    ElementType type;
};

// "reduce_sum_float" -> sum, f32
Meaning meaning_of(const std::string& name) {
    static const std::pair<const char*, ElementType> types[] = {
        {"_float", ElementType::f32}, {"_half", ElementType::f16}, {"_bfloat", ElementType::bf16},
        {"_int", ElementType::i32},   {"_uint", ElementType::u32}, {"_long", ElementType::i64},
        {"_ulong", ElementType::u64}, {"_uchar", ElementType::u8}};
    for (int op = 0; op < op_count; ++op)
        for (auto& [suffix, type] : types)
            if (name == std::string("reduce_") + op_name(static_cast<ReduceOp>(op)) + suffix)
                return {static_cast<ReduceOp>(op), type};
    ADD_FAILURE() << "a kernel of unknown name: " << name;
    return {ReduceOp::no_op, ElementType::byte};
}

// A float result rounded from double: the reference of sums and products.
template <class T> T expected(ReduceOp op, T a, T b) {
    if constexpr (std::is_same_v<T, float>) {
        if (op == ReduceOp::sum) return static_cast<float>(double{a} + double{b});
        if (op == ReduceOp::prod) return static_cast<float>(double{a} * double{b});
    }
    return reference::apply(op, a, b);
}

struct Starts {
    size_t out, a, b;
};

template <class T> class Case {
public:
    Case(const MetalKernel& kernel, Meaning meaning, size_t count, Starts starts, int alias)
        : kernel_(kernel), meaning_(meaning), count_(count), starts_(starts), alias_(alias) {}

    void run(reference::Engine& random) {
        size_t length = count_ + 16;
        T* arrays[3];
        alignas(64) static thread_local char storage[3][16384 + 64];
        for (int i = 0; i < 3; ++i) {
            arrays[i] = reinterpret_cast<T*>(storage[i]);
            for (size_t k = 0; k < length; ++k) arrays[i][k] = reference::random_value<T>(random);
        }
        T* out = alias_ == 0 ? arrays[0] : arrays[alias_];
        if (alias_ == 1) starts_.out = starts_.a;
        if (alias_ == 2) starts_.out = starts_.b;
        std::vector<T> before(out, out + length);
        std::vector<T> a(arrays[1], arrays[1] + length), b(arrays[2], arrays[2] + length);
        MetalShape shape =
            metal_shape(starts_.out, starts_.a, starts_.b, static_cast<uint32_t>(count_));
        for (uint32_t i = (shape.threads() / 32 + 1) * 32; i-- > 0;)
            kernel_.thread(out, arrays[1], arrays[2], &shape, i);
        check(out, before, a, b);
    }

private:
    void check(const T* out, const std::vector<T>& before, const std::vector<T>& a,
               const std::vector<T>& b) {
        std::vector<T> portable(count_ + 1);
        find_kernel(meaning_.op, meaning_.type, Isa::portable)
            ->to(portable.data(), &a[starts_.a], &b[starts_.b], count_);
        bool exact = meaning_.op != ReduceOp::sum && meaning_.op != ReduceOp::prod;
        for (size_t k = 0; k < before.size(); ++k) {
            if (k < starts_.out || k >= starts_.out + count_) {
                ASSERT_EQ(std::memcmp(&out[k], &before[k], sizeof(T)), 0) << where(k) << "stray";
                continue;
            }
            size_t i = k - starts_.out;
            T right = expected(meaning_.op, a[starts_.a + i], b[starts_.b + i]);
            ASSERT_TRUE(reference::equal(out[k], right)) << where(i);
            bool same = std::memcmp(&out[k], &portable[i], sizeof(T)) == 0;
            ASSERT_TRUE(same || !exact) << where(i);
        }
    }
    std::string where(size_t i) const {
        return std::string(kernel_.name) + ": element " + std::to_string(i) + " of " +
               std::to_string(count_) + ", starts " + std::to_string(starts_.out) + " " +
               std::to_string(starts_.a) + " " + std::to_string(starts_.b) + ", alias " +
               std::to_string(alias_) + " ";
    }

    const MetalKernel& kernel_;
    Meaning meaning_;
    size_t count_;
    Starts starts_;
    int alias_;
};

class EveryMetalKernel : public testing::TestWithParam<MetalKernel> {};
INSTANTIATE_TEST_SUITE_P(metal, EveryMetalKernel, testing::ValuesIn(metal_kernels()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(EveryMetalKernel, gives_the_reference_result) {
    const MetalKernel& kernel = GetParam();
    Meaning meaning = meaning_of(kernel.name);
    ASSERT_EQ(kernel.element_size, element_size(meaning.type));
    reference::Engine random(99);
    reference::with_type(meaning.type, [&](auto* pointer) {
        using T = std::remove_pointer_t<decltype(pointer)>;
        for (size_t count = 0; count <= 37; ++count)
            for (size_t start = 0; start < 216; ++start)
                for (int alias = 0; alias < 3; ++alias) {
                    if (count > 9 && start % 7 != count % 7) continue;
                    Starts starts{start % 6, start / 6 % 6, start / 36};
                    Case<T>(kernel, meaning, count, starts, alias).run(random);
                    if (testing::Test::HasFatalFailure()) return;
                }
        for (size_t count = 1000; count < 1009; ++count)
            for (size_t start = 0; start < 4; ++start)
                Case<T>(kernel, meaning, count, {start, start, start}, 0).run(random);
    });
}

// All of one 16-bit operand's values against a few of the other's.
TEST(MetalKernels, halves_over_all_values) {
    const uint16_t others[] = {0,      0x8000, 1,      0x83ff, 0x0400,
                               0x3c00, 0x7bff, 0xfc00, 0x7e00, 0x3555};
    int kernels = 0;
    for (const MetalKernel& kernel : metal_kernels()) {
        Meaning meaning = meaning_of(kernel.name);
        if (meaning.type != ElementType::f16 && meaning.type != ElementType::bf16) continue;
        ++kernels;
        alignas(64) static uint16_t a[65536], b[65536], out[65536], portable[65536];
        for (uint16_t other : others) {
            for (uint32_t i = 0; i < 65536; ++i) {
                a[i] = static_cast<uint16_t>(i);
                b[i] = other;
            }
            MetalShape shape = metal_shape(0, 0, 0, 65536);
            for (uint32_t i = 0; i < shape.threads(); ++i) kernel.thread(out, a, b, &shape, i);
            find_kernel(meaning.op, meaning.type, Isa::portable)->to(portable, a, b, 65536);
            for (uint32_t i = 0; i < 65536; ++i) {
                bool same = meaning.type == ElementType::f16
                                ? reference::equal(Float16{out[i]}, Float16{portable[i]})
                                : reference::equal(BFloat16{out[i]}, BFloat16{portable[i]});
                ASSERT_TRUE(same) << kernel.name << ": " << i << ", " << other;
            }
        }
    }
    EXPECT_EQ(kernels, 8);
}

TEST(MetalShape, takes_each_element_once) {
    for (uint64_t start = 0; start < 9; ++start)
        for (uint32_t count = 0; count < 40; ++count) {
            MetalShape shape = metal_shape(start, start + 4, start + 8, count);
            EXPECT_LE(shape.head + 4 * shape.vectors, count);
            EXPECT_EQ(shape.vectors == 0 ? 0 : (start + shape.head) % 4, 0u);
            EXPECT_TRUE(shape.vectors > 0 || count < 8);
            EXPECT_EQ(metal_shape(start, start + 1, start, count).vectors, 0u);
        }
}

}  // namespace
}  // namespace pomona
