// tests/metal/kernels.h: the kernels of accel/reduce.metal, callable one thread at a time.
#pragma once

#include <cstddef>
#include <vector>

struct MetalKernel {
    const char* name;  // as the host asks the Metal library for it: reduce_sum_float
    size_t element_size;
    // `shape` is a ReduceShape; `index` the thread's position in the grid.
    void (*thread)(void* out, const void* a, const void* b, const void* shape, unsigned index);
};
const std::vector<MetalKernel>& metal_kernels();
