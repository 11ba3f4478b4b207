// accel/vdsp.cc: reductions through Apple's Accelerate framework: float, double, half precision.
// Idea: sums and products are one call. vDSP's minimum and maximum drop a NaN of the first
// operand, so they are called with the operands both ways round and merged like the portable
// kernels' (same bits). Half precision is widened by vImage, block by block within the first-level
// cache.
// Whether any of this beats the portable kernels, choose.cc measures on the machine.
#include "accel/accelerate.h"
#include "accel/fill.h"
#include "accel/modules.h"

namespace pomona {
namespace {

constexpr size_t block = 1024;  // elements; three float blocks stay in the first-level cache

template <class T> struct Vdsp;
template <> struct Vdsp<float> {
    static constexpr auto add = vDSP_vadd;
    static constexpr auto multiply = vDSP_vmul;
    static constexpr auto minimum = vDSP_vmin;
    static constexpr auto maximum = vDSP_vmax;
};
template <> struct Vdsp<double> {
    static constexpr auto add = vDSP_vaddD;
    static constexpr auto multiply = vDSP_vmulD;
    static constexpr auto minimum = vDSP_vminD;
    static constexpr auto maximum = vDSP_vmaxD;
};

// Packed messages may be unaligned; Accelerate is told of floats, so those go the portable way.
template <class T> bool aligned(const void* out, const void* a, const void* b) {
    auto bits = [](const void* p) { return reinterpret_cast<uintptr_t>(p); };
    return (bits(out) | bits(a) | bits(b)) % alignof(T) == 0;
}

template <class Op, class T>
void arithmetic(void* out, const void* a, const void* b, size_t count) {
    if (!aligned<T>(out, a, b)) return elementwise<Op, T>(out, a, b, count);
    constexpr auto call = same<Op, Sum> ? Vdsp<T>::add : Vdsp<T>::multiply;
    call(static_cast<const T*>(a), 1, static_cast<const T*>(b), 1, static_cast<T*>(out), 1, count);
}

template <class Op, class T> void extremum(void* out, const void* a, const void* b, size_t count) {
    if (!aligned<T>(out, a, b)) return elementwise<Op, T>(out, a, b, count);
    constexpr auto call = same<Op, Min> ? Vdsp<T>::minimum : Vdsp<T>::maximum;
    T first[block], second[block];
    for (size_t done = 0; done < count; done += block) {
        size_t length = count - done < block ? count - done : block;
        const T* x = static_cast<const T*>(a) + done;
        const T* y = static_cast<const T*>(b) + done;
        call(x, 1, y, 1, first, 1, length);
        call(y, 1, x, 1, second, 1, length);
        T* place = static_cast<T*>(out) + done;
        for (size_t i = 0; i < length; ++i)
            place[i] =
                same<Op, Min> ? merge_min(first[i], second[i]) : merge_max(first[i], second[i]);
    }
}

constexpr vImage_Flags do_not_tile = 16;  // kvImageDoNotTile: one thread; blocks are small

vImage_Buffer row(const void* data, size_t count, size_t element) {
    return {const_cast<void*>(data), 1, count, count * element};
}

template <class Op>
void half_arithmetic_vdsp(void* out, const void* a, const void* b, size_t count) {
    if (!aligned<uint16_t>(out, a, b)) return half_arithmetic<Op>(out, a, b, count);
    constexpr auto call = same<Op, Sum> ? vDSP_vadd : vDSP_vmul;
    float x[block], y[block];
    vImage_Error error = 0;
    for (size_t done = 0; done < count; done += block) {
        size_t length = count - done < block ? count - done : block;
        vImage_Buffer half_a = row(at16(a, done), length, 2);
        vImage_Buffer half_b = row(at16(b, done), length, 2);
        vImage_Buffer half_out = row(at16(out, done), length, 2);
        vImage_Buffer wide_x = row(x, length, 4), wide_y = row(y, length, 4);
        error = vImageConvert_Planar16FtoPlanarF(&half_a, &wide_x, do_not_tile);
        if (!error) error = vImageConvert_Planar16FtoPlanarF(&half_b, &wide_y, do_not_tile);
        if (!error) call(x, 1, y, 1, x, 1, length);
        if (!error) error = vImageConvert_PlanarFtoPlanar16F(&wide_x, &half_out, do_not_tile);
        if (!error) continue;
        // Out of memory, at most: this block and the rest the portable way.
        const void *rest_a = at16(a, done), *rest_b = at16(b, done);
        return half_arithmetic<Op>(at16(out, done), rest_a, rest_b, count - done);
    }
}

void fill(KernelTable& table) {
    Filler filler{table, "vdsp"};
    filler.enter<arithmetic<Sum, float>>(ReduceOp::sum, ElementType::f32);
    filler.enter<arithmetic<Sum, double>>(ReduceOp::sum, ElementType::f64);
    filler.enter<arithmetic<Sum, float>, 2>(ReduceOp::sum, ElementType::complex_f32);
    filler.enter<arithmetic<Sum, double>, 2>(ReduceOp::sum, ElementType::complex_f64);
    filler.enter<arithmetic<Prod, float>>(ReduceOp::prod, ElementType::f32);
    filler.enter<arithmetic<Prod, double>>(ReduceOp::prod, ElementType::f64);
    filler.enter<extremum<Min, float>>(ReduceOp::min, ElementType::f32);
    filler.enter<extremum<Min, double>>(ReduceOp::min, ElementType::f64);
    filler.enter<extremum<Max, float>>(ReduceOp::max, ElementType::f32);
    filler.enter<extremum<Max, double>>(ReduceOp::max, ElementType::f64);
    filler.enter<half_arithmetic_vdsp<Sum>>(ReduceOp::sum, ElementType::f16);
    filler.enter<half_arithmetic_vdsp<Sum>, 2>(ReduceOp::sum, ElementType::complex_f16);
    filler.enter<half_arithmetic_vdsp<Prod>>(ReduceOp::prod, ElementType::f16);
    for (int type = 0; type < type_count; ++type)
        for (int op = 0; op < op_count; ++op)
            table.kernels[op][type].element_size = element_size(static_cast<ElementType>(type));
}

}  // namespace

const ReduceKernel* find_vdsp_kernel(ReduceOp op, ElementType type) {
    static const KernelTable table = [] {
        KernelTable filled;
        fill(filled);
        return filled;
    }();
    if (op >= ReduceOp::count_ || type >= ElementType::count_) return nullptr;
    const ReduceKernel& kernel = table.kernels[static_cast<int>(op)][static_cast<int>(type)];
    return kernel.to ? &kernel : nullptr;
}

}  // namespace pomona
