// regroup.cc: groups made from a group: splits, and what is left of one that ranks have gone from.
// Idea: members make the new communicator by themselves (MPI_Comm_create_group), so neither who is
// excluded nor who is dead is asked. Who is dead is found by MPIX_Comm_shrink, on which the
// survivors agree. See backend.h.
#include "torch_glue/backend.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <numeric>
#include <string>
#include <thread>

namespace pomona::glue {
namespace {

[[noreturn]] void fail(const Group& group, const std::string& words) {
    C10_THROW_ERROR(DistBackendError, group.describe() + ": " + words);
}

// Those of `comm`'s `size` ranks that `rest`, made from it, does not have.
std::vector<int> missing(MPI_Comm comm, MPI_Comm rest, int size) {
    MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
    mpi().Comm_group(comm, &all);
    mpi().Comm_group(rest, &some);
    std::vector<int> ranks(static_cast<size_t>(size)), places(ranks.size(), MPI_UNDEFINED), out;
    std::iota(ranks.begin(), ranks.end(), 0);
    mpi().Group_translate_ranks(all, size, ranks.data(), some, places.data());
    for (int rank : ranks)
        if (places[static_cast<size_t>(rank)] == MPI_UNDEFINED) out.push_back(rank);
    mpi().Group_free(&all);
    mpi().Group_free(&some);
    return out;
}

}  // namespace

c10::intrusive_ptr<c10d::Backend> ProcessGroupPomona::split(
    const c10::intrusive_ptr<c10d::Store>&, const std::vector<int>& ranks,
    const c10::intrusive_ptr<Options>& options) {
    const auto place = std::find(ranks.begin(), ranks.end(), rank_);
    if (place == ranks.end()) return nullptr;
    for (int rank : ranks) check_peer(rank, "split_group", "rank");
    Setup setup;
    setup.backend_name = group_->backend_name;
    setup.group_name = options ? options->group_name : group_->name + ":split";
    // torch asks once for each device of the group; all of them get the same.
    if (last_split_.first == setup.group_name)
        if (auto made = last_split_.second.lock();
            made && made->getError() == c10d::ErrorType::SUCCESS)
            return made;
    setup.rank = static_cast<int>(place - ranks.begin());
    setup.size = static_cast<int>(ranks.size());
    setup.ranks = ranks;
    setup.timeout = options ? options->timeout : timeout_.load();
    setup.parent = group_;
    c10::intrusive_ptr<Backend> made = create(setup);
    last_split_ = {setup.group_name, c10::weak_intrusive_ptr<Backend>(made)};
    return made;
}

c10::intrusive_ptr<c10d::Backend> ProcessGroupPomona::shrink(
    const std::vector<int64_t>& ranks_to_exclude, int flags,
    const c10::intrusive_ptr<Options>& options) {
    constexpr int kAbort = 1;  // torch's SHRINK_ABORT
    Setup setup;
    for (int rank = 0; rank < size_; ++rank) {
        if (std::count(ranks_to_exclude.begin(), ranks_to_exclude.end(), rank) != 0) continue;
        if (rank == rank_) setup.rank = static_cast<int>(setup.ranks.size());
        setup.ranks.push_back(rank);
    }
    for (int64_t rank : ranks_to_exclude) {
        check_peer(rank, "shrink_group", "rank");
        TORCH_CHECK_VALUE(rank != rank_, where("shrink_group"), "this rank is itself excluded");
    }
    if ((flags & kAbort) != 0) group_->stop("The process group was shrunk");
    setup.backend_name = group_->backend_name;
    setup.group_name = group_->name + ":shrunk";
    setup.size = static_cast<int>(setup.ranks.size());
    setup.timeout = options ? options->timeout : timeout_.load();
    setup.parent = group_;
    setup.first = is_first_group(group_.get());
    // A revoked communicator has nothing under way that MPI_Finalize would wait for.
    const bool ended = group_->revoked.load();
    auto made = create(setup);
    if (setup.first && ended) take_back_finalize(group_->count->key);
    return made;
}

std::vector<int> ProcessGroupPomona::failed_ranks() {
    if (!mpi().X_Comm_revoke || !mpi().X_Comm_ishrink)
        fail(*group_, "this MPI library cannot tell which ranks have failed (MPIX_Comm_shrink)");
    // Who still waits for an operation that a dead rank does not take part in must come here, too.
    group_->revoked.store(true);
    int error = mpi().X_Comm_revoke(group_->comm);
    if (error != MPI_SUCCESS) fail(*group_, "MPIX_Comm_revoke failed: " + error_text(error));
    auto rest = std::make_unique<MPI_Comm>(MPI_COMM_NULL);  // MPI's, where the others do not come
    MPI_Request request = MPI_REQUEST_NULL;
    error = mpi().X_Comm_ishrink(group_->comm, rest.get(), &request);
    const auto deadline = deadline_in(timeout_.load());
    int done = 0;
    MPI_Status status;
    while (error == MPI_SUCCESS && !done && Clock::now() < deadline) {
        error = mpi().Test(&request, &done, &status);
        if (!done) std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    if (error != MPI_SUCCESS) fail(*group_, "MPIX_Comm_ishrink failed: " + error_text(error));
    if (!done) {
        static_cast<void>(rest.release());
        give_up_finalize("ranks did not agree on who has failed");
        fail(*group_, "not all ranks that live have called failed_ranks() within " +
                          std::to_string(timeout_.load().count()) + " ms");
    }
    std::vector<int> failed = missing(group_->comm, *rest, size_);
    free_comm(rest.get());
    return failed;
}

}  // namespace pomona::glue
