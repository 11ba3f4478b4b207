// tensor.h: how tensors look to MPI: datatypes, operations, buffers.
// Idea: what is only moved goes as bytes, so every dtype works, fp8 and quantised ones too; only
// reductions need a datatype. A contiguous tensor in memory that the CPU reaches is used where it
// lies; anything else is copied (transit.h).
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

#include "torch_glue/world.h"

namespace pomona::glue {

struct Reduction {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Op op = MPI_OP_NULL;
    bool average = false;  // divide by the group's size afterwards
};

// Why a reduction of tensors of this dtype is refused: a sentence, or empty.
std::string reduction_refused(at::ScalarType dtype, const c10d::ReduceOp& op);
// The MPI type and operation of one that is not refused; throws c10::ValueError of others.
Reduction reduction_for(at::ScalarType dtype, const c10d::ReduceOp& op);

// The factor of PREMUL_SUM applied: a new tensor.
at::Tensor premultiplied(const at::Tensor& tensor, const c10d::ReduceOp& op);
inline bool is_premultiplied(const c10d::ReduceOp& op) {
    return op.op_ == c10d::ReduceOp::PREMUL_SUM;
}

// Can MPI read and write the tensor's memory as one run of elements?
inline bool is_flat_on_host(const at::Tensor& t) {
    return t.device().is_cpu() && t.is_contiguous() && !t.is_conj() && !t.is_neg();
}

// An address MPI accepts: empty tensors have none of their own.
void* address_of(const at::Tensor& t);
inline MPI_Count bytes_of(const at::Tensor& t) { return static_cast<MPI_Count>(t.nbytes()); }

void divide(const at::Tensor& t, int64_t divisor);  // for averages; integers round towards zero

}  // namespace pomona::glue
