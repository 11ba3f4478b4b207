// tests/unit/accelerate_reference.cc: Accelerate's functions as Apple documents them, as loops.
// Goal: accel/vdsp.cc runs without a Mac. A call that Accelerate would not accept ends the
// program: misaligned or overlapping arrays, rows that do not fit, unknown flags.
#include "accel/accelerate.h"

#include "tests/unit/accel_reference.h"

#include <cstdio>
#include <cstdlib>

namespace {

void demand(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "Accelerate reference: %s\n", what);
    std::abort();
}

template <class T> bool aligned(const T* p) {
    return reinterpret_cast<uintptr_t>(p) % alignof(T) == 0;
}

template <class T, class F> void each(const T* a, vDSP_Stride ia, const T* b, vDSP_Stride ib, T* c,
                                      vDSP_Stride ic, vDSP_Length count, F&& f) {
    demand(aligned(a) && aligned(b) && aligned(c), "an array is not aligned to its elements");
    auto apart = [&](const T* x) { return x == c || x + count <= c || c + count <= x; };
    demand(apart(a) && apart(b), "the result overlaps an operand in part");
    for (vDSP_Length i = 0; i < count; ++i) {
        auto n = static_cast<vDSP_Stride>(i);
        c[n * ic] = f(a[n * ia], b[n * ib]);
    }
}

void check_rows(const vImage_Buffer* from, const vImage_Buffer* to, size_t from_size,
                size_t to_size, vImage_Flags flags) {
    demand(from->width == to->width && from->height == to->height, "rows of unlike length");
    demand(from->rowBytes >= from->width * from_size, "source rows overlap");
    demand(to->rowBytes >= to->width * to_size, "target rows overlap");
    demand((flags & ~16u) == 0, "unknown flags");
}

}  // namespace

extern "C" {

#define FUNCTION(name, T, expression)                                                              \
    void name(const T* a, vDSP_Stride ia, const T* b, vDSP_Stride ib, T* c, vDSP_Stride ic,        \
              vDSP_Length count) {                                                                 \
        each(a, ia, b, ib, c, ic, count, [](T A, T B) { return expression; });                     \
    }
FUNCTION(vDSP_vadd, float, A + B)
FUNCTION(vDSP_vaddD, double, A + B)
FUNCTION(vDSP_vmul, float, A* B)
FUNCTION(vDSP_vmulD, double, A* B)
FUNCTION(vDSP_vmin, float, A <= B ? A : B)
FUNCTION(vDSP_vminD, double, A <= B ? A : B)
FUNCTION(vDSP_vmax, float, B <= A ? A : B)
FUNCTION(vDSP_vmaxD, double, B <= A ? A : B)

vImage_Error vImageConvert_Planar16FtoPlanarF(const vImage_Buffer* from, const vImage_Buffer* to,
                                              vImage_Flags flags) {
    using namespace pomona::reference;
    check_rows(from, to, 2, 4, flags);
    for (unsigned long y = 0; y < from->height; ++y)
        for (unsigned long x = 0; x < from->width; ++x) {
            auto* source = static_cast<char*>(from->data) + y * from->rowBytes;
            auto* target = static_cast<char*>(to->data) + y * to->rowBytes;
            reinterpret_cast<float*>(target)[x] =
                static_cast<float>(decode(half_format, reinterpret_cast<uint16_t*>(source)[x]));
        }
    return 0;
}
vImage_Error vImageConvert_PlanarFtoPlanar16F(const vImage_Buffer* from, const vImage_Buffer* to,
                                              vImage_Flags flags) {
    using namespace pomona::reference;
    check_rows(from, to, 4, 2, flags);
    for (unsigned long y = 0; y < from->height; ++y)
        for (unsigned long x = 0; x < from->width; ++x) {
            auto* source = static_cast<char*>(from->data) + y * from->rowBytes;
            auto* target = static_cast<char*>(to->data) + y * to->rowBytes;
            reinterpret_cast<uint16_t*>(target)[x] =
                encode(half_format, static_cast<double>(reinterpret_cast<float*>(source)[x]));
        }
    return 0;
}

}  // extern "C"
