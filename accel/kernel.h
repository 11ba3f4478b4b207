// accel/kernel.h: reductions of arrays, as a table (operation, element type) -> functions.
// Idea: every kernel is one loop out[i] = a[i] op b[i]; the best form for this CPU is chosen once,
// and callers keep the ReduceKernel pointer. All forms of a kernel give the same bits (payloads of
// NaN from sum and prod aside), so ranks on unlike machines agree.
//
// Semantics. Integers wrap. min and max of floating point are the minimum and maximum of IEEE
// 754-2019: a NaN operand gives a NaN, -0 < +0; so they commute and every rank gets one result.
// 16-bit floats are widened to float; each sum or product is rounded once, to nearest even.
// Products of complex numbers are (ac - bd) + (ad + bc)i, without C's recovery of infinities.
// Logical operations take non-zero as true and give 1 or 0. minloc and maxloc: of equal values the
// lower index; a NaN wins.
#pragma once

#include "accel/types.h"
#include "btl/base/result.h"

#include <cstddef>
#include <cstdint>

namespace pomona {

// MPI order of operands: `in` comes from the lower rank. inout[i] = in[i] op inout[i].
// Pointers need no alignment. `in` may equal `inout`; no other overlap.
using ReduceFunction = void (*)(void* inout, const void* in, size_t count);
// out[i] = a[i] op b[i]; `out` may equal a or b (or both); no other overlap.
using ReduceToFunction = void (*)(void* out, const void* a, const void* b, size_t count);

// A device: starts the same, and calls `done` once when it is over (or has failed), on a thread of
// its own. Until then nobody touches the three arrays. On a failure `out` holds anything.
// Code::unsupported: not for the device, nothing was started.
using ReduceDone = void (*)(void* context, bool ok);
using ReduceBegin = Status (*)(void* out, const void* a, const void* b, size_t count,
                               ReduceDone done, void* context);

struct ReduceKernel {
    ReduceFunction into = nullptr;
    ReduceToFunction to = nullptr;
    const char* name = "";        // the form that serves: "portable", "avx2", "neon" ...
    size_t element_size = 0;      // bytes from one element to the next (the extent, for pairs)
    ReduceBegin begin = nullptr;  // of those that need not wait (a GPU), for some sizes at least
};

// The kernel of this CPU; nullptr where the standard does not allow the combination (MPI 5.0,
// section 6.9.2), or the compiler lacks the type (f128 on macOS). Thread-safe, usable at any time.
const ReduceKernel* find_kernel(ReduceOp op, ElementType type);

// out = ((in[0] op in[1]) op in[2]) op ... for n >= 1 arrays, bit for bit as successive `to`,
// in one pass over memory. `out` may equal any of the arrays.
void reduce_many(const ReduceKernel& kernel, void* out, const void* const* in, int n, size_t count);

// The forms that this program has, for tests and benchmarks.
enum class Isa : uint8_t { portable, avx2, avx512, avx512_fp16, neon_fp16, neon_bf16, count_ };

bool isa_available(Isa isa);  // compiled in, and this CPU runs it
const char* isa_name(Isa isa);
Isa best_isa();
// As above, in the form for `isa` (which includes what lesser forms offer); nullptr also when
// !isa_available(isa).
const ReduceKernel* find_kernel(ReduceOp op, ElementType type, Isa isa);

}  // namespace pomona
