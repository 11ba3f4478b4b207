// backend.cc: how groups are made and end, and how each operation begins. Collectives of whole
// tensors stand in backend_tensors.cc; lists of tensors, point to point and the rest in
// backend_lists.cc. See backend.h.
#include "torch_glue/backend.h"

#include "torch_glue/arrivals.h"
#include "torch_glue/exact_sums.h"
#include "torch_glue/meeting.h"
#include "torch_glue/messages.h"

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
