// accel/table.h: one form's table of kernels, and the forms that fill it.
#pragma once

#include "accel/kernel.h"

#include <atomic>

namespace pomona {

// Row by operation, column by type.
struct KernelTable {
    ReduceKernel kernels[op_count][type_count];
};

// Kernels that choose a module by size; nullptr, or empty rows, where nothing is to be chosen.
extern std::atomic<const KernelTable*> installed_kernels;

// Each enters what it does better than the lesser ones; nothing where it was not compiled in.
void fill_portable(KernelTable& table);
void fill_avx2(KernelTable& table);
void fill_avx512(KernelTable& table);
void fill_avx512_fp16(KernelTable& table);
void fill_neon_fp16(KernelTable& table);
void fill_neon_bf16(KernelTable& table);

}  // namespace pomona
