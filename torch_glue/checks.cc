// checks.cc: which arguments are refused, on the rank that gives them, before anything is sent. See
// backend.h.
#include <ATen/MemoryOverlap.h>

#include "torch_glue/backend.h"
#include "torch_glue/messages.h"

#include <numeric>
#include <string>

namespace pomona::glue {

std::string ProcessGroupPomona::where(const char* operation) const {
    return group_->describe() + ": " + operation + ": ";
}

void ProcessGroupPomona::check_tensor(const at::Tensor& t, const char* operation) const {
    TORCH_CHECK_VALUE(t.defined(), where(operation), "the tensor is undefined");
    TORCH_CHECK_VALUE(t.layout() == at::kStrided, where(operation), "the tensor is ",
                      t.layout() == at::kSparse ? "sparse" : "not strided",
                      "; only all_reduce takes sparse tensors, others want .to_dense()");
}

// Torch's own copies refuse such a tensor, but only when the operation is over.
void ProcessGroupPomona::check_written(const at::Tensor& t, const char* operation) const {
    TORCH_CHECK_VALUE(at::has_internal_overlap(t) != at::MemOverlap::Yes, where(operation),
                      filled(messages::overlapping, t.scalar_type(), t.sizes(), t.strides()));
}

void ProcessGroupPomona::check_reduction(const at::Tensor& t, const c10d::ReduceOp& op,
                                         const char* operation) const {
    const std::string why = reduction_refused(t.scalar_type(), op);
    TORCH_CHECK_VALUE(why.empty(), where(operation), why);
}

const at::Tensor& ProcessGroupPomona::only(const Tensors& tensors, const char* operation) const {
    TORCH_CHECK_VALUE(tensors.size() == 1, where(operation), "one tensor is expected, got ",
                      tensors.size());
    check_tensor(tensors[0], operation);
    return tensors[0];
}

void ProcessGroupPomona::check_same(const at::Tensor& a, const at::Tensor& b,
                                    const char* operation) const {
    TORCH_CHECK_VALUE(a.scalar_type() == b.scalar_type(), where(operation),
                      "input and output differ in dtype: ", a.scalar_type(), " and ",
                      b.scalar_type());
}

void ProcessGroupPomona::check_list(const Tensors& list, const at::Tensor& like,
                                    const char* operation) const {
    TORCH_CHECK_VALUE(static_cast<int>(list.size()) == size_, where(operation),
                      "the list must have one tensor for each of the ", size_, " ranks, but has ",
                      list.size());
    for (const at::Tensor& t : list) {
        check_tensor(t, operation);
        check_same(t, like, operation);
    }
}

void ProcessGroupPomona::check_own_part(const Tensors& list, const at::Tensor& own,
                                        const char* operation) const {
    const int64_t listed = list[static_cast<size_t>(rank_)].numel();
    TORCH_CHECK_VALUE(listed == own.numel(), where(operation), "number ", rank_,
                      " of the list, this rank's own part, has ", listed,
                      " elements, but this rank's other tensor has ", own.numel());
}

void ProcessGroupPomona::check_allgather(const at::Tensor& output, const at::Tensor& input) const {
    const char* name = "all_gather_into_tensor";
    check_tensor(output, name);
    check_tensor(input, name);
    check_same(output, input, name);
    check_written(output, name);
    TORCH_CHECK_VALUE(output.numel() == input.numel() * size_, where(name),
                      "the output must have world size times the input's elements: ", size_, " x ",
                      input.numel(), ", not ", output.numel());
}

void ProcessGroupPomona::check_allgather_list(const Tensors& outputs,
                                              const at::Tensor& input) const {
    check_tensor(input, "all_gather");
    check_list(outputs, input, "all_gather");
    for (const at::Tensor& output : outputs) check_written(output, "all_gather");
    check_own_part(outputs, input, "all_gather");
}

void ProcessGroupPomona::check_reduce_scatter(const at::Tensor& output, const at::Tensor& input,
                                              const c10d::ReduceOp& op) const {
    const char* name = "reduce_scatter_tensor";
    check_tensor(output, name);
    check_tensor(input, name);
    check_same(output, input, name);
    check_written(output, name);
    check_reduction(input, op, name);
    TORCH_CHECK_VALUE(input.numel() == output.numel() * size_, where(name),
                      "the input must have world size times the output's elements: ", size_, " x ",
                      output.numel(), ", not ", input.numel());
}

void ProcessGroupPomona::check_splits(const at::Tensor& t, const std::vector<int64_t>& splits,
                                      const char* what) const {
    const char* name = "all_to_all_single";
    const int64_t rows = t.dim() > 0 ? t.size(0) : 1;
    const at::IntArrayRef listed = splits;
    if (splits.empty()) {
        TORCH_CHECK_VALUE(rows % size_ == 0, where(name),
                          filled(messages::rows_unequal, what, rows, size_, what));
        return;
    }
    TORCH_CHECK_VALUE(static_cast<int>(splits.size()) == size_, where(name), what,
                      "_split_sizes must have one number for each of the ", size_,
                      " ranks, but is ", listed);
    for (int64_t each : splits)
        TORCH_CHECK_VALUE(each >= 0, where(name), what,
                          "_split_sizes has a negative number: ", splits);
    const int64_t sum = std::accumulate(splits.begin(), splits.end(), int64_t{0});
    TORCH_CHECK_VALUE(sum == rows, where(name), what, "_split_sizes ", listed, " make ", sum,
                      " rows, but the ", what, " has ", rows, " (its shape is ", t.sizes(), ")");
}

void ProcessGroupPomona::check_peer(int64_t rank, const char* operation, const char* role) const {
    TORCH_CHECK_VALUE(rank >= 0 && rank < size_, where(operation), role, " ", rank,
                      " is not a rank of the group");
}

void ProcessGroupPomona::check_tag(int tag, const char* operation) const {
    TORCH_CHECK_VALUE(tag >= 0 && tag <= tag_max(), where(operation), "tag ", tag,
                      " is out of range (0 to ", tag_max(), ")");
}

}  // namespace pomona::glue
