// tests/unit/accel_kernels.cc: every kernel in every form this CPU runs.
// Goal: each (operation, type) gives the reference's result, touches nothing else, works in place
// and unaligned. Method: counts 0..67 (below, at and above every vector width and its remainders),
// buffers at odd addresses between guard bytes, values with NaN, infinities, zeros, subnormals.
#include "tests/unit/accel_reference.h"

#include <gtest/gtest.h>

#include <string>

namespace pomona {
namespace {

constexpr size_t guard = 64;

// An array of T at an address of any alignment, between guard bytes.
template <class T> class Array {
public:
    Array(size_t count, size_t shift)
        : bytes_(2 * guard + shift + count * sizeof(T), fill_), shift_(shift), count_(count) {}
    void* data() { return bytes_.data() + guard + shift_; }
    T get(size_t i) {
        T value;
        std::memcpy(&value, static_cast<char*>(data()) + i * sizeof(T), sizeof(T));
        return value;
    }
    void set(size_t i, T value) {
        std::memcpy(static_cast<char*>(data()) + i * sizeof(T), &value, sizeof(T));
    }
    bool guards_hold() const {
        for (size_t i = 0; i < bytes_.size(); ++i) {
            bool inside = i >= guard + shift_ && i < guard + shift_ + count_ * sizeof(T);
            if (!inside && bytes_[i] != fill_) return false;
        }
        return true;
    }

private:
    static constexpr char fill_ = '\x5a';
    std::vector<char> bytes_;
    size_t shift_, count_;
};

enum class Use { apart, onto_a, onto_b, into, both_same };

template <class T> void check_once(const ReduceKernel& kernel, ReduceOp op, size_t count, Use use,
                                   size_t shift, reference::Engine& random) {
    Array<T> a(count, shift), b(count, shift * 2 % 8), out(count, shift * 3 % 8);
    std::vector<T> before_a(count), before_b(count);
    for (size_t i = 0; i < count; ++i) {
        before_a[i] = reference::random_value<T>(random);
        before_b[i] = use == Use::both_same ? before_a[i] : reference::random_value<T>(random);
        a.set(i, before_a[i]);
        b.set(i, before_b[i]);
    }
    Array<T>* result = use == Use::apart ? &out : use == Use::onto_a ? &a : &b;
    switch (use) {
    case Use::apart: kernel.to(out.data(), a.data(), b.data(), count); break;
    case Use::onto_a: kernel.to(a.data(), a.data(), b.data(), count); break;
    case Use::onto_b: kernel.to(b.data(), a.data(), b.data(), count); break;
    case Use::into: kernel.into(b.data(), a.data(), count); break;
    case Use::both_same: kernel.into(b.data(), b.data(), count); break;
    }
    for (size_t i = 0; i < count; ++i) {
        T expected = reference::apply(op, before_a[i], before_b[i]);
        ASSERT_TRUE(reference::equal(result->get(i), expected))
            << "element " << i << " of " << count << ", use " << static_cast<int>(use) << ", shift "
            << shift;
    }
    ASSERT_TRUE(a.guards_hold() && b.guards_hold() && out.guards_hold())
        << count << " elements, use " << static_cast<int>(use);
}

struct Form {
    Isa isa;
    ReduceOp op;
};
std::string form_name(const testing::TestParamInfo<Form>& info) {
    return std::string(isa_name(info.param.isa)) + "_" + op_name(info.param.op);
}
std::vector<Form> forms() {
    std::vector<Form> list;
    for (int isa = 0; isa < static_cast<int>(Isa::count_); ++isa)
        for (int op = 0; op < op_count; ++op)
            if (isa_available(static_cast<Isa>(isa)))
                list.push_back({static_cast<Isa>(isa), static_cast<ReduceOp>(op)});
    return list;
}

class EveryForm : public testing::TestWithParam<Form> {};
INSTANTIATE_TEST_SUITE_P(accel, EveryForm, testing::ValuesIn(forms()), form_name);

TEST_P(EveryForm, gives_the_reference_result) {
    Isa isa = GetParam().isa;
    ReduceOp op = GetParam().op;
    int checked = 0;
    for (int t = 0; t < type_count; ++t) {
        auto type = static_cast<ElementType>(t);
        const ReduceKernel* kernel = find_kernel(op, type, isa);
        if (!kernel) continue;
        ++checked;
        SCOPED_TRACE(type_name(type));
        reference::with_type(type, [&](auto* pointer) {
            using T = std::remove_pointer_t<decltype(pointer)>;
            ASSERT_EQ(kernel->element_size, sizeof(T));
            reference::Engine random(static_cast<uint64_t>(t) * 977 + static_cast<int>(op));
            for (size_t count = 0; count <= 67; ++count)
                for (Use use : {Use::apart, Use::onto_a, Use::onto_b, Use::into, Use::both_same})
                    check_once<T>(*kernel, op, count, use, count % 4, random);
            check_once<T>(*kernel, op, 1021, Use::apart, 1, random);
        });
        if (HasFatalFailure()) return;
    }
    EXPECT_GT(checked, 0);
}

// Every pair of 16-bit values would be 4 billion; every value against a set that holds all kinds.
TEST(Accel, halves_over_all_values) {
    const uint16_t others[] = {0x0000, 0x8000, 0x0001, 0x83ff, 0x0400, 0x3c00, 0xbc01, 0x7bff,
                               0xfbff, 0x7c00, 0xfc00, 0x7e00, 0x1400, 0x3555, 0x7f80, 0x0080};
    std::vector<uint16_t> a(65536 * 16), b(65536 * 16), out(65536 * 16);
    for (size_t i = 0; i < a.size(); ++i) {
        a[i] = static_cast<uint16_t>(i / 16);
        b[i] = others[i % 16];
    }
    for (auto type : {ElementType::f16, ElementType::bf16})
        for (auto op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max})
            for (const Form& form : forms()) {
                if (form.op != ReduceOp::sum) continue;
                find_kernel(op, type, form.isa)->to(out.data(), a.data(), b.data(), a.size());
                for (size_t i = 0; i < a.size(); ++i) {
                    bool right =
                        type == ElementType::f16
                            ? reference::equal(Float16{out[i]},
                                               reference::apply_half(op, {a[i]}, {b[i]}))
                            : reference::equal(BFloat16{out[i]},
                                               reference::apply_bfloat(op, {a[i]}, {b[i]}));
                    ASSERT_TRUE(right)
                        << isa_name(form.isa) << " " << op_name(op) << " " << type_name(type)
                        << ": " << a[i] << ", " << b[i] << " gave " << out[i];
                }
            }
}

// Ranks on unlike machines must agree to the bit, NaN aside; for min and max NaN included, and
// the operands may come in either order.
TEST(Accel, forms_agree_bit_for_bit_and_min_max_commute) {
    reference::Engine random(17);
    auto check = [&](auto sample, ElementType type) {
        using T = decltype(sample);
        std::vector<T> a(4099), b(4099), first(4099), second(4099);
        for (size_t i = 0; i < a.size(); ++i) {
            a[i] = reference::random_value<T>(random);
            b[i] = reference::random_value<T>(random);
        }
        for (auto op : {ReduceOp::min, ReduceOp::max}) {
            find_kernel(op, type, Isa::portable)->to(first.data(), a.data(), b.data(), a.size());
            for (const Form& form : forms()) {
                const ReduceKernel* kernel = find_kernel(op, type, form.isa);
                kernel->to(second.data(), b.data(), a.data(), a.size());
                ASSERT_EQ(std::memcmp(first.data(), second.data(), a.size() * sizeof(T)), 0)
                    << isa_name(form.isa) << " " << op_name(op) << " " << type_name(type);
            }
        }
    };
    check(Float16{}, ElementType::f16);
    check(BFloat16{}, ElementType::bf16);
    check(0.0f, ElementType::f32);
    check(0.0, ElementType::f64);
}

// MPI 5.0, section 6.9.2, written out here a second time.
TEST(Accel, allows_what_the_standard_allows) {
    auto listed = [](ElementType type, ElementType from, ElementType to) {
        return type >= from && type <= to;
    };
    for (int t = 0; t < type_count; ++t) {
        auto type = static_cast<ElementType>(t);
        bool integer = listed(type, ElementType::i8, ElementType::i128);
        bool floating = listed(type, ElementType::f16, ElementType::f128);
        bool complex = listed(type, ElementType::complex_f16, ElementType::complex_f128);
        bool logical = listed(type, ElementType::logical8, ElementType::logical128);
        bool pair = listed(type, ElementType::float_int, ElementType::i32_i32);
        bool byte = type == ElementType::byte;
        bool wide = type == ElementType::f128 || type == ElementType::complex_f128;
        auto expect = [&](bool allowed, ReduceOp op) {
            SCOPED_TRACE(std::string(op_name(op)) + " " + type_name(type));
            EXPECT_EQ(is_allowed(op, type), allowed);
            bool movable = op == ReduceOp::replace || op == ReduceOp::no_op;
            bool present = allowed && (!wide || POMONA_HAS_FLOAT128 || movable);
            EXPECT_EQ(find_kernel(op, type) != nullptr, present);
        };
        for (auto op : {ReduceOp::sum, ReduceOp::prod}) expect(integer || floating || complex, op);
        for (auto op : {ReduceOp::min, ReduceOp::max}) expect(integer || floating, op);
        for (auto op : {ReduceOp::band, ReduceOp::bor, ReduceOp::bxor}) expect(integer || byte, op);
        for (auto op : {ReduceOp::land, ReduceOp::lor, ReduceOp::lxor})
            expect(integer || logical, op);
        for (auto op : {ReduceOp::minloc, ReduceOp::maxloc}) expect(pair, op);
        for (auto op : {ReduceOp::replace, ReduceOp::no_op}) expect(true, op);
    }
}

TEST(Accel, chooses_the_best_form) {
    EXPECT_TRUE(isa_available(Isa::portable));
    EXPECT_TRUE(isa_available(best_isa()));
    EXPECT_EQ(find_kernel(ReduceOp::sum, ElementType::f16),
              find_kernel(ReduceOp::sum, ElementType::f16, best_isa()));
    for (int isa = static_cast<int>(best_isa()) + 1; isa < static_cast<int>(Isa::count_); ++isa)
        EXPECT_EQ(find_kernel(ReduceOp::sum, ElementType::f32, static_cast<Isa>(isa)), nullptr);
}

// A pair with a gap behind its value: the bytes of the gap are the user's.
TEST(Accel, leaves_the_gaps_of_pairs_alone) {
    using Pair = ValueIndex<short, int>;
    static_assert(sizeof(Pair) == 8 && offsetof(Pair, index) == 4);
    unsigned char a[8] = {3, 0, 0xaa, 0xaa, 7, 0, 0, 0};
    unsigned char out[8] = {4, 0, 0xbb, 0xbb, 9, 0, 0, 0};
    const unsigned char expected[8] = {3, 0, 0xbb, 0xbb, 7, 0, 0, 0};
    find_kernel(ReduceOp::minloc, ElementType::short_int)->into(out, a, 1);
    EXPECT_EQ(std::memcmp(out, expected, 8), 0);
}

}  // namespace
}  // namespace pomona
