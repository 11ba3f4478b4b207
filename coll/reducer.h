// coll/reducer.h: the operation of a schedule's reduce steps, given when it is bound to buffers.
// Idea: two functions behind one pointer, so that kernels of accel/, users' MPI_User_functions and
// derived datatypes all fit. `left` comes from the lower ranks, always: order matters to
// non-commutative operations, and to the bits of floating point.
#pragma once

#include "accel/kernel.h"
#include "coll/carrier.h"

#include <cstddef>

namespace pomona::coll {

// A long reduction is done in parts of so many bytes, each whole elements of all sizes; the last
// one is longer. 10 Gb/s bring a part in 80 us, and it is added up in 10 to 30.
inline constexpr size_t kReducePart = 3 << 15;

// out = left op right by a kernel, which any thread may call; `out` as for its `to`.
struct AsideReduction {
    const ReduceKernel* kernel = nullptr;
    std::byte* out = nullptr;
    const std::byte* left = nullptr;
    const std::byte* right = nullptr;
    size_t count = 0, element = 0;  // elements, and bytes of one
};

struct Reducer {
    // The functions take any number of elements at any address, so a vector may be reduced in
    // parts.
    bool any_run = false;
    const ReduceKernel* kernel = nullptr;  // that they call; null of users' functions
    // inout = left op inout; `left` and `inout` do not overlap.
    void (*into)(const Reducer* self, void* inout, const void* left, size_t count) = nullptr;
    // out = left op right; `out` may be `left`, or neither.
    void (*to)(const Reducer* self, void* out, const void* left, const void* right,
               size_t count) = nullptr;
    // Optional, for devices: starts out = left op right, where `out` may be either; `done` is
    // called later, with the engine held (coll/gates.h), and not inside begin(). False: nothing was
    // begun, one of the above shall do it.
    bool (*begin)(const Reducer* self, void* out, const void* left, const void* right, size_t count,
                  Completion& done) = nullptr;
};

// A predefined operation on a predefined type.
struct KernelReducer : Reducer {
    explicit KernelReducer(const ReduceKernel& its_kernel) {
        kernel = &its_kernel;
        any_run = true;
        into = [](const Reducer* self, void* inout, const void* left, size_t count) {
            self->kernel->into(inout, left, count);
        };
        to = [](const Reducer* self, void* out, const void* left, const void* right, size_t count) {
            self->kernel->to(out, left, right, count);
        };
    }
};

}  // namespace pomona::coll
