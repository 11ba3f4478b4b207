// tests/unit/accel_reduce_many.cc: the reduction of n arrays at once.
// Goal: bit for bit the left-to-right fold, whichever array the result stands on. Method: counts
// around the inner piece's length, each n up to 9, each possible place of the result.
#include "tests/unit/accel_reference.h"

#include <gtest/gtest.h>

namespace pomona {
namespace {

template <class T> void check(ReduceOp op, ElementType type, size_t count, int n, int place) {
    reference::Engine random(count * 31 + static_cast<size_t>(n));
    std::vector<std::vector<T>> arrays(static_cast<size_t>(n), std::vector<T>(count));
    for (auto& array : arrays)
        for (T& value : array)
            value = static_cast<T>(static_cast<int>(random() % 2001) - 1000) / T(7);
    const ReduceKernel* kernel = find_kernel(op, type);
    std::vector<T> expected = arrays[0];
    for (size_t k = 1; k < arrays.size(); ++k)
        kernel->to(expected.data(), expected.data(), arrays[k].data(), count);
    std::vector<T> apart(count);
    std::vector<const void*> in;
    for (auto& array : arrays) in.push_back(array.data());
    T* out = place < 0 ? apart.data() : arrays[static_cast<size_t>(place)].data();
    reduce_many(*kernel, out, in.data(), n, count);
    EXPECT_TRUE(count == 0 || std::memcmp(out, expected.data(), count * sizeof(T)) == 0)
        << op_name(op) << " " << type_name(type) << " count " << count << " n " << n << " place "
        << place;
}

TEST(ReduceMany, folds_from_the_left) {
    for (size_t count : {0, 1, 7, 1023, 1024, 1025, 2047, 2048, 2049, 6000})
        for (int n = 1; n <= 9; ++n)
            for (int place = -1; place < n; ++place) {
                check<float>(ReduceOp::sum, ElementType::f32, count, n, place);
                check<double>(ReduceOp::prod, ElementType::f64, count, n, place);
                check<int16_t>(ReduceOp::min, ElementType::i16, count, n, place);
            }
}

TEST(ReduceMany, takes_elements_of_any_size) {
    using Wide = Complex<long double>;
    std::vector<Wide> a(1000, {1, 2}), b(1000, {3, 4}), c(1000, {5, 6}), out(1000);
    const void* in[] = {a.data(), b.data(), c.data()};
    reduce_many(*find_kernel(ReduceOp::sum, ElementType::complex_long_double), out.data(), in, 3,
                out.size());
    for (const Wide& value : out) ASSERT_TRUE(value.re == 9 && value.im == 12);
}

TEST(ReduceMany, replace_keeps_the_first_and_no_op_the_last) {
    std::vector<int> a{1, 2, 3}, b{4, 5, 6}, c{7, 8, 9}, out(3);
    const void* in[] = {a.data(), b.data(), c.data()};
    reduce_many(*find_kernel(ReduceOp::replace, ElementType::i32), out.data(), in, 3, 3);
    EXPECT_EQ(out, a);
    reduce_many(*find_kernel(ReduceOp::no_op, ElementType::i32), out.data(), in, 3, 3);
    EXPECT_EQ(out, c);
}

}  // namespace
}  // namespace pomona
