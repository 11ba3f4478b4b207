// compare.cc: do all ranks call the same collective? Asked before each one in torch's debug mode,
// and with POMONA_CHECK.
// Idea: each rank tells in a few words what it is about to start; where the words differ, all ranks
// throw an error that lists them, and nothing is started. On a communicator of its own, so that
// whatever the ranks have called, these words meet.
#include "torch_glue/backend.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <sstream>

namespace pomona::glue {
namespace {

using c10d::OpType;

constexpr int64_t kWords = 256;  // bytes of a rank's words

const char* name_of(const c10d::ReduceOp& op) {
    switch (op.op_) {
    case c10d::ReduceOp::SUM: return "SUM";
    case c10d::ReduceOp::AVG: return "AVG";
    case c10d::ReduceOp::PRODUCT: return "PRODUCT";
    case c10d::ReduceOp::MIN: return "MIN";
    case c10d::ReduceOp::MAX: return "MAX";
    case c10d::ReduceOp::BAND: return "BAND";
    case c10d::ReduceOp::BOR: return "BOR";
    case c10d::ReduceOp::BXOR: return "BXOR";
    case c10d::ReduceOp::PREMUL_SUM: return "PREMUL_SUM";
    default: return "an unknown reduction";
    }
}

// May ranks give tensors of different sizes?
bool sizes_may_differ(OpType op) {
    switch (op) {
    case OpType::ALLGATHER:
    case OpType::ALLGATHER_COALESCED:
    case OpType::ALLTOALL:
    case OpType::ALLTOALL_BASE:
    case OpType::GATHER:
    case OpType::SCATTER:
    case OpType::_ALLREDUCE_SPARSE: return true;
    default: return false;
    }
}

}  // namespace

void ProcessGroupPomona::compare_calls(OpType op, uint64_t sequence,
                                       std::chrono::milliseconds timeout, const Tensors& inputs,
                                       const Told& told) {
    group_->count->start(sequence);  // others may ask while this rank waits here
    std::ostringstream words;
    words << c10d::opTypeToString(op);
    if (told.op) words << " " << name_of(*told.op);
    if (told.root >= 0) words << " of root " << told.root;
    for (const at::Tensor& tensor : inputs) {
        words << ", " << tensor.scalar_type();
        if (!sizes_may_differ(op)) words << tensor.sizes();
    }
    std::string text = words.str();
    constexpr auto kMost = static_cast<size_t>(kWords) - 1;
    if (text.size() > kMost) {  // what is cut off counts, too
        const std::string rest = " ... (" + std::to_string(hash_name(text)) + ")";
        text = text.substr(0, kMost - rest.size()) + rest;
    }
    const at::Tensor mine = at::zeros({kWords}, at::kByte);
    const at::Tensor all = at::zeros({size_ * kWords}, at::kByte);
    std::memcpy(mine.data_ptr(), text.data(), text.size());
    auto work = c10::make_intrusive<GlueWork>(group_, op, nullptr, sequence, timeout, Tensors{});
    work->set_outputs(inputs);
    work->keep(mine);
    work->keep(all);
    work->post([&](MPI_Comm, MPI_Request* request) {
        return mpi().Iallgather_c(mine.data_ptr(), kWords, MPI_BYTE, all.data_ptr(), kWords,
                                  MPI_BYTE, group_->aside, request);
    });
    work->launch(false);
    work->wait();
    std::map<std::string, std::string> ranks;  // by their words
    for (int rank = 0; rank < size_; ++rank) {
        std::string& list = ranks[static_cast<const char*>(all.data_ptr()) + rank * kWords];
        list += (list.empty() ? "" : ", ") + std::to_string(rank);
    }
    if (ranks.size() == 1) return;
    std::string differences;
    for (const auto& [call, who] : ranks)
        differences +=
            (differences.empty() ? "" : "; ") + std::string("by rank ") + who + ": " + call;
    C10_THROW_ERROR(DistBackendError,
                    group_->describe() +
                        ": the ranks have called different collectives (sequence " +
                        std::to_string(sequence) + "): " + differences);
}

}  // namespace pomona::glue
