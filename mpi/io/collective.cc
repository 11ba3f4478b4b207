// mpi/io/collective.cc: collective accesses: members tell each other what they want, then each goes
// on its own, or all together (two_phase.cc); in the end they agree on the result.
#include "mpi/io/external.h"
#include "mpi/io/two_phase.h"

#include "btl/base/format.h"
#include "mpi/runtime/collectives.h"
#include "mpi/runtime/process.h"

namespace pomona {

static const char kMemberGone[] = "a member of the file's communicator has ended";

IoError File::transfer_all(Transfer access, const IoError& own_fault, MPI_Count& bytes) {
    if (!view_.external()) return transfer_bytes_all(access, own_fault, bytes);
    ExternalTransfer converted(access);
    IoError error = transfer_bytes_all(access, own_fault, bytes);
    converted.finish(bytes);
    return error;
}

IoError File::transfer_bytes_all(const Transfer& access, const IoError& own_fault,
                                 MPI_Offset& done) {
    done = 0;
    if (comm_->size() == 1) return own_fault ? own_fault : transfer_bytes(access, done);
    IoError error = own_fault;
    if (!error && !view_.covers(access.position, access.length))
        error = {MPI_ERR_ARG,
                 format("the access of {} bytes at position {} of the view of \"{}\" leads "
                        "outside of it",
                        access.length, access.position, name_)};
    Offer mine;
    mine.error = error.error;
    mine.ordered = view_.ordered();
    mine.buffer_size = static_cast<int64_t>(hints_.cb_buffer_size);
    mine.nodes = hints_.aggregators(comm_->size());
    mine.when = access.write ? hints_.collective_write : hints_.collective_read;
    if (!error && access.length > 0) {
        mine.start = view_.locate(access.position);
        mine.end = view_.locate(access.position + access.length - 1) + 1;
        mine.length = access.length;
        mine.mean_block =
            view_.contiguous() ? access.length : std::min(access.length, view_.mean_block());
    }
    std::vector<Offer> offers(static_cast<size_t>(comm_->size()));
    if (int gone = run_allgather(*comm_, &mine, offers.data(), sizeof mine))
        return {gone, kMemberGone};
    if (error) return error;
    for (size_t rank = 0; rank < offers.size(); ++rank)
        if (offers[rank].error)
            return {offers[rank].error, format("rank {} called it with wrong arguments", rank)};
    bool together = !atomic_ && two_phase_pays(offers, access.write);
    if (together) {
        error = TwoPhase(*this, access, offers).run(done);
        if (access.write && !error) done = access.length;
    } else {
        error = transfer_bytes(access, done);
    }
    return agree(error);
}

IoError File::transfer_ordered(Transfer access, const IoError& own_fault, MPI_Count& bytes) {
    struct Told {
        int64_t error, etypes;
    };
    Told mine{own_fault.error, access.length / view_.etype_size()};
    std::vector<Told> all(static_cast<size_t>(comm_->size()));
    if (int gone = run_allgather(*comm_, &mine, all.data(), sizeof mine))
        return {gone, kMemberGone};
    MPI_Offset before = 0, total = 0;
    bool faulty = false;
    for (size_t rank = 0; rank < all.size(); ++rank) {
        faulty = faulty || all[rank].error;
        if (rank < static_cast<size_t>(comm_->rank())) before += all[rank].etypes;
        total += all[rank].etypes;
    }
    Told base{};  // error, place
    IoError error = own_fault;
    if (!faulty) {
        if (comm_->rank() == 0) {
            error = advance_shared(total, base.etypes);
            base.error = error.error;
        }
        if (int gone = run_bcast(*comm_, &base, sizeof base, 0)) return {gone, kMemberGone};
        if (base.error && !error)
            error = {static_cast<int>(base.error), "rank 0 cannot move the shared pointer"};
    }
    access.position = (base.etypes + before) * view_.etype_size();
    return transfer_all(access, error, bytes);
}

}  // namespace pomona
