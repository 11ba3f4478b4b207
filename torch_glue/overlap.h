// overlap.h: tensors that share memory. MPI forbids it where it writes; gloo and NCCL, which gather
// into memory of their own and copy, do not, so neither does the glue: it gives MPI other memory
// and copies in the order of the ranks.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

namespace pomona::glue {

// The bytes between a tensor's first and last element; gaps of strided tensors count.
struct Range {
    uintptr_t begin = 0, end = 0;
};
Range range_of(const at::Tensor& t);

bool overlaps(const at::Tensor& a, const at::Tensor& b);
bool any_overlap(std::vector<Range> ranges);
bool any_overlap(const std::vector<at::Tensor>& tensors);

// Would an operation that reads `inputs` and writes `outputs`, each pair by an operation of its own
// that takes care of itself, disturb another pair?
bool pairs_overlap(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs);

// Does `t` share bytes with one of `list`, other than being all of number `own`?
bool overlaps_others(const at::Tensor& t, const std::vector<at::Tensor>& list, int own);

}  // namespace pomona::glue
