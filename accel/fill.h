// accel/fill.h: how a form enters its loops into the table of kernels.
// Idea: enter_common() enters what every instruction set gains from; the file of an instruction
// set includes this once. Types that can share a loop (signed and unsigned sums, bits of any
// width) share it.
#pragma once

#include "accel/loops.h"
#include "accel/table.h"

namespace pomona {
namespace {

// `factor` elements of the loop make one of the type: complex sums, bits of wide integers.
template <ReduceToFunction loop, size_t factor>
void loop_to(void* out, const void* a, const void* b, size_t count) {
    loop(out, a, b, count * factor);
}
template <ReduceToFunction loop, size_t factor>
void loop_into(void* inout, const void* in, size_t count) {
    loop(inout, in, inout, count * factor);
}

struct Filler {
    KernelTable& table;
    const char* name;

    template <ReduceToFunction loop, size_t factor = 1> void enter(ReduceOp op, ElementType type) {
        ReduceKernel& kernel = table.kernels[static_cast<int>(op)][static_cast<int>(type)];
        kernel.to = factor == 1 ? loop : loop_to<loop, factor>;
        kernel.into = loop_into<loop, factor>;
        kernel.name = name;
    }

    template <class T> void enter_sum_prod(ElementType type) {
        enter<elementwise<Sum, T>>(ReduceOp::sum, type);
        enter<elementwise<Prod, T>>(ReduceOp::prod, type);
    }
    template <class T> void enter_min_max(ElementType type) {
        enter<elementwise<Min, T>>(ReduceOp::min, type);
        enter<elementwise<Max, T>>(ReduceOp::max, type);
    }
    template <size_t bytes> void enter_bits(ElementType type) {
        enter<elementwise<BitAnd, uint8_t>, bytes>(ReduceOp::band, type);
        enter<elementwise<BitOr, uint8_t>, bytes>(ReduceOp::bor, type);
        enter<elementwise<BitXor, uint8_t>, bytes>(ReduceOp::bxor, type);
    }
    template <class U> void enter_logical(ElementType type) {
        enter<elementwise<LogicalAnd, U>>(ReduceOp::land, type);
        enter<elementwise<LogicalOr, U>>(ReduceOp::lor, type);
        enter<elementwise<LogicalXor, U>>(ReduceOp::lxor, type);
    }
    template <class U> void enter_signless(ElementType type) {
        enter_sum_prod<U>(type);
        enter_bits<sizeof(U)>(type);
        enter_logical<U>(type);
    }
    template <class S, class U>
    void enter_integer(ElementType with_sign, ElementType without, ElementType logical) {
        enter_signless<U>(with_sign);
        enter_signless<U>(without);
        enter_min_max<S>(with_sign);
        enter_min_max<U>(without);
        enter_logical<U>(logical);
    }

    void enter_float16() {
        enter<half_arithmetic<Sum>>(ReduceOp::sum, ElementType::f16);
        enter<half_arithmetic<Prod>>(ReduceOp::prod, ElementType::f16);
        enter<half_arithmetic<Sum>, 2>(ReduceOp::sum, ElementType::complex_f16);
        enter_min_max<Float16>(ElementType::f16);
    }
    void enter_bfloat16() {
        enter<bf16_arithmetic<Sum>>(ReduceOp::sum, ElementType::bf16);
        enter<bf16_arithmetic<Prod>>(ReduceOp::prod, ElementType::bf16);
        enter_min_max<BFloat16>(ElementType::bf16);
    }

    void enter_common() {
        using Type = ElementType;
        enter_integer<int8_t, uint8_t>(Type::i8, Type::u8, Type::logical8);
        enter_integer<int16_t, uint16_t>(Type::i16, Type::u16, Type::logical16);
        enter_integer<int32_t, uint32_t>(Type::i32, Type::u32, Type::logical32);
        enter_integer<int64_t, uint64_t>(Type::i64, Type::u64, Type::logical64);
        enter_bits<1>(ElementType::byte);
        enter_sum_prod<float>(ElementType::f32);
        enter_min_max<float>(ElementType::f32);
        enter_sum_prod<double>(ElementType::f64);
        enter_min_max<double>(ElementType::f64);
        enter<elementwise<Sum, float>, 2>(ReduceOp::sum, ElementType::complex_f32);
        enter<elementwise<Sum, double>, 2>(ReduceOp::sum, ElementType::complex_f64);
        enter_float16();
        enter_bfloat16();
    }
};

}  // namespace
}  // namespace pomona
