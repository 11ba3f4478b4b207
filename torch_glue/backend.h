// backend.h: Pomona as a c10d backend, i.e. torch.distributed over MPI.
// Idea: each call checks its tensors, picks the MPI_I..._c function and launches a GlueWork;
// nothing blocks but the making of groups. Data that is only moved goes as bytes; lists of tensors
// are read and written where they lie, through displacements.
#pragma once

#include <ATen/core/stack.h>

#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "torch_glue/tensor.h"
#include "torch_glue/work.h"

namespace pomona::glue {

class Transit;
using Tensors = std::vector<at::Tensor>;
using WorkPointer = c10::intrusive_ptr<c10d::Work>;

// What all ranks must say alike beside the operation and its tensors.
struct Told {
    int64_t root = -1;
    const c10d::ReduceOp* op = nullptr;
};

class ProcessGroupPomona final : public c10d::Backend {
public:
    struct Setup {
        std::string backend_name = "pomona";
        std::string group_name;
        int rank = 0;
        int size = 1;
        std::vector<int> ranks;  // in the first group; empty: the first group itself
        std::chrono::milliseconds timeout = kBackendDefaultTimeout;
        std::shared_ptr<Group> parent;  // null: the first group; else `ranks` count in this one
        bool first = false;             // takes the first group's place
    };
    // Blocking; called by all members. Throws with the reason.
    static c10::intrusive_ptr<ProcessGroupPomona> create(const Setup& setup);

    ProcessGroupPomona(std::shared_ptr<Group> group, std::chrono::milliseconds timeout);

    const std::string getBackendName() const override { return group_->backend_name; }
    // What torch hands to a group that it splits from this one; it makes a deep copy.
    struct CopiedOptions final : Options {
        using Options::Options;
        CopiedOptions(const CopiedOptions& other) : Options(other) {}
    };
    c10::intrusive_ptr<Options> getBackendOptions() override;
    void setTimeout(std::chrono::milliseconds timeout) override { timeout_ = timeout; }

    WorkPointer broadcast(Tensors&, const c10d::BroadcastOptions&) override;
    WorkPointer allreduce(Tensors&, const c10d::AllreduceOptions&) override;
    WorkPointer allreduce_sparse(Tensors&, const c10d::AllreduceOptions&) override;
    WorkPointer allreduce_coalesced(Tensors&, const c10d::AllreduceCoalescedOptions&) override;
    WorkPointer reduce(Tensors&, const c10d::ReduceOptions&) override;
    WorkPointer allgather(std::vector<Tensors>&, Tensors&, const c10d::AllgatherOptions&) override;
    WorkPointer _allgather_base(at::Tensor&, at::Tensor&, const c10d::AllgatherOptions&) override;
    WorkPointer allgather_coalesced(std::vector<Tensors>&, Tensors&,
                                    const c10d::AllgatherOptions&) override;
    WorkPointer allgather_into_tensor_coalesced(Tensors&, Tensors&,
                                                const c10d::AllgatherOptions&) override;
    WorkPointer gather(std::vector<Tensors>&, Tensors&, const c10d::GatherOptions&) override;
    WorkPointer scatter(Tensors&, std::vector<Tensors>&, const c10d::ScatterOptions&) override;
    WorkPointer reduce_scatter(Tensors&, std::vector<Tensors>&,
                               const c10d::ReduceScatterOptions&) override;
    WorkPointer _reduce_scatter_base(at::Tensor&, at::Tensor&,
                                     const c10d::ReduceScatterOptions&) override;
    WorkPointer reduce_scatter_tensor_coalesced(Tensors&, Tensors&,
                                                const c10d::ReduceScatterOptions&) override;
    WorkPointer alltoall_base(at::Tensor&, at::Tensor&, std::vector<int64_t>&,
                              std::vector<int64_t>&, const c10d::AllToAllOptions&) override;
    WorkPointer alltoall(Tensors&, Tensors&, const c10d::AllToAllOptions&) override;
    WorkPointer send(Tensors&, int peer, int tag) override;
    WorkPointer recv(Tensors&, int peer, int tag) override;
    WorkPointer recvAnysource(Tensors&, int tag) override;
    WorkPointer barrier(const c10d::BarrierOptions&) override;
    void monitoredBarrier(const c10d::BarrierOptions&, bool wait_all_ranks) override;

    // Works started in between by this thread are waited for as one. Torch does not end it where an
    // exception leaves its manager: _coalescing.py does, and the next start takes over.
    void startCoalescing() override;
    WorkPointer endCoalescing() override;

    void setSequenceNumberForGroup() override {}  // counted alike on all ranks from the start
    uint64_t getSequenceNumberForGroup() override { return sequence_.load(); }

    // Groups of some of this one's ranks (regroup.cc), made by these ranks alone. What split()
    // returns is null on others. shrink() also serves a group that has failed.
    bool supportsSplitting() const override { return true; }
    bool supportsShrinking() const override { return true; }
    c10::intrusive_ptr<Backend> split(const c10::intrusive_ptr<c10d::Store>&,
                                      const std::vector<int>& ranks,
                                      const c10::intrusive_ptr<Options>&) override;
    c10::intrusive_ptr<Backend> shrink(const std::vector<int64_t>& ranks_to_exclude, int flags,
                                       const c10::intrusive_ptr<Options>&) override;
    // The ranks that have died. Collective over the others, who agree on them; ends what is under
    // way in the group, at all of them.
    std::vector<int> failed_ranks();

    c10d::ErrorType getError() override;
    void abort() override;
    void shutdown() override;  // the communicator goes with the last reference

private:
    using WorkRef = c10::intrusive_ptr<GlueWork>;

    WorkRef start(c10d::OpType, const char* title, std::chrono::milliseconds timeout,
                  const Tensors& inputs, const Told& told = {});
    WorkPointer launch(WorkRef work, bool async);
    WorkPointer receive(Tensors&, int source, int tag, c10d::OpType, const char* title);
    // One tensor's part of an operation, added to a work; the coalesced forms add several.
    void add_allreduce(const at::Tensor&, const c10d::ReduceOp&, Transit&, bool alone);
    void add_allgather(GlueWork&, const at::Tensor& output, const at::Tensor& input, Transit&,
                       bool alone);
    void add_reduce_scatter(GlueWork&, const at::Tensor& output, const at::Tensor& input,
                            const c10d::ReduceOp&, Transit&, bool alone);
    void add_allgather_list(GlueWork&, const Tensors& outputs, const at::Tensor& input, Transit&,
                            bool alone);

    // For coalesced forms whose tensors share memory: others in their place, and the way back.
    static Tensors apart_if(bool shared, const Tensors& tensors);
    static void copy_from_apart(Transit&, const Tensors& apart, const Tensors& targets);

    bool by_peers(MPI_Count bytes) const;
    bool tells_for_peers() const { return by_peers(group_->ring_from); }  // all_to_all
    bool sums_by_peers(const at::Tensor&, const Reduction&) const;
    // glue_sum=reproducible: whether this is such a sum, and what comes before all of a call's.
    bool sums_exactly(at::ScalarType summand, const Reduction&) const;
    void begin_exact_sums(Transit&, const Tensors& inputs, const Tensors& outputs,
                          const c10d::ReduceOp&) const;
    void leave_ring();
    bool widens(const at::Tensor&, const c10d::ReduceOp&) const;
    at::Tensor summand(const at::Tensor&, const c10d::ReduceOp&) const;  // what MPI is to reduce
    at::Tensor room_for_sum(const at::Tensor& output, const c10d::ReduceOp&) const;

    // With TORCH_DISTRIBUTED_DEBUG=DETAIL: waits for all ranks and throws where their calls differ.
    void compare_calls(c10d::OpType, uint64_t sequence, std::chrono::milliseconds timeout,
                       const Tensors& inputs, const Told& told);

    // checks.cc. All of them before start(): ranks then still agree on what has been called.
    const at::Tensor& only(const Tensors& tensors, const char* operation) const;
    void check_tensor(const at::Tensor&, const char* operation) const;
    void check_same(const at::Tensor&, const at::Tensor&, const char* operation) const;
    void check_list(const Tensors&, const at::Tensor& like, const char* operation) const;
    void check_written(const at::Tensor&, const char* operation) const;
    void check_reduction(const at::Tensor&, const c10d::ReduceOp&, const char* operation) const;
    void check_allgather(const at::Tensor& output, const at::Tensor& input) const;
    void check_allgather_list(const Tensors& outputs, const at::Tensor& input) const;
    void check_reduce_scatter(const at::Tensor& output, const at::Tensor& input,
                              const c10d::ReduceOp&) const;
    void check_own_part(const Tensors& list, const at::Tensor& own, const char* operation) const;
    void check_splits(const at::Tensor&, const std::vector<int64_t>& splits,
                      const char* what) const;
    void check_peer(int64_t rank, const char* operation, const char* role) const;
    void check_tag(int tag, const char* operation) const;
    std::string where(const char* operation) const;

    const std::shared_ptr<Group> group_;
    std::atomic<std::chrono::milliseconds> timeout_;
    std::atomic<uint64_t> sequence_{0};
    std::pair<std::string, c10::weak_intrusive_ptr<Backend>> last_split_{
        "", c10::weak_intrusive_ptr<Backend>(c10::intrusive_ptr<Backend>())};
    std::atomic<std::thread::id> coalescing_{};  // the thread that has begun it
    std::vector<WorkPointer> coalesced_;         // of that thread alone
};

bool is_first_group(const Group* group);  // the parent of groups that name no other

// The process group among an operator's arguments; null: there is none.
c10::intrusive_ptr<c10d::ProcessGroup> group_among(const torch::jit::Stack& arguments);
// Makes torch call this backend for tensors on Apple's GPU. Once per process.
void register_device_kernels();
// Makes torch hand tensors to this backend that are negated or conjugated lazily. Likewise.
void register_view_kernels();

}  // namespace pomona::glue
