// tests/metal/kernels.cc: accel/reduce.metal as C++, for run.cc: a table of its kernels by name.
// Built with -I tests/metal, where <metal_stdlib> is found; mutants are compiled from other paths
// through POMONA_METAL_SOURCE.
#include "tests/metal/kernels.h"

#include "accel/metal_shape.h"

#ifndef POMONA_METAL_SOURCE
#define POMONA_METAL_SOURCE "accel/reduce.metal"
#endif

#pragma GCC diagnostic ignored "-Wattributes"
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wunknown-attributes"
#endif
#include POMONA_METAL_SOURCE
#undef device
#undef constant
#undef kernel

static_assert(sizeof(ReduceShape) == sizeof(pomona::MetalShape));
static_assert(offsetof(ReduceShape, b_start) == offsetof(pomona::MetalShape, b_start));
static_assert(offsetof(ReduceShape, count) == offsetof(pomona::MetalShape, count));
static_assert(offsetof(ReduceShape, head) == offsetof(pomona::MetalShape, head));
static_assert(offsetof(ReduceShape, vectors) == offsetof(pomona::MetalShape, vectors));

namespace {

template <class T> using Kernel = void (*)(T*, const T*, const T*, const ReduceShape&, unsigned);

template <class T, Kernel<T> run>
void run_thread(void* out, const void* a, const void* b, const void* shape, unsigned index) {
    run(static_cast<T*>(out), static_cast<const T*>(a), static_cast<const T*>(b),
        *static_cast<const ReduceShape*>(shape), index);
}

}  // namespace

const std::vector<MetalKernel>& metal_kernels() {
    static const std::vector<MetalKernel> list = {
#define X(op, name, type, function)                                                                \
    {"reduce_" #op "_" #name, sizeof(type), run_thread<type, reduce_##op##_##name>},
        REDUCE_KERNELS(X)
#undef X
    };
    return list;
}
