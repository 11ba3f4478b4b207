// backend_tensors.cc: the collectives of whole tensors: broadcasts, sums, all-gathers and
// reduce-scatters. See backend.h.
#include "torch_glue/backend.h"

#include <ATen/core/grad_mode.h>

#include "torch_glue/transit.h"

#include <utility>

namespace pomona::glue {

using c10d::OpType;

namespace {

// Torch up to 2.11 has no name of its own for it; `Type` is OpType, a parameter so that it is asked
// for.
template <class Type> constexpr Type coalesced_reduce_scatter() {
    if constexpr (requires { Type::REDUCE_SCATTER_TENSOR_COALESCED; })
        return Type::REDUCE_SCATTER_TENSOR_COALESCED;
    else return Type::_REDUCE_SCATTER_BASE;
}

// The ranks' parts of a flat tensor, of equal size.
std::vector<at::Tensor> parts_of(const at::Tensor& flat, int size) {
    std::vector<at::Tensor> parts;
    const at::Tensor row = flat.view({-1});
    const int64_t each = row.numel() / size;
    for (int i = 0; i < size; ++i) parts.push_back(row.narrow(0, i * each, each));
    return parts;
}

}  // namespace

WorkPointer ProcessGroupPomona::broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) {
    const at::Tensor& tensor = only(tensors, "broadcast");
    check_peer(opts.rootRank, "broadcast", "root");
    if (rank_ != opts.rootRank) check_written(tensor, "broadcast");
    auto work =
        start(OpType::BROADCAST, "mpi:broadcast", opts.timeout, tensors, {.root = opts.rootRank});
    const int root = static_cast<int>(opts.rootRank);
    work->set_outputs(tensors);
    Transit transit(*work);
    const bool gives = rank_ == root;
    const auto by_host = [=, work = work.get()](const at::Tensor& given, Transit& way) {
        const at::Tensor host = gives ? way.readable(given) : way.room(given);
        if (!gives) way.copy(host, given);
        work->keep(host);
        work->post([=](MPI_Comm comm, MPI_Request* request) {
            return mpi().Ibcast_c(address_of(host), bytes_of(host), MPI_BYTE, root, comm, request);
        });
    };
    if (by_peers(bytes_of(tensor))) {
        const at::Tensor flat = gives ? plain(tensor) : flat_room(tensor);
        transit.broadcast_by_peers(
            group_->ring, flat, root, [=](Transit& way) { by_host(gives ? flat : tensor, way); },
            [=](Transit& way) {
                if (!gives && !flat.is_same(tensor)) way.copy_after(flat, tensor);
            });
    } else {
        by_host(tensor, transit);
    }
    transit.install();
    return launch(work, opts.asyncOp);
}

// Sums of 16-bit floats are made in fp32 and rounded once, unless that changes nothing: of two
// terms the kernels do so anyway. Averages and factors round once more. As whole numbers they are
// always made so, however many ranks there are.
bool ProcessGroupPomona::widens(const at::Tensor& t, const c10d::ReduceOp& op) const {
    const auto dtype = t.scalar_type();
    if (dtype != at::kHalf && dtype != at::kBFloat16) return false;
    const bool more = op.op_ == c10d::ReduceOp::AVG || is_premultiplied(op);
    if (!more && op.op_ != c10d::ReduceOp::SUM) return false;
    if (group_->sums_exactly) return true;
    if (group_->sums_16_bits_natively) return false;
    return size_ > 2 || (size_ == 2 && more);
}

at::Tensor ProcessGroupPomona::summand(const at::Tensor& t, const c10d::ReduceOp& op) const {
    const at::NoGradGuard no_grad;
    const at::Tensor wide = widens(t, op) ? t.to(at::kFloat) : t;
    return is_premultiplied(op) ? premultiplied(wide, op) : wide;
}

at::Tensor ProcessGroupPomona::room_for_sum(const at::Tensor& output,
                                            const c10d::ReduceOp& op) const {
    if (!widens(output, op)) return output;
    return at::empty(output.sizes(), output.options().dtype(at::kFloat));
}

// The same on all ranks: asks for nothing that belongs to one rank's tensor.
bool ProcessGroupPomona::by_peers(MPI_Count bytes) const {
    // Refused, not on all ranks at once: but then they call MPI alike all the same.
    return group_->ring && bytes >= group_->ring_from &&
           group_->ring->state() != PeerRing::State::Refused;
}

bool ProcessGroupPomona::sums_by_peers(const at::Tensor& t, const Reduction& reduction) const {
    if (reduction.op != MPI_SUM || !by_peers(bytes_of(t))) return false;
    if (t.scalar_type() == at::kBool || t.numel() == 0) return false;
    return !reduction.average || at::isFloatingType(t.scalar_type());
}

bool ProcessGroupPomona::sums_exactly(at::ScalarType summand, const Reduction& reduction) const {
    return group_->sums_exactly && reduction.op == MPI_SUM && has_exact_sum(summand);
}

// The pieces are as long on all ranks, wherever their tensors are.
void ProcessGroupPomona::begin_exact_sums(Transit& transit, const Tensors& inputs,
                                          const Tensors& outputs, const c10d::ReduceOp& op) const {
    constexpr int64_t kPiece = int64_t{4} << 20;
    const auto is_such = [&](const at::Tensor& t) {
        const at::ScalarType dtype = widens(t, op) ? at::kFloat : t.scalar_type();
        return sums_exactly(dtype, reduction_for(dtype, op));
    };
    if (!group_->sums_exactly || std::none_of(inputs.begin(), inputs.end(), is_such)) return;
    Tensors all = inputs;
    all.insert(all.end(), outputs.begin(), outputs.end());
    transit.begin_exact_sums(all, rank_, group_->chunk > 0 ? group_->chunk : kPiece);
}

void ProcessGroupPomona::add_allreduce(const at::Tensor& tensor, const c10d::ReduceOp& op,
                                       Transit& transit, bool alone) {
    const at::Tensor source = summand(tensor, op);
    const Reduction reduction = reduction_for(source.scalar_type(), op);
    const auto call = [type = reduction.type, op = reduction.op](
                          void* data, MPI_Count count, MPI_Comm comm, MPI_Request* request) {
        return mpi().Iallreduce_c(MPI_IN_PLACE, data, count, type, op, comm, request);
    };
    const int64_t divisor = reduction.average ? size_ : 1;
    if (sums_exactly(source.scalar_type(), reduction)) {
        ExactSum sum;
        sum.divisor = divisor;
        transit.sum_exactly(source, {}, tensor, std::move(sum));
        return;
    }
    if (alone && sums_by_peers(source, reduction)) {
        const at::Tensor flat = plain(source);  // now: in the order of the caller's stream
        const auto then = [flat, tensor](Transit& way) {
            if (!flat.is_same(tensor)) way.copy_after(flat, tensor);
        };
        transit.sum_by_peers(
            group_->ring, flat, divisor,
            [=, chunk = group_->chunk](Transit& way) {
                way.reduce_in_pieces(flat, chunk, divisor, call);
                then(way);
            },
            then);
        return;
    }
    transit.reduce_in_pieces(source, group_->chunk, divisor, call);
    if (!source.is_same(tensor)) transit.copy_after(source, tensor);
}

WorkPointer ProcessGroupPomona::allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) {
    if (tensors.size() == 1 && tensors[0].is_sparse()) return allreduce_sparse(tensors, opts);
    const at::Tensor& tensor = only(tensors, "all_reduce");
    check_reduction(tensor, opts.reduceOp, "all_reduce");
    check_written(tensor, "all_reduce");
    auto work =
        start(OpType::ALLREDUCE, "mpi:all_reduce", opts.timeout, tensors, {.op = &opts.reduceOp});
    work->set_outputs(tensors);
    Transit transit(*work);
    begin_exact_sums(transit, tensors, {}, opts.reduceOp);
    add_allreduce(tensor, opts.reduceOp, transit, /*alone=*/true);
    transit.install();
    return launch(work, opts.asyncOp);
}

Tensors ProcessGroupPomona::apart_if(bool shared, const Tensors& tensors) {
    Tensors apart = tensors;
    if (shared)
        for (at::Tensor& tensor : apart) tensor = empty_like_plain(tensor);
    return apart;
}

void ProcessGroupPomona::copy_from_apart(Transit& transit, const Tensors& apart,
                                         const Tensors& targets) {
    for (size_t i = 0; i < targets.size(); ++i)
        if (!apart[i].is_same(targets[i])) transit.copy_after(apart[i], targets[i]);
}

WorkPointer ProcessGroupPomona::allreduce_coalesced(Tensors& tensors,
                                                    const c10d::AllreduceCoalescedOptions& opts) {
    for (const at::Tensor& tensor : tensors) {
        check_tensor(tensor, "all_reduce_coalesced");
        check_reduction(tensor, opts.reduceOp, "all_reduce_coalesced");
        check_written(tensor, "all_reduce_coalesced");
    }
    auto work = start(OpType::ALLREDUCE_COALESCED, "mpi:all_reduce_coalesced", opts.timeout,
                      tensors, {.op = &opts.reduceOp});
    work->set_outputs(tensors);
    Transit transit(*work);
    const bool shared = any_overlap(tensors);
    Tensors apart = apart_if(shared, tensors);
    const at::NoGradGuard no_grad;
    for (size_t i = 0; shared && i < apart.size(); ++i) apart[i].copy_(tensors[i]);
    begin_exact_sums(transit, apart, {}, opts.reduceOp);
    for (const at::Tensor& tensor : apart)
        add_allreduce(tensor, opts.reduceOp, transit, /*alone=*/false);
    copy_from_apart(transit, apart, tensors);
    transit.install();
    return launch(work, opts.asyncOp);
}

WorkPointer ProcessGroupPomona::reduce(Tensors& tensors, const c10d::ReduceOptions& opts) {
    const at::Tensor& tensor = only(tensors, "reduce");
    check_peer(opts.rootRank, "reduce", "root");
    check_reduction(tensor, opts.reduceOp, "reduce");
    if (rank_ == opts.rootRank) check_written(tensor, "reduce");
    const at::Tensor source = summand(tensor, opts.reduceOp);
    const Reduction reduction = reduction_for(source.scalar_type(), opts.reduceOp);
    auto work = start(OpType::REDUCE, "mpi:reduce", opts.timeout, tensors,
                      {.root = opts.rootRank, .op = &opts.reduceOp});
    work->set_outputs(tensors);
    Transit transit(*work);
    const int root_rank = static_cast<int>(opts.rootRank);
    const bool root = rank_ == root_rank;
    if (sums_exactly(source.scalar_type(), reduction)) {
        begin_exact_sums(transit, tensors, {}, opts.reduceOp);
        ExactSum sum;
        sum.root = root_rank;
        sum.divisor = reduction.average ? size_ : 1;
        transit.sum_exactly(source, {}, root ? tensor : at::Tensor(), std::move(sum));
        transit.install();
        return launch(work, opts.asyncOp);
    }
    const at::Tensor host = transit.readable(source);
    if (root && reduction.average) transit.divide(host, size_);
    if (root) transit.copy(host, tensor);
    work->keep(host);
    work->post([=](MPI_Comm comm, MPI_Request* request) {
        return mpi().Ireduce_c(root ? MPI_IN_PLACE : address_of(host),
                               root ? address_of(host) : nullptr, host.numel(), reduction.type,
                               reduction.op, root_rank, comm, request);
    });
    transit.install();
    return launch(work, opts.asyncOp);
}

void ProcessGroupPomona::add_allgather(GlueWork& work, const at::Tensor& output,
                                       const at::Tensor& input, Transit& transit, bool alone) {
    // Memory of both is in use at a time, unless the input lies where it is to come in the output.
    const auto in_place = [rank = rank_](const at::Tensor& target, const at::Tensor& source) {
        return address_of(source) ==
               static_cast<char*>(address_of(target)) + rank * bytes_of(source);
    };
    const auto by_host = [work = &work, output, in_place, rank = rank_](const at::Tensor& given,
                                                                        Transit& way) {
        at::Tensor target = way.room(output);
        const at::Tensor source = way.readable(given);
        if (overlaps(target, source) && !in_place(target, source))
            target = way.other_room(target, output);
        way.copy(target, output);
        work->keep(target);
        work->keep(source);
        char* mine = static_cast<char*>(address_of(target)) + rank * bytes_of(source);
        const void* from = address_of(source) == mine ? MPI_IN_PLACE : address_of(source);
        work->post([=](MPI_Comm comm, MPI_Request* request) {
            return mpi().Iallgather_c(from, bytes_of(source), MPI_BYTE, address_of(target),
                                      bytes_of(source), MPI_BYTE, comm, request);
        });
    };
    if (!alone || !by_peers(bytes_of(output))) {
        by_host(input, transit);
        return;
    }
    const at::Tensor flat = plain(input);
    at::Tensor room = flat_room(output);
    if (overlaps(room, flat) && !in_place(room, flat)) room = empty_like_plain(output);
    transit.gather_by_peers(
        group_->ring, parts_of(room, size_), flat, [=](Transit& way) { by_host(flat, way); },
        [=](Transit& way) {
            if (!room.is_same(output)) way.copy_after(room, output);
        });
}

WorkPointer ProcessGroupPomona::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                const c10d::AllgatherOptions& opts) {
    check_allgather(output, input);
    auto work = start(OpType::_ALLGATHER_BASE, "mpi:_all_gather_base", opts.timeout, {input});
    work->set_outputs({output});
    Transit transit(*work);
    add_allgather(*work, output, input, transit, /*alone=*/true);
    transit.install();
    return launch(work, opts.asyncOp);
}

WorkPointer ProcessGroupPomona::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) {
    TORCH_CHECK_VALUE(outputs.size() == inputs.size(), where("all_gather_into_tensor_coalesced"),
                      "there are ", outputs.size(), " outputs for ", inputs.size(), " inputs");
    for (size_t i = 0; i < inputs.size(); ++i) check_allgather(outputs[i], inputs[i]);
    auto work =
        start(OpType::COALESCED, "mpi:all_gather_into_tensor_coalesced", opts.timeout, inputs);
    work->set_outputs(outputs);
    Transit transit(*work);
    const Tensors apart = apart_if(pairs_overlap(outputs, inputs), outputs);
    for (size_t i = 0; i < inputs.size(); ++i)
        add_allgather(*work, apart[i], inputs[i], transit, inputs.size() == 1);
    copy_from_apart(transit, apart, outputs);
    transit.install();
    return launch(work, opts.asyncOp);
}

void ProcessGroupPomona::add_reduce_scatter(GlueWork& work, const at::Tensor& output,
                                            const at::Tensor& input, const c10d::ReduceOp& op,
                                            Transit& transit, bool alone) {
    const at::Tensor summands = summand(input, op);
    const Reduction reduction = reduction_for(summands.scalar_type(), op);
    const at::Tensor room = room_for_sum(output, op);
    const int64_t divisor = reduction.average ? size_ : 1;
    if (sums_exactly(summands.scalar_type(), reduction)) {
        ExactSum sum;
        sum.parts.assign(static_cast<size_t>(size_), output.numel());
        sum.divisor = divisor;
        transit.sum_exactly(summands, room, output, std::move(sum));
        return;
    }
    const auto by_host = [=, work = &work](const at::Tensor& given, Transit& way) {
        const at::Tensor source = way.readable(given);
        at::Tensor target = way.room(room);
        // An output inside the input (common for sharded gradients) must not be written while
        // others read.
        if (overlaps(target, source)) target = way.other_room(target, output);
        if (divisor > 1) way.divide(target, divisor);
        way.copy(target, output);
        work->keep(target);
        work->keep(source);
        work->post([=](MPI_Comm comm, MPI_Request* request) {
            return mpi().Ireduce_scatter_block_c(address_of(source), address_of(target),
                                                 target.numel(), reduction.type, reduction.op, comm,
                                                 request);
        });
    };
    if (!alone || !sums_by_peers(summands, reduction)) {
        by_host(summands, transit);
        return;
    }
    const at::Tensor flat = plain(summands);
    at::Tensor sums = flat_room(room);
    if (overlaps(sums, flat)) sums = empty_like_plain(room);
    transit.scatter_sums_by_peers(
        group_->ring, sums, parts_of(flat, size_), divisor,
        [=](Transit& way) { by_host(flat, way); },
        [=](Transit& way) {
            if (!sums.is_same(output)) way.copy_after(sums, output);
        });
}

WorkPointer ProcessGroupPomona::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                     const c10d::ReduceScatterOptions& opts) {
    check_reduce_scatter(output, input, opts.reduceOp);
    auto work = start(OpType::_REDUCE_SCATTER_BASE, "mpi:_reduce_scatter_base", opts.timeout,
                      {input}, {.op = &opts.reduceOp});
    work->set_outputs({output});
    Transit transit(*work);
    begin_exact_sums(transit, {input}, {output}, opts.reduceOp);
    add_reduce_scatter(*work, output, input, opts.reduceOp, transit, /*alone=*/true);
    transit.install();
    return launch(work, opts.asyncOp);
}

WorkPointer ProcessGroupPomona::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& opts) {
    TORCH_CHECK_VALUE(outputs.size() == inputs.size(), where("reduce_scatter_tensor_coalesced"),
                      "there are ", outputs.size(), " outputs for ", inputs.size(), " inputs");
    for (size_t i = 0; i < inputs.size(); ++i)
        check_reduce_scatter(outputs[i], inputs[i], opts.reduceOp);
    auto work = start(coalesced_reduce_scatter<OpType>(), "mpi:reduce_scatter_tensor_coalesced",
                      opts.timeout, inputs, {.op = &opts.reduceOp});
    work->set_outputs(outputs);
    Transit transit(*work);
    const Tensors apart = apart_if(pairs_overlap(outputs, inputs), outputs);
    begin_exact_sums(transit, inputs, apart, opts.reduceOp);
    for (size_t i = 0; i < inputs.size(); ++i)
        add_reduce_scatter(*work, apart[i], inputs[i], opts.reduceOp, transit, inputs.size() == 1);
    copy_from_apart(transit, apart, outputs);
    transit.install();
    return launch(work, opts.asyncOp);
}

}  // namespace pomona::glue
