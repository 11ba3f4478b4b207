// tests/unit/accel_vdsp.cc: the Accelerate module against the portable kernels.
// Goal: the same bits (NaNs of sums and products aside: any NaN), in place and unaligned too.
// Method: on Linux Accelerate is accelerate_reference.cc; on macOS this runs the real one.
#include "accel/modules.h"

#include "tests/unit/accel_reference.h"

#include <gtest/gtest.h>

namespace pomona {
namespace {

template <class T> void compare(ReduceOp op, ElementType type, size_t count, size_t shift) {
    const ReduceKernel* module = find_vdsp_kernel(op, type);
    const ReduceKernel* portable = find_kernel(op, type, Isa::portable);
    ASSERT_TRUE(module && portable) << op_name(op) << " " << type_name(type);
    ASSERT_EQ(module->element_size, sizeof(T));
    reference::Engine random(count + shift);
    std::vector<char> storage[4];
    for (auto& bytes : storage) bytes.resize(count * sizeof(T) + 8);
    char* a = storage[0].data() + shift;
    char* b = storage[1].data() + shift;
    char* got = storage[2].data() + shift;
    char* expected = storage[3].data() + shift;
    for (size_t i = 0; i < count; ++i)
        for (char* array : {a, b}) {
            T value = reference::random_value<T>(random);
            std::memcpy(array + i * sizeof(T), &value, sizeof(T));
        }
    auto check = [&](const char* result, const char* use) {
        for (size_t i = 0; i < count; ++i) {
            T x, y;
            std::memcpy(&x, result + i * sizeof(T), sizeof(T));
            std::memcpy(&y, expected + i * sizeof(T), sizeof(T));
            bool same = op == ReduceOp::min || op == ReduceOp::max
                            ? std::memcmp(&x, &y, sizeof(T)) == 0
                            : reference::equal(x, y);
            ASSERT_TRUE(same) << op_name(op) << " " << type_name(type) << " element " << i << " of "
                              << count << " " << use;
        }
    };
    portable->to(expected, a, b, count);
    module->to(got, a, b, count);
    check(got, "apart");
    std::memcpy(got, a, count * sizeof(T));
    module->to(got, got, b, count);
    check(got, "onto the first");
    module->into(b, a, count);
    check(b, "into the second");
}

TEST(Vdsp, gives_the_portable_kernels_bits) {
    for (size_t count : {0, 1, 3, 64, 1023, 1024, 1025, 5000})
        for (size_t shift : {0, 1, 4}) {
            for (auto op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max}) {
                compare<float>(op, ElementType::f32, count, shift);
                compare<double>(op, ElementType::f64, count, shift);
            }
            compare<Float16>(ReduceOp::sum, ElementType::f16, count, shift);
            compare<Float16>(ReduceOp::prod, ElementType::f16, count, shift);
            compare<Complex<float>>(ReduceOp::sum, ElementType::complex_f32, count, shift);
            compare<Complex<double>>(ReduceOp::sum, ElementType::complex_f64, count, shift);
            compare<Complex<Float16>>(ReduceOp::sum, ElementType::complex_f16, count, shift);
        }
}

TEST(Vdsp, leaves_the_rest_to_others) {
    EXPECT_EQ(find_vdsp_kernel(ReduceOp::sum, ElementType::i32), nullptr);
    EXPECT_EQ(find_vdsp_kernel(ReduceOp::sum, ElementType::bf16), nullptr);
    EXPECT_EQ(find_vdsp_kernel(ReduceOp::min, ElementType::f16), nullptr);
    EXPECT_EQ(find_vdsp_kernel(ReduceOp::prod, ElementType::complex_f32), nullptr);
    EXPECT_EQ(find_vdsp_kernel(ReduceOp::band, ElementType::u8), nullptr);
}

}  // namespace
}  // namespace pomona
