// mpi/abi/failure.cc: going on after processes have failed (mpix.h): revoking, agreeing, shrinking
// and acknowledging, by the names and rules of the ULFM proposal. docs/failures.md tells them to
// users.
#include "mpi/abi/comm_internal.h"
#include "mpi/abi/define.h"
#include "mpi/runtime/consensus.h"
#include "mpi/runtime/launcher_watch.h"

#include <algorithm>
#include <utility>

using namespace pomona;

namespace {

Agreements& agreements(Communicator& comm) { return *comm.process.agreements; }

// One agreement as a request.
class AgreementRequest : public Request {
public:
    explicit AgreementRequest(Communicator& comm) : Request(&comm) { comm.retain(); }
    ~AgreementRequest() override { comm_->release(); }

    void describe(Waiting& out) const override {
        out.operation = operation();
        out.communicator = name_for_people(*comm_);
        agreements(*comm_).describe(*comm_, out);
    }

    // With the engine held.
    void begin(int32_t flag) {
        comm_->process.engine.hold_for_engine(*this);
        agreements(*comm_).begin(*comm_, flag, [this](const Decision& decision, uint64_t number) {
            decision_ = decision;
            number_ = number;
            decided();
            comm_->process.engine.complete(*this);
        });
    }

protected:
    virtual const char* operation() const = 0;  // its non-blocking form
    virtual void decided() {}
    void recycle() override {
        Engine::Hold hold(comm_->process.engine);
        delete this;
    }
    Decision decision_;
    uint64_t number_ = 0;
};

class AgreeRequest final : public AgreementRequest {
public:
    AgreeRequest(Communicator& comm, int* flag) : AgreementRequest(comm), flag_(flag) {}

private:
    const char* operation() const override { return "MPIX_Comm_iagree"; }
    void decided() override {
        int side = Agreements::side_of(*comm_);
        *flag_ = decision_.flags[comm_->is_inter() ? 1 - side : side];
        if (!decision_.unacknowledged) return;
        outcome_.error = MPIX_ERR_PROC_FAILED;
        outcome_.reason = "A process of the communicator has failed that not all have acknowledged";
        for (int rank = 0; rank < comm_->remote_size() && outcome_.source < 0; ++rank)
            if (std::find(decision_.failed.begin(), decision_.failed.end(),
                          comm_->peers[static_cast<size_t>(rank)]->rank) != decision_.failed.end())
                outcome_.source = rank;
    }
    int* flag_;
};

// The communicator of the survivors is made when the end is reported.
class ShrinkRequest final : public AgreementRequest {
public:
    ShrinkRequest(Communicator& comm, MPI_Comm* made) : AgreementRequest(comm), made_(made) {}
    int finish(MPI_Status* status) override {
        if (MPI_Comm* target = std::exchange(made_, nullptr)) make(target);
        return Request::finish(status);
    }

private:
    const char* operation() const override { return "MPIX_Comm_ishrink"; }
    Ref<Group> survivors(const Group& group) const {
        std::vector<int> members;
        for (int rank : group.members())
            if (std::find(decision_.failed.begin(), decision_.failed.end(), rank) ==
                decision_.failed.end())
                members.push_back(rank);
        return Ref(new Group(std::move(members), comm_->process.job().rank));
    }
    // Members may disagree on how many children there are, after errors; the number of the
    // agreement they know alike.
    void make(MPI_Comm* target) {
        constexpr uint64_t kShrunk = 0x5348524e;
        auto context = [&](const Communicator& from) {
            return child_context(combine(from.context(), kShrunk), number_);
        };
        Ref<Group> here = survivors(*comm_->group), there;
        if (comm_->is_inter()) there = survivors(*comm_->remote_group);
        Communicator* made = make_child(*comm_, context(*comm_), here, there);
        if (comm_->is_inter())
            made->local = Ref(make_child(*comm_->local, context(*comm_->local), here, {}));
        *target = hand_out<MPI_Comm>(made);
    }
    MPI_Comm* made_;
};

void begin(AgreementRequest& request, int flag) {
    Engine::Hold hold(request.comm()->process.engine);
    request.begin(flag);
}

// Waits for it, and ends it.
int end(const char* function, AgreementRequest* request) {
    Communicator* comm = request->comm();
    comm->process.engine.wait(*request);
    int error = request->finish(MPI_STATUS_IGNORE);
    Outcome outcome = request->outcome();
    std::string sentence = outcome.reason ? outcome.reason : "";
    if (outcome.source >= 0) sentence += format(": rank {}", outcome.source);
    request->release();
    return error == MPI_SUCCESS ? MPI_SUCCESS : fail(function, comm, error, sentence);
}

MPI_Group group_of(Communicator& comm, size_t most) {
    Engine::Hold hold(comm.process.engine);
    std::vector<int> failed = comm.process.engine.failed_of(comm);
    failed.resize(std::min(failed.size(), most));
    return hand_out<MPI_Group>(new Group(std::move(failed), comm.process.job().rank));
}

// Acknowledges the first `most` failures; how many are then.
size_t acknowledge(Communicator& comm, size_t most) {
    Engine& engine = comm.process.engine;
    Engine::Hold hold(engine);
    comm.acknowledged = std::max(comm.acknowledged, std::min(most, engine.failed_of(comm).size()));
    engine.resume_stalled(comm);
    return comm.acknowledged;
}

}  // namespace

POMONA_MPIX(int, Comm_revoke, (MPI_Comm comm)) {
    COMM_ARGUMENT(owner, comm);
    Engine::Hold hold(owner->process.engine);
    agreements(*owner).revoke(*owner);
    return MPI_SUCCESS;
}

POMONA_MPIX(int, Comm_is_revoked, (MPI_Comm comm, int* flag)) {
    COMM_ARGUMENT(owner, comm);
    REQUIRE(flag, owner, MPI_ERR_ARG, "flag is a null pointer");
    if (!owner->revoked) owner->process.engine.test_turn();  // asked in a loop, it shall hear of it
    *flag = owner->revoked;
    return MPI_SUCCESS;
}

POMONA_MPIX(int, Comm_agree, (MPI_Comm comm, int* flag)) {
    COMM_ARGUMENT(owner, comm);
    REQUIRE(flag, owner, MPI_ERR_ARG, "flag is a null pointer");
    auto* request = new AgreeRequest(*owner, flag);
    begin(*request, *flag);
    return end(__func__, request);
}

POMONA_MPIX(int, Comm_iagree, (MPI_Comm comm, int* flag, MPI_Request* request)) {
    COMM_ARGUMENT(owner, comm);
    REQUIRE(flag && request, owner, MPI_ERR_ARG, "flag or request is a null pointer");
    auto* made = new AgreeRequest(*owner, flag);
    begin(*made, *flag);
    *request = handle_of<MPI_Request>(made);
    return MPI_SUCCESS;
}

POMONA_MPIX(int, Comm_shrink, (MPI_Comm comm, MPI_Comm* newcomm)) {
    COMM_ARGUMENT(owner, comm);
    REQUIRE(newcomm, owner, MPI_ERR_ARG, "newcomm is a null pointer");
    *newcomm = MPI_COMM_NULL;
    auto* request = new ShrinkRequest(*owner, newcomm);
    begin(*request, -1);
    return end(__func__, request);
}

POMONA_MPIX(int, Comm_ishrink, (MPI_Comm comm, MPI_Comm* newcomm, MPI_Request* request)) {
    COMM_ARGUMENT(owner, comm);
    REQUIRE(newcomm && request, owner, MPI_ERR_ARG, "newcomm or request is a null pointer");
    *newcomm = MPI_COMM_NULL;
    auto* made = new ShrinkRequest(*owner, newcomm);
    begin(*made, -1);
    *request = handle_of<MPI_Request>(made);
    return MPI_SUCCESS;
}

POMONA_MPIX(int, Comm_get_failed, (MPI_Comm comm, MPI_Group* failedgrp)) {
    COMM_ARGUMENT(owner, comm);
    REQUIRE(failedgrp, owner, MPI_ERR_ARG, "failedgrp is a null pointer");
    Process& process = owner->process;
    if (process.launcher) {
        Engine::Hold hold(process.engine);
        process.launcher->look_soon();
    }
    process.engine.test_turn();
    *failedgrp = group_of(*owner, SIZE_MAX);
    return MPI_SUCCESS;
}

POMONA_MPIX(int, Comm_ack_failed, (MPI_Comm comm, int num_to_ack, int* num_acked)) {
    COMM_ARGUMENT(owner, comm);
    REQUIRE(num_acked, owner, MPI_ERR_ARG, "num_acked is a null pointer");
    REQUIRE(num_to_ack >= 0, owner, MPI_ERR_ARG, "num_to_ack is {}; it must not be negative",
            num_to_ack);
    *num_acked = static_cast<int>(acknowledge(*owner, static_cast<size_t>(num_to_ack)));
    return MPI_SUCCESS;
}

POMONA_MPIX(int, Comm_failure_ack, (MPI_Comm comm)) {
    COMM_ARGUMENT(owner, comm);
    acknowledge(*owner, SIZE_MAX);
    return MPI_SUCCESS;
}

POMONA_MPIX(int, Comm_failure_get_acked, (MPI_Comm comm, MPI_Group* failedgrp)) {
    COMM_ARGUMENT(owner, comm);
    REQUIRE(failedgrp, owner, MPI_ERR_ARG, "failedgrp is a null pointer");
    *failedgrp = group_of(*owner, owner->acknowledged);
    return MPI_SUCCESS;
}
