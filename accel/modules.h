// accel/modules.h: the accelerated modules that stand behind the same ReduceKernel.
// Idea: a module gives a kernel or nullptr; choose.h decides from which size on it serves.
#pragma once

#include "accel/kernel.h"

namespace pomona {

enum class Module : uint8_t { portable, vdsp, metal, count_ };

// Apple's Accelerate: sum, prod, min, max of f32 and f64, sum and prod of f16. Same bits as the
// portable kernels. Linked on macOS only (and into tests, with a reference library).
const ReduceKernel* find_vdsp_kernel(ReduceOp op, ElementType type);

// Apple's GPU, waiting for it. The device is opened at the first call; nullptr where there is none
// or no kernel for the combination. What the GPU cannot reach or fails in is computed on the CPU.
// A GPU may take subnormal floats as zero; all else has the portable kernels' bits.
const ReduceKernel* find_metal_kernel(ReduceOp op, ElementType type);

}  // namespace pomona
