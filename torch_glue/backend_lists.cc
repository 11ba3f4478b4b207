// backend_lists.cc: operations on lists of tensors, point to point, sparse sums, coalescing and the
// monitored barrier. See backend.h.
#include <ATen/core/List.h>

#include "torch_glue/transit.h"
#include "torch_glue/backend.h"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <string>
#include <thread>
#include <utility>

namespace pomona::glue {

using c10d::OpType;

namespace {

// Several works as one.
class CoalescedWork final : public c10d::Work {
public:
    CoalescedWork(std::string group, std::vector<WorkPointer> works)
        : c10d::Work(-1, OpType::COALESCED), group_(std::move(group)), works_(std::move(works)) {}

    bool isCompleted() override {
        for (auto& work : works_)
            if (!work->isCompleted()) return false;
        return true;
    }
    bool isSuccess() const override {
        for (const auto& work : works_)
            if (!work->isSuccess()) return false;
        return true;
    }
    std::exception_ptr exception() const override {
        for (const auto& work : works_)
            if (auto failure = work->exception()) return failure;
        return nullptr;
    }
    bool wait(std::chrono::milliseconds timeout) override {
        if (timeout <= kNoTimeout) {
            for (auto& work : works_) work->wait(timeout);
            return true;
        }
        // The time is given to all of them together.
        const auto deadline = deadline_in(timeout);
        for (size_t i = 0; i < works_.size(); ++i) {
            const auto left =
                std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
            try {
                works_[i]->wait(std::max(left, std::chrono::milliseconds(1)));
            } catch (const c10::Error&) {
                if (works_[i]->isCompleted()) throw;  // it has failed; else only the time is over
                C10_THROW_ERROR(DistBackendError,
                                group_ + ": coalesced operations: Timed out after waiting " +
                                    std::to_string(timeout.count()) + " ms for number " +
                                    std::to_string(i + 1) + " of " + std::to_string(works_.size()) +
                                    ", " + c10d::opTypeToString(works_[i]->retrieveOpType()));
            }
        }
        return true;
    }
    void synchronize() override { wait(kNoTimeout); }
    std::vector<at::Tensor> result() override {
        std::vector<at::Tensor> all;
        for (auto& work : works_)
            for (auto& tensor : work->result()) all.push_back(tensor);
        return all;
    }
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
        const auto type = c10::ListType::create(c10::TensorType::get());
        c10::List<c10::intrusive_ptr<c10::ivalue::Future>> futures(c10::FutureType::create(type));
        for (auto& work : works_) futures.push_back(work->getFuture());
        return c10::collectAll(futures)->then(
            [works = works_](c10::ivalue::Future& all) -> at::IValue {
                all.value();  // throws the first error
                std::vector<at::Tensor> tensors;
                for (auto& work : works)
                    for (auto& tensor : work->result()) tensors.push_back(tensor);
                return tensors;
            },
            type);
    }

private:
    const std::string group_;  // its description
    std::vector<WorkPointer> works_;
};

// The rows that dimension 0 of `tensor` is split into, as bytes.
std::pair<std::vector<MPI_Count>, std::vector<MPI_Aint>> split_bytes(
    const at::Tensor& tensor, const std::vector<int64_t>& splits, int size) {
    std::vector<MPI_Count> counts;
    std::vector<MPI_Aint> offsets;
    const int64_t rows = tensor.dim() > 0 ? tensor.size(0) : 1;
    const MPI_Count row_bytes = rows > 0 ? bytes_of(tensor) / rows : 0;
    MPI_Aint offset = 0;
    for (int i = 0; i < size; ++i) {
        const int64_t mine = splits.empty() ? rows / size : splits[static_cast<size_t>(i)];
        counts.push_back(mine * row_bytes);
        offsets.push_back(offset);
        offset += static_cast<MPI_Aint>(mine * row_bytes);
    }
    return {std::move(counts), std::move(offsets)};
}

// As Transit::room(), of tensors where they are.
std::vector<at::Tensor> flat_rooms(const std::vector<at::Tensor>& tensors,
                                   const std::vector<at::Tensor>& read, int own) {
    std::vector<at::Tensor> rooms;
    rooms.reserve(tensors.size());
    for (const at::Tensor& t : tensors) rooms.push_back(flat_room(t));
    const auto disturbs = [&](const at::Tensor& t) { return overlaps_others(t, rooms, own); };
    if (any_overlap(rooms) || std::any_of(read.begin(), read.end(), disturbs))
        std::transform(tensors.begin(), tensors.end(), rooms.begin(), empty_like_plain);
    return rooms;
}

void copies_after(Transit& way, const std::vector<at::Tensor>& rooms,
                  const std::vector<at::Tensor>& targets) {
    for (size_t i = 0; i < rooms.size(); ++i) {
        if (!rooms[i].is_same(targets[i])) way.copy_after(rooms[i], targets[i]);
    }
}

// The rows that dimension 0 of a tensor is split into, of its memory in a row.
std::vector<at::Tensor> split_rows(const at::Tensor& flat, const std::vector<int64_t>& splits,
                                   int size) {
    std::vector<at::Tensor> parts;
    const int64_t rows = flat.dim() > 0 ? flat.size(0) : 1;
    const at::Tensor line = flat.view({-1});
    const int64_t row = rows > 0 ? line.numel() / rows : 0;
    int64_t first = 0;
    for (int i = 0; i < size; ++i) {
        const int64_t count = (splits.empty() ? rows / size : splits[static_cast<size_t>(i)]) * row;
        parts.push_back(line.narrow(0, first, count));
        first += count;
    }
    return parts;
}

GlueWork::Arrays keep_slots(GlueWork& work, Slots& slots) {
    for (const at::Tensor& t : slots.host) work.keep(t);
    return work.keep_arrays(std::move(slots.counts), std::move(slots.offsets));
}

}  // namespace

// ---- lists of tensors -------------------------------------------------------------------------

// Always the v-form: whether the outputs happen to lie in a row differs from rank to rank.
void ProcessGroupPomona::add_allgather_list(GlueWork& work, const Tensors& outputs,
                                            const at::Tensor& input, Transit& transit, bool alone) {
    const auto by_host = [work = &work, outputs, rank = rank_](const at::Tensor& given,
                                                               Transit& way) {
        const at::Tensor source = way.readable(given);
        Slots slots = way.room(outputs, {source}, rank);
        way.copies(slots, outputs);
        work->keep(source);
        const void* own = slots.host[static_cast<size_t>(rank)].data_ptr();
        const bool in_place = source.numel() > 0 && source.data_ptr() == own;
        void* base = slots.base;
        const auto parts = keep_slots(*work, slots);
        work->post([=](MPI_Comm comm, MPI_Request* request) {
            return mpi().Iallgatherv_c(in_place ? MPI_IN_PLACE : address_of(source),
                                       bytes_of(source), MPI_BYTE, base, parts.counts,
                                       parts.offsets, MPI_BYTE, comm, request);
        });
    };
    if (!alone || !by_peers(bytes_of_all(outputs))) {
        by_host(input, transit);
        return;
    }
    const at::Tensor flat = plain(input);
    const Tensors rooms = flat_rooms(outputs, {flat}, rank_);
    transit.gather_by_peers(
        group_->ring, rooms, flat, [=](Transit& way) { by_host(flat, way); },
        [=](Transit& way) { copies_after(way, rooms, outputs); });
}

WorkPointer ProcessGroupPomona::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& opts) {
    TORCH_CHECK_VALUE(inputs.size() == 1 && outputs.size() == 1, where("all_gather"),
                      "one input tensor and one list of outputs are expected");
    check_allgather_list(outputs[0], inputs[0]);
    auto work = start(OpType::ALLGATHER, "mpi:all_gather", opts.timeout, inputs);
    work->set_outputs(outputs[0]);
    Transit transit(*work);
    add_allgather_list(*work, outputs[0], inputs[0], transit, /*alone=*/true);
    transit.install();
    return launch(work, opts.asyncOp);
}

WorkPointer ProcessGroupPomona::allgather_coalesced(std::vector<Tensors>& output_lists,
                                                    Tensors& inputs,
                                                    const c10d::AllgatherOptions& opts) {
    // output_lists[rank][i] receives that rank's inputs[i].
    TORCH_CHECK_VALUE(static_cast<int>(output_lists.size()) == size_, where("all_gather_coalesced"),
                      "there must be one list of outputs for each of the ", size_, " ranks");
    Tensors all;
    std::vector<Tensors> lists(inputs.size());  // of each input
    for (const Tensors& list : output_lists) {
        TORCH_CHECK_VALUE(list.size() == inputs.size(), where("all_gather_coalesced"),
                          "each list of outputs must be as long as the inputs: ", inputs.size(),
                          ", not ", list.size());
        for (size_t i = 0; i < inputs.size(); ++i) lists[i].push_back(list[i]);
    }
    for (size_t i = 0; i < inputs.size(); ++i) check_allgather_list(lists[i], inputs[i]);
    std::vector<Range> used;
    for (size_t i = 0; i < inputs.size(); ++i) {
        for (const at::Tensor& output : lists[i]) {
            all.push_back(output);
            used.push_back(range_of(output));
        }
        if (!overlaps(inputs[i], lists[i][static_cast<size_t>(rank_)]))
            used.push_back(range_of(inputs[i]));
    }
    auto work =
        start(OpType::ALLGATHER_COALESCED, "mpi:all_gather_coalesced", opts.timeout, inputs);
    work->set_outputs(all);
    Transit transit(*work);
    const Tensors apart = apart_if(any_overlap(std::move(used)), all);
    for (size_t i = 0; i < inputs.size(); ++i) {
        const auto first = apart.begin() + static_cast<std::ptrdiff_t>(i * lists[i].size());
        add_allgather_list(*work, Tensors(first, first + size_), inputs[i], transit,
                           /*alone=*/false);
    }
    copy_from_apart(transit, apart, all);
    transit.install();
    return launch(work, opts.asyncOp);
}

WorkPointer ProcessGroupPomona::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                       const c10d::GatherOptions& opts) {
    const at::Tensor& input = only(inputs, "gather");
    check_peer(opts.rootRank, "gather", "root");
    const bool root = rank_ == opts.rootRank;
    TORCH_CHECK_VALUE(root ? outputs.size() == 1 : outputs.empty(), where("gather"),
                      root ? "the root needs one list of outputs" : "only the root has outputs");
    if (root) {
        check_list(outputs[0], input, "gather");
        for (const at::Tensor& output : outputs[0]) check_written(output, "gather");
        check_own_part(outputs[0], input, "gather");
    }
    auto work = start(OpType::GATHER, "mpi:gather", opts.timeout, inputs, {.root = opts.rootRank});
    if (root) work->set_outputs(outputs[0]);
    else work->set_given(inputs);
    Transit transit(*work);
    const at::Tensor source = transit.readable(input);
    work->keep(source);
    Slots slots;
    bool in_place = false;
    if (root) {
        slots = transit.room(outputs[0], {source}, rank_);
        transit.copies(slots, outputs[0]);
        in_place = overlaps(source, slots.host[static_cast<size_t>(rank_)]);
    }
    void* base = slots.base;
    const auto parts = keep_slots(*work, slots);
    const int root_rank = static_cast<int>(opts.rootRank);
    work->post([=](MPI_Comm comm, MPI_Request* request) {
        const void* from = in_place ? MPI_IN_PLACE : address_of(source);
        return mpi().Igatherv_c(from, bytes_of(source), MPI_BYTE, base, parts.counts, parts.offsets,
                                MPI_BYTE, root_rank, comm, request);
    });
    transit.install();
    return launch(work, opts.asyncOp);
}

WorkPointer ProcessGroupPomona::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                        const c10d::ScatterOptions& opts) {
    const at::Tensor& output = only(outputs, "scatter");
    check_peer(opts.rootRank, "scatter", "root");
    const bool root = rank_ == opts.rootRank;
    TORCH_CHECK_VALUE(root ? inputs.size() == 1 : inputs.empty(), where("scatter"),
                      root ? "the root needs one list of inputs" : "only the root has inputs");
    check_written(output, "scatter");
    if (root) {
        check_list(inputs[0], output, "scatter");
        check_own_part(inputs[0], output, "scatter");
    }
    auto work =
        start(OpType::SCATTER, "mpi:scatter", opts.timeout, outputs, {.root = opts.rootRank});
    work->set_outputs(outputs);
    Transit transit(*work);
    at::Tensor target = transit.room(output);
    Slots slots;
    bool in_place = false;
    if (root) {
        slots = transit.readable(inputs[0]);
        if (overlaps_others(target, slots.host, rank_)) target = transit.other_room(target, output);
        in_place = overlaps(target, slots.host[static_cast<size_t>(rank_)]);
    }
    transit.copy(target, output);
    work->keep(target);
    void* base = slots.base;
    const auto parts = keep_slots(*work, slots);
    const int root_rank = static_cast<int>(opts.rootRank);
    work->post([=](MPI_Comm comm, MPI_Request* request) {
        void* to = in_place ? MPI_IN_PLACE : address_of(target);
        return mpi().Iscatterv_c(base, parts.counts, parts.offsets, MPI_BYTE, to, bytes_of(target),
                                 MPI_BYTE, root_rank, comm, request);
    });
    transit.install();
    return launch(work, opts.asyncOp);
}

WorkPointer ProcessGroupPomona::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                               const c10d::ReduceScatterOptions& opts) {
    const at::Tensor& output = only(outputs, "reduce_scatter");
    TORCH_CHECK_VALUE(inputs.size() == 1, where("reduce_scatter"),
                      "one list of inputs is expected");
    check_list(inputs[0], output, "reduce_scatter");
    check_own_part(inputs[0], output, "reduce_scatter");
    check_written(output, "reduce_scatter");
    check_reduction(output, opts.reduceOp, "reduce_scatter");
    const Reduction reduction = reduction_for(
        widens(output, opts.reduceOp) ? at::kFloat : output.scalar_type(), opts.reduceOp);
    auto work = start(OpType::REDUCE_SCATTER, "mpi:reduce_scatter", opts.timeout, inputs[0],
                      {.op = &opts.reduceOp});
    work->set_outputs(outputs);
    Transit transit(*work);
    // MPI reduces one run of memory; sizes may differ from rank to rank, but all ranks know them.
    Tensors flat;
    std::vector<MPI_Count> counts;
    for (const at::Tensor& t : inputs[0]) {
        flat.push_back(t.contiguous().view({-1}));
        counts.push_back(t.numel());
    }
    const at::Tensor whole = summand(at::cat(flat), opts.reduceOp);
    const at::Tensor room = room_for_sum(output, opts.reduceOp);
    const int64_t divisor = reduction.average ? size_ : 1;
    if (sums_exactly(whole.scalar_type(), reduction)) {
        begin_exact_sums(transit, inputs[0], outputs, opts.reduceOp);
        ExactSum sum;
        sum.parts.assign(counts.begin(), counts.end());
        sum.divisor = divisor;
        transit.sum_exactly(whole, room, output, std::move(sum));
        transit.install();
        return launch(work, opts.asyncOp);
    }
    const auto by_host = [=, work = work.get()](Transit& way) {
        const at::Tensor source = way.readable(whole);
        const at::Tensor target = way.room(room);
        if (divisor > 1) way.divide(target, divisor);
        way.copy(target, output);
        work->keep(source);
        work->keep(target);
        const auto parts = work->keep_arrays(counts, {});
        work->post([=](MPI_Comm comm, MPI_Request* request) {
            return mpi().Ireduce_scatter_c(address_of(source), address_of(target), parts.counts,
                                           reduction.type, reduction.op, comm, request);
        });
    };
    if (sums_by_peers(whole, reduction)) {
        const at::Tensor sums = flat_room(room);
        const std::vector<int64_t> lengths(counts.begin(), counts.end());
        transit.scatter_sums_by_peers(group_->ring, sums, split_rows(whole, lengths, size_),
                                      divisor, by_host,
                                      [=](Transit& way) { copies_after(way, {sums}, {output}); });
    } else {
        by_host(transit);
    }
    transit.install();
    return launch(work, opts.asyncOp);
}

WorkPointer ProcessGroupPomona::alltoall_base(at::Tensor& output, at::Tensor& input,
                                              std::vector<int64_t>& output_splits,
                                              std::vector<int64_t>& input_splits,
                                              const c10d::AllToAllOptions& opts) {
    const char* name = "all_to_all_single";
    check_tensor(output, name);
    check_tensor(input, name);
    check_same(output, input, name);
    check_written(output, name);
    check_splits(input, input_splits, "input");
    check_splits(output, output_splits, "output");
    auto work = start(OpType::ALLTOALL_BASE, "mpi:all_to_all", opts.timeout, {input});
    work->set_outputs({output});
    Transit transit(*work);
    const auto by_host = [=, work = work.get(), size = size_](const at::Tensor& given,
                                                              Transit& way) {
        at::Tensor target = way.room(output);
        const at::Tensor source = way.readable(given);
        if (overlaps(target, source)) target = way.other_room(target, output);
        way.copy(target, output);
        work->keep(target);
        work->keep(source);
        // Always the v-form: a rank whose own parts are equal may meet one whose parts are not.
        auto [in_counts, in_offsets] = split_bytes(source, input_splits, size);
        auto [out_counts, out_offsets] = split_bytes(target, output_splits, size);
        const auto from = work->keep_arrays(std::move(in_counts), std::move(in_offsets));
        const auto to = work->keep_arrays(std::move(out_counts), std::move(out_offsets));
        work->post([=](MPI_Comm comm, MPI_Request* request) {
            return mpi().Ialltoallv_c(address_of(source), from.counts, from.offsets, MPI_BYTE,
                                      address_of(target), to.counts, to.offsets, MPI_BYTE, comm,
                                      request);
        });
    };
    if (tells_for_peers()) {
        const at::Tensor flat = plain(input);
        at::Tensor room = flat_room(output);
        if (overlaps(room, flat)) room = empty_like_plain(output);
        transit.all_to_all_by_peers(
            group_->ring, split_rows(room, output_splits, size_),
            split_rows(flat, input_splits, size_), group_->ring_from,
            [=](Transit& way) { by_host(flat, way); },
            [=](Transit& way) { copies_after(way, {room}, {output}); });
    } else {
        by_host(input, transit);
    }
    transit.install();
    return launch(work, opts.asyncOp);
}

WorkPointer ProcessGroupPomona::alltoall(Tensors& outputs, Tensors& inputs,
                                         const c10d::AllToAllOptions& opts) {
    TORCH_CHECK_VALUE(!inputs.empty(), where("all_to_all"), "the list of inputs is empty");
    check_tensor(inputs[0], "all_to_all");
    check_list(inputs, inputs[0], "all_to_all");
    check_list(outputs, inputs[0], "all_to_all");
    for (const at::Tensor& output : outputs) check_written(output, "all_to_all");
    auto work = start(OpType::ALLTOALL, "mpi:all_to_all", opts.timeout, inputs);
    work->set_outputs(outputs);
    Transit transit(*work);
    const auto by_host = [outputs, work = work.get()](const Tensors& given, Transit& way) {
        Slots in = way.readable(given);
        Slots out = way.room(outputs, in.host);
        way.copies(out, outputs);
        void* in_base = in.base;
        void* out_base = out.base;
        const auto from = keep_slots(*work, in);
        const auto to = keep_slots(*work, out);
        work->post([=](MPI_Comm comm, MPI_Request* request) {
            return mpi().Ialltoallv_c(in_base, from.counts, from.offsets, MPI_BYTE, out_base,
                                      to.counts, to.offsets, MPI_BYTE, comm, request);
        });
    };
    if (tells_for_peers()) {
        Tensors flat;
        for (const at::Tensor& t : inputs) flat.push_back(plain(t));
        const Tensors rooms = flat_rooms(outputs, flat, -1);
        transit.all_to_all_by_peers(
            group_->ring, rooms, flat, group_->ring_from, [=](Transit& way) { by_host(flat, way); },
            [=](Transit& way) { copies_after(way, rooms, outputs); });
    } else {
        by_host(inputs, transit);
    }
    transit.install();
    return launch(work, opts.asyncOp);
}

// ---- point to point ---------------------------------------------------------------------------

WorkPointer ProcessGroupPomona::send(Tensors& tensors, int peer, int tag) {
    const at::Tensor& tensor = only(tensors, "send");
    check_peer(peer, "send", "destination");
    check_tag(tag, "send");
    auto work = start(OpType::SEND, "mpi:send", c10d::kUnsetTimeout, tensors);
    work->set_peer(peer);
    work->set_outputs(tensors);
    Transit transit(*work);
    const at::Tensor host = transit.readable(tensor);
    work->keep(host);
    work->post([=](MPI_Comm comm, MPI_Request* request) {
        return mpi().Isend_c(address_of(host), bytes_of(host), MPI_BYTE, peer, tag, comm, request);
    });
    return launch(work, true);
}

WorkPointer ProcessGroupPomona::recv(Tensors& tensors, int peer, int tag) {
    check_peer(peer, "recv", "source");
    return receive(tensors, peer, tag, OpType::RECV, "mpi:recv");
}

WorkPointer ProcessGroupPomona::recvAnysource(Tensors& tensors, int tag) {
    return receive(tensors, MPI_ANY_SOURCE, tag, OpType::RECVANYSOURCE, "mpi:recvAnySource");
}

WorkPointer ProcessGroupPomona::receive(Tensors& tensors, int source, int tag, OpType op,
                                        const char* title) {
    const at::Tensor& tensor = only(tensors, "recv");
    check_written(tensor, "recv");
    check_tag(tag, "recv");
    auto work = start(op, title, c10d::kUnsetTimeout, tensors);
    work->set_peer(source == MPI_ANY_SOURCE ? -1 : source);
    work->set_outputs(tensors);
    Transit transit(*work);
    const at::Tensor host = transit.room(tensor);
    transit.copy(host, tensor);
    work->keep(host);
    work->post([=](MPI_Comm comm, MPI_Request* request) {
        return mpi().Irecv_c(address_of(host), bytes_of(host), MPI_BYTE, source, tag, comm,
                             request);
    });
    transit.install();
    return launch(work, true);
}

// ---- the rest ---------------------------------------------------------------------------------

// Sum of sparse tensors (gradients of sparse embeddings): everybody gets all indices and values.
// Blocking: the sizes must be known before the data can be asked for.
WorkPointer ProcessGroupPomona::allreduce_sparse(Tensors& tensors,
                                                 const c10d::AllreduceOptions& opts) {
    const char* name = "all_reduce of a sparse tensor";
    TORCH_CHECK_VALUE(tensors.size() == 1 && tensors[0].is_sparse(), where(name),
                      "one sparse COO tensor is expected");
    const auto kind = opts.reduceOp.op_;
    TORCH_CHECK_VALUE(kind == c10d::ReduceOp::SUM || kind == c10d::ReduceOp::AVG, where(name),
                      "only SUM and AVG are defined for sparse tensors");
    at::Tensor mine = tensors[0].cpu().coalesce();
    at::Tensor sizes = at::empty({size_}, at::kLong);
    at::Tensor my_size = at::full({1}, mine._nnz(), at::kLong);
    c10d::AllgatherOptions gather_opts;
    gather_opts.timeout = opts.timeout;
    gather_opts.asyncOp = false;
    _allgather_base(sizes, my_size, gather_opts)->wait();

    std::vector<Tensors> indices(1), values(1);
    for (int i = 0; i < size_; ++i) {
        const int64_t count = sizes[i].item<int64_t>();
        std::vector<int64_t> shape = mine.values().sizes().vec();
        shape[0] = count;
        indices[0].push_back(at::empty({mine.sparse_dim(), count}, at::kLong));
        values[0].push_back(at::empty(shape, mine.values().options()));
    }
    Tensors my_indices{mine.indices().contiguous()}, my_values{mine.values().contiguous()};
    allgather(indices, my_indices, gather_opts)->wait();
    allgather(values, my_values, gather_opts)->wait();

    at::Tensor sum = at::sparse_coo_tensor(at::cat(indices[0], 1), at::cat(values[0], 0),
                                           mine.sizes(), mine.options())
                         .coalesce();
    if (kind == c10d::ReduceOp::AVG) divide(sum.values(), size_);
    {
        at::AutoDispatchBelowADInplaceOrView guard;
        tensors[0].copy_(sum);
    }
    auto work = start(OpType::_ALLREDUCE_SPARSE, "mpi:all_reduce_sparse", opts.timeout, tensors);
    work->set_outputs(tensors);
    return launch(work, true);  // has no requests: complete
}

void ProcessGroupPomona::startCoalescing() {
    if (coalescing_.load() != std::thread::id{}) {
        TORCH_WARN(where("coalescing"),
                   "one was begun and not ended, as when an exception leaves it; "
                   "the ",
                   coalesced_.size(), " operations in it go on, each for itself");
    }
    coalesced_.clear();
    coalescing_ = std::this_thread::get_id();
}

// Of a thread that has begun none there is nothing to end: it may have been ended before.
WorkPointer ProcessGroupPomona::endCoalescing() {
    std::vector<WorkPointer> works;
    if (coalescing_.load() == std::this_thread::get_id()) {
        works.swap(coalesced_);
        coalescing_ = std::thread::id{};
    }
    return c10::make_intrusive<CoalescedWork>(group_->describe(), std::move(works));
}

// Every rank reports to rank 0, which tells those that have come who has not, or lets all go.
// Two tags at the top of the range are used, where no user's are expected. The errors have the
// words of gloo's, which programs and PyTorch's own tests look for.
void ProcessGroupPomona::monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) {
    constexpr int64_t kWord = 256;  // bytes of rank 0's answer
    const auto timeout =
        opts.timeout < std::chrono::milliseconds(0) ? timeout_.load() : opts.timeout;
    const auto deadline = deadline_in(timeout);
    const auto left = [&] {
        auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
        return std::max(rest, std::chrono::milliseconds(1));
    };
    const auto fail = [&](const std::string& text) {
        const std::vector<int> dead = dead_ranks(group_->comm);
        std::string known;
        if (!dead.empty())
            known = "; " + list_ranks(dead) + (dead.size() == 1 ? " has died" : " have died");
        give_up_finalize("a monitored barrier failed", group_->count->key);
        C10_THROW_ERROR(DistBackendError, where("monitored_barrier") + text + known);
    };
    const int report_tag = tag_max(), release_tag = tag_max() - 1;
    Tensors report{at::zeros({1}, at::kByte)}, answer{at::zeros({kWord}, at::kByte)};
    auto* text = static_cast<char*>(answer[0].data_ptr());
    if (rank_ != 0) {
        const std::string come = "Rank " + std::to_string(rank_) +
                                 " successfully reached monitoredBarrier, but received errors "
                                 "while waiting for send/recv from rank 0: ";
        try {
            send(report, 0, report_tag)->wait(left());
            recv(answer, 0, release_tag)->wait(left() + std::chrono::seconds(1));
        } catch (const c10::Error& error) {
            fail(come + "rank 0 has not let it go within " + std::to_string(timeout.count()) +
                 " ms: " + error.what_without_backtrace());
        }
        if (*text != 0) fail(come + text);
        return;
    }
    std::vector<WorkPointer> reports;
    std::vector<int> missing;
    try {
        for (int peer = 1; peer < size_; ++peer) {
            Tensors buffer{at::zeros({1}, at::kByte)};
            reports.push_back(recv(buffer, peer, report_tag));
        }
    } catch (const c10::Error&) {  // of one that has died nothing can be received
        missing = dead_ranks(group_->comm);
        if (missing.empty()) throw;
    }
    for (int peer = 1; peer < size_ && (missing.empty() || wait_all_ranks); ++peer) {
        const auto place = static_cast<size_t>(peer - 1);
        if (place >= reports.size()) break;
        try {
            reports[place]->wait(left());
        } catch (const c10::Error&) {
            if (std::find(missing.begin(), missing.end(), peer) == missing.end())
                missing.push_back(peer);
        }
    }
    if (missing.empty()) {
        for (int peer = 1; peer < size_; ++peer) send(answer, peer, release_tag)->wait(left());
        return;
    }
    std::sort(missing.begin(), missing.end());
    std::string words = list_ranks(missing);
    words.front() = 'R';
    words += " failed to pass monitoredBarrier in " + std::to_string(timeout.count()) + " ms";
    words.copy(text, kWord - 1);
    static_cast<void>(new Tensors(answer));  // MPI's from here on
    for (int peer = 1; peer < size_; ++peer) {
        if (std::find(missing.begin(), missing.end(), peer) != missing.end()) continue;
        MPI_Request request = MPI_REQUEST_NULL;  // past the group, which may have failed by now
        mpi().Isend_c(text, kWord, MPI_BYTE, peer, release_tag, group_->comm, &request);
    }
    fail(words);
}

}  // namespace pomona::glue
