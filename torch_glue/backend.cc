// backend.cc: groups, checks and the collectives of whole tensors; lists of tensors, point to point
// and the rest stand in backend_lists.cc. See backend.h.
#include "torch_glue/backend.h"

#include <ATen/core/grad_mode.h>

#include "torch_glue/arrivals.h"
#include "torch_glue/meeting.h"
#include "torch_glue/messages.h"
#include "torch_glue/transit.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string_view>
#include <thread>
#include <torch/csrc/distributed/c10d/debug.h>
#include <utility>

namespace pomona::glue {

using c10d::OpType;

namespace {

std::mutex groups_mutex;
std::weak_ptr<Group> first_group;  // under groups_mutex; parent of all others

std::shared_ptr<Group> parent_of(const ProcessGroupPomona::Setup& setup) {
    if (setup.parent) return setup.parent;
    std::lock_guard lock(groups_mutex);
    return first_group.lock();
}

// A group that stands in the first one's place after a shrink has other numbers than that had.
std::vector<int> members_of(const ProcessGroupPomona::Setup& setup) {
    const auto parent = setup.ranks.empty() ? nullptr : parent_of(setup);
    if (!parent || parent->members.empty()) return setup.ranks;
    std::vector<int> members;
    for (int rank : setup.ranks) members.push_back(parent->members[static_cast<size_t>(rank)]);
    return members;
}

std::shared_ptr<Group> make_group(const ProcessGroupPomona::Setup& setup) {
    auto group = std::make_shared<Group>();
    group->name = setup.group_name;
    group->backend_name = setup.backend_name;
    group->rank = setup.rank;
    group->size = setup.size;
    group->members = members_of(setup);
    group->count = count_group(setup.group_name, group->members, setup.size);
    return group;
}

// Torch up to 2.11 has no name of its own for it; `Type` is OpType, a parameter so that it is asked
// for.
template <class Type> constexpr Type coalesced_reduce_scatter() {
    if constexpr (requires { Type::REDUCE_SCATTER_TENSOR_COALESCED; })
        return Type::REDUCE_SCATTER_TENSOR_COALESCED;
    else return Type::_REDUCE_SCATTER_BASE;
}

[[noreturn]] void fail_group(const Group& group, const std::string& cause) {
    C10_THROW_ERROR(DistBackendError, group.describe() + ": the group could not be made: " + cause);
}

void connect_first(const std::shared_ptr<Group>& group, std::chrono::milliseconds timeout) {
    const WorldInfo info = world_info();
    if (info.size != group->size) {
        fail_group(*group, filled(info.size == 1 ? messages::world_alone : messages::world_unlike,
                                  info.size, group->size));
    }
    const std::string late = meet_world(timeout);
    if (!late.empty()) fail_group(*group, late);
    end_lost_groups();
    const int error = make_world_comm(group->rank, &group->comm);
    if (error != MPI_SUCCESS) fail_group(*group, error_text(error));
    const int watched = watch_presence(group->comm);
    if (watched != MPI_SUCCESS) fail_group(*group, error_text(watched));
    const int shared = share_arrivals(group->comm);
    if (shared != MPI_SUCCESS) fail_group(*group, error_text(shared));
    start_watchdog();
    std::lock_guard lock(groups_mutex);
    first_group = group;
}

void connect_subgroup(const std::shared_ptr<Group>& group, const ProcessGroupPomona::Setup& setup) {
    const std::shared_ptr<Group> parent = parent_of(setup);
    // A default group of another backend (cpu:gloo and the like): the world itself is the parent.
    // Never parent->comm: that may have been revoked.
    const MPI_Comm aside = parent ? parent->aside : world_aside();
    const std::string late = meet_members(aside, setup.ranks, group->name, setup.timeout);
    if (!late.empty()) fail_group(*group, late);
    const int error = make_sub_comm(aside, setup.ranks, group->name, &group->comm);
    if (error != MPI_SUCCESS) fail_group(*group, error_text(error));
    if (!setup.first) return;
    forgive_meetings();
    std::lock_guard lock(groups_mutex);
    first_group = group;
}

// How long sums are cut, where some rank has tensors that MPI cannot read where they lie: it copies
// piece by piece, and all ranks must call MPI alike. POMONA_GLUE_STAGE_BYTES sets the length.
MPI_Count own_chunk() {
    constexpr MPI_Count kChunk = MPI_Count{4} << 20;
    const char* text = std::getenv("POMONA_GLUE_STAGE_BYTES");
    const MPI_Count given = text ? std::atoll(text) : 0;
    if (given > 0) return given;
    return has_remote_memory() ? kChunk : 0;
}

MPI_Count from_environment(const char* name, MPI_Count otherwise) {
    const char* text = std::getenv(name);
    return text != nullptr ? std::atoll(text) : otherwise;
}

// POMONA_CHECK: the library compares MPI's calls, the glue torch's, which say more.
bool is_checked() {
    const char* text = std::getenv("POMONA_CHECK");
    const std::string_view value = text != nullptr ? text : "";
    return value == "1" || value == "yes" || value == "true" || value == "on";
}

// What all ranks must do alike, though their devices and environments may differ: the largest word
// of any rank counts.
void agree(Group& group) {
    constexpr MPI_Count kSlot = MPI_Count{16} << 20;
    // docs/torch.md: where the two ways meet, if each rank has a device of its own, and if not.
    constexpr MPI_Count kRingFrom = MPI_Count{256} << 10, kSharedFrom = MPI_Count{2} << 20;
    const char* sums = std::getenv("POMONA_GLUE_SUM16");
    const MPI_Count ring_from = from_environment("POMONA_GLUE_PEER_BYTES", kRingFrom);
    const int64_t machine = machine_number();
    const char* exact = std::getenv("POMONA_GLUE_SUM");
    enum {
        kChunk,
        kNative,
        kExact,
        kNoRing,
        kFrom,
        kFromShared,
        kSlotBytes,
        kMachine,
        kMachineToo,
        kMisplaced,
        kWords
    };
    int64_t words[kWords];
    words[kChunk] = own_chunk();
    words[kNative] = sums != nullptr && std::string_view(sums) == "native";
    words[kExact] = exact != nullptr && std::string_view(exact) == "reproducible";
    words[kNoRing] = ring_from <= 0 || machine < 0 || group.size < 2 || !can_share_memory();
    words[kFrom] = ring_from;
    words[kFromShared] = from_environment("POMONA_GLUE_PEER_BYTES", kSharedFrom);
    words[kSlotBytes] = from_environment("POMONA_GLUE_PEER_SLOT_BYTES", kSlot);
    words[kMachine] = machine;
    words[kMachineToo] = -machine;
    int place = 0;
    mpi().Comm_rank(group.comm, &place);
    words[kMisplaced] = place != group.rank;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status;
    int error = mpi().Iallreduce_c(MPI_IN_PLACE, words, kWords, MPI_INT64_T, MPI_MAX, group.aside,
                                   &request);
    if (error == MPI_SUCCESS) error = mpi().Wait(&request, &status);
    if (error != MPI_SUCCESS) fail_group(group, error_text(error));
    if (words[kMisplaced] != 0)
        fail_group(group, "this process is rank " + std::to_string(place) +
                              " of MPI's group, and some ranks' numbers differ so: each rank must "
                              "be given to one process");
    group.chunk = words[kChunk];
    group.sums_16_bits_natively = words[kNative] != 0;
    group.sums_exactly = words[kExact] != 0;
    if (group.sums_exactly && group.size > most_ranks_of_exact_sums())
        fail_group(group, filled(messages::summands_many, most_ranks_of_exact_sums()));
    const bool one_machine = words[kMachine] == -words[kMachineToo];
    if (words[kNoRing] != 0 || !one_machine) return;
    constexpr int64_t kLine = 32 << 10;  // at least, and a multiple: room for the trial, any dtype
    const int64_t slot = (std::max(words[kSlotBytes], kLine) + kLine - 1) / kLine * kLine;
    group.ring = std::make_shared<PeerRing>(group.rank, group.size, slot, words[kFromShared]);
    group.ring_from = words[kFrom];
}

// The ranks that a group is to be made of: each once, and one of those there are.
void check_ranks(const ProcessGroupPomona::Setup& setup) {
    const auto parent = parent_of(setup);
    const int size = parent ? parent->size : world_info().size;
    std::vector<int> seen;
    for (int rank : setup.ranks) {
        TORCH_CHECK_VALUE(rank >= 0 && rank < size, "group ", setup.group_name, " of ranks ",
                          c10::ArrayRef<int>(setup.ranks), " could not be made: there is no rank ",
                          rank, "; ranks go from 0 to ", size - 1);
        TORCH_CHECK_VALUE(std::find(seen.begin(), seen.end(), rank) == seen.end(), "group ",
                          setup.group_name, " of ranks ", c10::ArrayRef<int>(setup.ranks),
                          " could not be made: rank ", rank, " is given twice");
        seen.push_back(rank);
    }
    // By whom MPI knows this process: a default group of another backend may count otherwise.
    const int self = parent ? parent->rank : world_info().rank;
    const int told = setup.ranks.empty() ? self : setup.ranks[static_cast<size_t>(setup.rank)];
    TORCH_CHECK_VALUE(told == self, filled(messages::rank_unlike, setup.group_name, told, self));
}

}  // namespace

bool is_first_group(const Group* group) {
    std::lock_guard lock(groups_mutex);
    return first_group.lock().get() == group;
}

c10::intrusive_ptr<ProcessGroupPomona> ProcessGroupPomona::create(const Setup& setup) {
    const std::string failure = start_mpi();
    if (failure.empty()) check_ranks(setup);
    auto group = make_group(setup);
    if (!failure.empty()) fail_group(*group, failure);
    if (setup.ranks.empty()) connect_first(group, setup.timeout);
    else connect_subgroup(group, setup);
    const int error = copy_comm(group->comm, &group->aside);
    if (error != MPI_SUCCESS) fail_group(*group, error_text(error));
    agree(*group);
    std::vector<int> ranks = setup.ranks;
    for (int i = 0; setup.ranks.empty() && i < setup.size; ++i) ranks.push_back(i);
    Record::instance().set_reduce_counter([] { return library_counter("reduce_ns"); });
    Record::instance().know_group(setup.group_name, std::move(ranks));
    group->recorded = true;
    // Around backends of other names torch puts a wrapper that compares in its debug mode.
    group->compares =
        (c10d::debug_level() == c10d::DebugLevel::Detail && setup.backend_name == "mpi") ||
        is_checked();
    return c10::make_intrusive<ProcessGroupPomona>(group, setup.timeout);
}

ProcessGroupPomona::ProcessGroupPomona(std::shared_ptr<Group> group,
                                       std::chrono::milliseconds timeout)
    : Backend(group->rank, group->size), group_(std::move(group)), timeout_(timeout) {
    init();
}

c10::intrusive_ptr<c10d::Backend::Options> ProcessGroupPomona::getBackendOptions() {
    auto options = c10::make_intrusive<CopiedOptions>(group_->backend_name, timeout_.load());
    options->group_name = group_->name;
    return options;
}

namespace {

// A span in torch's profiler carries the backend's name: "pomona:all_reduce" for "mpi:all_reduce".
// Work keeps the pointer for good, so such names stay; there are a few dozen.
const char* titled(const std::string& backend_name, const char* title) {
    constexpr std::string_view kWritten = "mpi";
    if (backend_name == kWritten || title == nullptr) return title;
    static std::mutex mutex;
    static auto* const titles = new std::map<std::pair<std::string, const char*>, std::string>;
    std::lock_guard lock(mutex);
    std::string& own = (*titles)[{backend_name, title}];
    if (own.empty()) own = backend_name + (title + kWritten.size());
    return own.c_str();
}

}  // namespace

ProcessGroupPomona::WorkRef ProcessGroupPomona::start(OpType op, const char* title,
                                                      std::chrono::milliseconds timeout,
                                                      const Tensors& inputs, const Told& told) {
    title = titled(group_->backend_name, title);
    if (in_forked_child()) C10_THROW_ERROR(DistBackendError, where(title) + messages::forked);
    if (group_->error() != c10d::ErrorType::SUCCESS) {
        C10_THROW_ERROR(DistBackendError,
                        where(title) + "the group cannot be used any more: " + group_->cause());
    }
    if (timeout < std::chrono::milliseconds(0)) timeout = timeout_.load();
    // Point to point concerns two ranks only: it must not count, or the ranks' numbers would
    // differ. A collective counts when it is launched: a call that its arguments end does not.
    // Messages have numbers of each rank's own.
    const bool collective = !c10d::isP2POp(op);
    const uint64_t sequence = collective ? sequence_.load() + 1 : group_->count->start_message();
    if (collective && group_->compares) compare_calls(op, sequence, timeout, inputs, told);
    auto work = c10::make_intrusive<GlueWork>(group_, op, title, sequence, timeout, inputs);
    // Before MPI is called: the others' operations may be over before that returns.
    if (collective) arrive(group_->count->key, sequence, work->begun());
    if (work->ordered()) {
        if (const uint64_t awaited = group_->futures.last_awaited()) work->hold(awaited);
    }
    work->queue_if_busy();
    return work;
}

WorkPointer ProcessGroupPomona::launch(WorkRef work, bool async) {
    if (!c10d::isP2POp(work->retrieveOpType())) group_->count->start(++sequence_);
    const bool together = coalescing_.load() == std::this_thread::get_id();
    work->launch(async || together);
    if (together) coalesced_.push_back(work);
    return work;
}

// ---- whole tensors ----------------------------------------------------------------------------

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

namespace {
// The ranks' parts of a flat tensor, of equal size.
std::vector<at::Tensor> parts_of(const at::Tensor& flat, int size) {
    std::vector<at::Tensor> parts;
    const at::Tensor row = flat.view({-1});
    const int64_t each = row.numel() / size;
    for (int i = 0; i < size; ++i) parts.push_back(row.narrow(0, i * each, each));
    return parts;
}
}  // namespace

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

WorkPointer ProcessGroupPomona::barrier(const c10d::BarrierOptions& opts) {
    auto work = start(OpType::BARRIER, "mpi:barrier", opts.timeout, {});
    work->post([=](MPI_Comm comm, MPI_Request* request) { return mpi().Ibarrier(comm, request); });
    return launch(work, opts.asyncOp);
}

c10d::ErrorType ProcessGroupPomona::getError() { return group_->error(); }

void ProcessGroupPomona::abort() {
    if (in_forked_child()) return;
    const std::string cause = "The process group was aborted";
    group_->aborted.store(true);
    group_->stop(cause);
    group_->count->give_up(group_->count->started() + 1, cause, group_->rank);
}

// An operation may be on its way still, as one that a late peer takes part in; one that no peer
// takes part in would keep the process from ending until the group's timeout.
void ProcessGroupPomona::shutdown() {
    if (in_forked_child()) return;  // the works are the parent's
    // After a failure there is nothing left to wait for; several groups wait 5 s together.
    const auto limit = Clock::now() + kLeaveGrace;
    const auto calls_back = [&] {  // a callback that destroys the group does not wait for itself
        return group_->callbacks.running.load() > 0 && !GlueWork::in_callback();
    };
    while ((group_->armed.load() > 0 || calls_back()) &&
           group_->error() == c10d::ErrorType::SUCCESS && finalize_given_up() == nullptr &&
           Clock::now() < limit)
        std::this_thread::sleep_for(std::chrono::microseconds(200));
    leave_ring();
    group_->stop("The process group was shut down (destroy_process_group)");
    const auto told = Clock::now() + std::chrono::seconds(1);
    while (calls_back() && Clock::now() < told)
        std::this_thread::sleep_for(std::chrono::microseconds(200));
}

// The others' memory is closed when this rank has read it, the own one goes when all have closed
// it. Where a rank does not come it stays until the process ends.
void ProcessGroupPomona::leave_ring() {
    if (!group_->ring || group_->ring->state() != PeerRing::State::Ready) return;
    const auto limit = Clock::now() + kLeaveGrace;
    const auto usable = [&] {
        return group_->error() == c10d::ErrorType::SUCCESS && finalize_given_up() == nullptr &&
               Clock::now() < limit;
    };
    const auto nap = [] { std::this_thread::sleep_for(std::chrono::microseconds(200)); };
    while (!group_->ring->is_quiet() && usable()) nap();
    if (!group_->ring->is_quiet() || !usable()) return;
    group_->ring->close_others();
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status;
    int done = mpi().Ibarrier(group_->aside, &request) != MPI_SUCCESS;
    while (!done && usable()) {
        if (mpi().Test(&request, &done, &status) != MPI_SUCCESS) return;
        if (!done) nap();
    }
    if (done && request == MPI_REQUEST_NULL) group_->ring->release();
}

}  // namespace pomona::glue
