// mpi/abi/neighbor.cc: neighborhood collectives in all forms (MPI 5.0, sections 8.6 to 8.9).
#include "mpi/abi/collective_plan.h"
#include "mpi/abi/define.h"
#include "mpi/topo/topology.h"

#include <span>

using namespace pomona;

namespace {

enum Form { allgather, allgatherv, alltoall, alltoallv };

// A blocking call among neighbors that may have been made before: its counts and displacements are
// lists, of as many as there are neighbors.
class NeighborCall {
public:
    NeighborCall(const char* f, MPI_Comm comm, Form form, MPI_Datatype send_type,
                 MPI_Datatype recv_type)
        : key_{.collective = coll::Collective::neighbor,
               .root = form,
               .send_count = CallKey::kListed,
               .recv_count = CallKey::kListed,
               .send_type = send_type,
               .recv_type = recv_type},
          call_(f, comm, key_, &lists_) {
        if (!process().open_to_all.load(std::memory_order_relaxed)) return;
        const Communicator* found = resolve(comm);
        topology_ = found ? found->topology.get() : nullptr;
    }
    void count(const MPI_Count& value) { lists_.add(std::as_bytes(std::span(&value, 1))); }
    template <class Value> void to_each(const Value* values) {
        list(values, topology_ ? topology_->destinations.size() : 0);
    }
    template <class Value> void from_each(const Value* values) {
        list(values, topology_ ? topology_->sources.size() : 0);
    }
    bool repeated(const void* send, void* recv) {  // nothing is in place among neighbors
        return topology_ && usable(send) && usable(send, recv) && call_.repeated(send, recv);
    }
    int error() const { return call_.error(); }
    int finish(CollectivePlan& plan, const void* send, void* recv) {
        return topology_ ? call_.finish(plan, send, recv) : finish_blocking(call_.function(), plan);
    }

private:
    template <class Value> void list(const Value* values, size_t number) {
        if (number == 0) return;
        if (!values) topology_ = nullptr;
        else lists_.add(std::as_bytes(std::span(values, number)));
    }

    CallLists lists_;
    const CallKey key_;
    BlockingCall call_;
    const Topology* topology_ = nullptr;  // null: it takes the long way
};

}  // namespace

// ---- blocking

POMONA_MPI(int, Neighbor_allgather_c, (const void* sendbuf, MPI_Count sendcount, MPI_Datatype
                                       sendtype, void* recvbuf, MPI_Count recvcount, MPI_Datatype
                                       recvtype, MPI_Comm comm)) {
    NeighborCall call(__func__, comm, allgather, sendtype, recvtype);
    call.count(sendcount), call.count(recvcount);
    if (call.repeated(sendbuf, recvbuf)) return call.error();
    CollectivePlan plan;
    if (int error = plan_neighbor(__func__, plan, {sendbuf, sendcount, sendtype},
                                  {recvbuf, recvcount, recvtype}, true, comm))
        return error;
    return call.finish(plan, sendbuf, recvbuf);
}

POMONA_MPI(int, Neighbor_allgatherv_c, (const void* sendbuf, MPI_Count sendcount, MPI_Datatype
                                        sendtype, void* recvbuf, const MPI_Count recvcounts[],
                                        const MPI_Aint displs[], MPI_Datatype recvtype, MPI_Comm
                                        comm)) {
    NeighborCall call(__func__, comm, allgatherv, sendtype, recvtype);
    call.count(sendcount), call.from_each(recvcounts), call.from_each(displs);
    if (call.repeated(sendbuf, recvbuf)) return call.error();
    CollectivePlan plan;
    if (int error = plan_neighbor_gatherv(__func__, plan, {sendbuf, sendcount, sendtype},
                                          {recvbuf, recvcounts, displs, recvtype, nullptr}, comm))
        return error;
    return call.finish(plan, sendbuf, recvbuf);
}

POMONA_MPI(int, Neighbor_alltoall_c, (const void* sendbuf, MPI_Count sendcount, MPI_Datatype
                                      sendtype, void* recvbuf, MPI_Count recvcount, MPI_Datatype
                                      recvtype, MPI_Comm comm)) {
    NeighborCall call(__func__, comm, alltoall, sendtype, recvtype);
    call.count(sendcount), call.count(recvcount);
    if (call.repeated(sendbuf, recvbuf)) return call.error();
    CollectivePlan plan;
    if (int error = plan_neighbor(__func__, plan, {sendbuf, sendcount, sendtype},
                                  {recvbuf, recvcount, recvtype}, false, comm))
        return error;
    return call.finish(plan, sendbuf, recvbuf);
}

POMONA_MPI(int, Neighbor_alltoallv_c, (const void* sendbuf, const MPI_Count sendcounts[], const
                                       MPI_Aint sdispls[], MPI_Datatype sendtype, void* recvbuf,
                                       const MPI_Count recvcounts[], const MPI_Aint rdispls[],
                                       MPI_Datatype recvtype, MPI_Comm comm)) {
    NeighborCall call(__func__, comm, alltoallv, sendtype, recvtype);
    call.to_each(sendcounts), call.to_each(sdispls);
    call.from_each(recvcounts), call.from_each(rdispls);
    if (call.repeated(sendbuf, recvbuf)) return call.error();
    CollectivePlan plan;
    if (int error = plan_neighbor_alltoallv(
            __func__, plan, {sendbuf, sendcounts, sdispls, sendtype, nullptr},
            {recvbuf, recvcounts, rdispls, recvtype, nullptr}, comm))
        return error;
    return call.finish(plan, sendbuf, recvbuf);
}

POMONA_MPI(int, Neighbor_alltoallw_c, (const void* sendbuf, const MPI_Count sendcounts[], const
                                       MPI_Aint sdispls[], const MPI_Datatype sendtypes[], void*
                                       recvbuf, const MPI_Count recvcounts[], const MPI_Aint
                                       rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm)) {
    CollectivePlan plan;
    if (int error = plan_neighbor_alltoallv(
            __func__, plan, {sendbuf, sendcounts, sdispls, nullptr, sendtypes},
            {recvbuf, recvcounts, rdispls, nullptr, recvtypes}, comm))
        return error;
    return finish_blocking(__func__, plan);
}

// ---- non-blocking

POMONA_MPI(int, Ineighbor_allgather_c, (const void* sendbuf, MPI_Count sendcount, MPI_Datatype
                                        sendtype, void* recvbuf, MPI_Count recvcount, MPI_Datatype
                                        recvtype, MPI_Comm comm, MPI_Request* request)) {
    CollectivePlan plan;
    if (int error = plan_neighbor(__func__, plan, {sendbuf, sendcount, sendtype},
                                  {recvbuf, recvcount, recvtype}, true, comm))
        return error;
    return finish_nonblocking(__func__, plan, request);
}

POMONA_MPI(int, Ineighbor_allgatherv_c, (const void* sendbuf, MPI_Count sendcount, MPI_Datatype
                                         sendtype, void* recvbuf, const MPI_Count recvcounts[],
                                         const MPI_Aint displs[], MPI_Datatype recvtype, MPI_Comm
                                         comm, MPI_Request* request)) {
    CollectivePlan plan;
    if (int error = plan_neighbor_gatherv(__func__, plan, {sendbuf, sendcount, sendtype},
                                          {recvbuf, recvcounts, displs, recvtype, nullptr}, comm))
        return error;
    return finish_nonblocking(__func__, plan, request);
}

POMONA_MPI(int, Ineighbor_alltoall_c, (const void* sendbuf, MPI_Count sendcount, MPI_Datatype
                                       sendtype, void* recvbuf, MPI_Count recvcount, MPI_Datatype
                                       recvtype, MPI_Comm comm, MPI_Request* request)) {
    CollectivePlan plan;
    if (int error = plan_neighbor(__func__, plan, {sendbuf, sendcount, sendtype},
                                  {recvbuf, recvcount, recvtype}, false, comm))
        return error;
    return finish_nonblocking(__func__, plan, request);
}

POMONA_MPI(int, Ineighbor_alltoallv_c, (const void* sendbuf, const MPI_Count sendcounts[], const
                                        MPI_Aint sdispls[], MPI_Datatype sendtype, void* recvbuf,
                                        const MPI_Count recvcounts[], const MPI_Aint rdispls[],
                                        MPI_Datatype recvtype, MPI_Comm comm, MPI_Request*
                                        request)) {
    CollectivePlan plan;
    if (int error = plan_neighbor_alltoallv(
            __func__, plan, {sendbuf, sendcounts, sdispls, sendtype, nullptr},
            {recvbuf, recvcounts, rdispls, recvtype, nullptr}, comm))
        return error;
    return finish_nonblocking(__func__, plan, request);
}

POMONA_MPI(int, Ineighbor_alltoallw_c, (const void* sendbuf, const MPI_Count sendcounts[], const
                                        MPI_Aint sdispls[], const MPI_Datatype sendtypes[], void*
                                        recvbuf, const MPI_Count recvcounts[], const MPI_Aint
                                        rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm,
                                        MPI_Request* request)) {
    CollectivePlan plan;
    if (int error = plan_neighbor_alltoallv(
            __func__, plan, {sendbuf, sendcounts, sdispls, nullptr, sendtypes},
            {recvbuf, recvcounts, rdispls, nullptr, recvtypes}, comm))
        return error;
    return finish_nonblocking(__func__, plan, request);
}

// ---- persistent

POMONA_MPI(int, Neighbor_allgather_init_c, (const void* sendbuf, MPI_Count sendcount, MPI_Datatype
                                            sendtype, void* recvbuf, MPI_Count recvcount,
                                            MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                                            MPI_Request* request)) {
    CollectivePlan plan;
    if (int error = plan_neighbor(__func__, plan, {sendbuf, sendcount, sendtype},
                                  {recvbuf, recvcount, recvtype}, true, comm))
        return error;
    return finish_persistent(__func__, plan, info, request);
}

POMONA_MPI(int, Neighbor_allgatherv_init_c, (const void* sendbuf, MPI_Count sendcount,
                                             MPI_Datatype sendtype, void* recvbuf, const MPI_Count
                                             recvcounts[], const MPI_Aint displs[], MPI_Datatype
                                             recvtype, MPI_Comm comm, MPI_Info info, MPI_Request*
                                             request)) {
    CollectivePlan plan;
    if (int error = plan_neighbor_gatherv(__func__, plan, {sendbuf, sendcount, sendtype},
                                          {recvbuf, recvcounts, displs, recvtype, nullptr}, comm))
        return error;
    return finish_persistent(__func__, plan, info, request);
}

POMONA_MPI(int, Neighbor_alltoall_init_c, (const void* sendbuf, MPI_Count sendcount, MPI_Datatype
                                           sendtype, void* recvbuf, MPI_Count recvcount,
                                           MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                                           MPI_Request* request)) {
    CollectivePlan plan;
    if (int error = plan_neighbor(__func__, plan, {sendbuf, sendcount, sendtype},
                                  {recvbuf, recvcount, recvtype}, false, comm))
        return error;
    return finish_persistent(__func__, plan, info, request);
}

POMONA_MPI(int, Neighbor_alltoallv_init_c, (const void* sendbuf, const MPI_Count sendcounts[],
                                            const MPI_Aint sdispls[], MPI_Datatype sendtype, void*
                                            recvbuf, const MPI_Count recvcounts[], const MPI_Aint
                                            rdispls[], MPI_Datatype recvtype, MPI_Comm comm,
                                            MPI_Info info, MPI_Request* request)) {
    CollectivePlan plan;
    if (int error = plan_neighbor_alltoallv(
            __func__, plan, {sendbuf, sendcounts, sdispls, sendtype, nullptr},
            {recvbuf, recvcounts, rdispls, recvtype, nullptr}, comm))
        return error;
    return finish_persistent(__func__, plan, info, request);
}

POMONA_MPI(int, Neighbor_alltoallw_init_c, (const void* sendbuf, const MPI_Count sendcounts[],
                                            const MPI_Aint sdispls[], const MPI_Datatype
                                            sendtypes[], void* recvbuf, const MPI_Count
                                            recvcounts[], const MPI_Aint rdispls[], const
                                            MPI_Datatype recvtypes[], MPI_Comm comm, MPI_Info
                                            info, MPI_Request* request)) {
    CollectivePlan plan;
    if (int error = plan_neighbor_alltoallv(
            __func__, plan, {sendbuf, sendcounts, sdispls, nullptr, sendtypes},
            {recvbuf, recvcounts, rdispls, nullptr, recvtypes}, comm))
        return error;
    return finish_persistent(__func__, plan, info, request);
}
