// mpi/abi/collective.cc: blocking collectives (MPI 5.0, chapter 6). Arguments are decoded in
// mpi/abi/collective_plan.cc, which all forms share.
#include "mpi/abi/collective_plan.h"
#include "mpi/abi/define.h"

#include <algorithm>

using namespace pomona;
using coll::Collective;

// In place, the result is the input.
static const void* source(const void* send, const void* recv) {
    return send == MPI_IN_PLACE ? recv : send;
}

POMONA_MPI(int, Barrier, (MPI_Comm comm)) {
    CallKey key{};
    BlockingCall call(__func__, comm, key);
    if (call.repeated(nullptr, nullptr)) return call.error();
    CollectivePlan plan;
    if (int error = plan_barrier(__func__, plan, comm)) return error;
    return call.finish(plan);
}

POMONA_MPI(int, Bcast_c, (void* buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm
                          comm)) {
    CallKey key{
        .collective = Collective::bcast, .root = root, .recv_count = count, .recv_type = datatype};
    BlockingCall call(__func__, comm, key);
    if (usable(buffer) && call.repeated(buffer, buffer)) return call.error();
    CollectivePlan plan;
    if (int error = plan_bcast(__func__, plan, {buffer, count, datatype}, root, comm)) return error;
    return call.finish(plan);
}

POMONA_MPI(int, Reduce_c, (const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype
                           datatype, MPI_Op op, int root, MPI_Comm comm)) {
    CallKey key{.collective = Collective::reduce,
                .in_place = sendbuf == MPI_IN_PLACE,
                .root = root,
                .recv_count = count,
                .recv_type = datatype,
                .op = op};
    BlockingCall call(__func__, comm, key);
    if ((call.at(root) ? usable(sendbuf, recvbuf) : usable(sendbuf)) &&
        call.repeated(source(sendbuf, recvbuf), call.at(root) ? recvbuf : nullptr))
        return call.error();
    CollectivePlan plan;
    if (int error = plan_reduction(__func__, plan, coll::Collective::reduce, sendbuf,
                                   {recvbuf, count, datatype}, op, root, comm))
        return error;
    return call.finish(plan);
}

// MPI_Allreduce and the scans: everybody gives a vector and gets one.
[[gnu::always_inline]] static inline int reduce_for_all(const char* function, Collective collective,
                                                        const void* sendbuf, void* recvbuf,
                                                        MPI_Count count, MPI_Datatype datatype,
                                                        MPI_Op op, MPI_Comm comm) {
    CallKey key{.collective = collective,
                .in_place = sendbuf == MPI_IN_PLACE,
                .recv_count = count,
                .recv_type = datatype,
                .op = op};
    BlockingCall call(function, comm, key);
    if (usable(sendbuf, recvbuf) && call.repeated(source(sendbuf, recvbuf), recvbuf))
        return call.error();
    CollectivePlan plan;
    if (int error = plan_reduction(function, plan, collective, sendbuf, {recvbuf, count, datatype},
                                   op, 0, comm))
        return error;
    return call.finish(plan);
}

POMONA_MPI(int, Allreduce_c, (const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype,
MPI_Op op, MPI_Comm comm)) {
    return reduce_for_all(__func__, Collective::allreduce, sendbuf, recvbuf, count, datatype, op,
                          comm);
}

POMONA_MPI(int, Scan_c, (const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype,
MPI_Op op, MPI_Comm comm)) {
    return reduce_for_all(__func__, Collective::scan, sendbuf, recvbuf, count, datatype, op, comm);
}

POMONA_MPI(int, Exscan_c, (const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype,
MPI_Op op, MPI_Comm comm)) {
    return reduce_for_all(__func__, Collective::exscan, sendbuf, recvbuf, count, datatype, op,
                          comm);
}

// Blocks of one size: the call can be known.
static int reduce_scatter_block(const char* function, const void* sendbuf, void* recvbuf,
                                MPI_Count recvcount, MPI_Datatype datatype, MPI_Op op,
                                MPI_Comm comm) {
    CallKey key{.collective = Collective::reduce_scatter,
                .in_place = sendbuf == MPI_IN_PLACE,
                .recv_count = recvcount,
                .recv_type = datatype,
                .op = op};
    BlockingCall call(function, comm, key);
    if (usable(sendbuf, recvbuf) && call.repeated(source(sendbuf, recvbuf), recvbuf))
        return call.error();
    CollectivePlan plan;
    if (int error = plan_reduce_scatter(function, plan, sendbuf, {recvbuf, recvcount, datatype},
                                        nullptr, op, comm))
        return error;
    return call.finish(plan);
}

// The counts are the same on all ranks, so all come to one answer.
static bool all_equal(const MPI_Count counts[], MPI_Comm handle) {
    Communicator* comm = resolve(handle);
    if (!comm || comm->is_inter() || !counts || counts[0] < 0) return false;
    return std::all_of(counts, counts + comm->size(),
                       [&](MPI_Count each) { return each == counts[0]; });
}

POMONA_MPI(int, Reduce_scatter_c, (const void* sendbuf, void* recvbuf, const MPI_Count
                                   recvcounts[], MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)) {
    if (all_equal(recvcounts, comm))
        return reduce_scatter_block(__func__, sendbuf, recvbuf, recvcounts[0], datatype, op, comm);
    CallKey key{.collective = Collective::reduce_scatter,
                .in_place = sendbuf == MPI_IN_PLACE,
                .recv_count = CallKey::kListed,
                .recv_type = datatype,
                .op = op};
    CallLists lists;
    BlockingCall call(__func__, comm, key, &lists);
    call.list(recvcounts);
    if (usable(sendbuf, recvbuf) && call.repeated(source(sendbuf, recvbuf), recvbuf))
        return call.error();
    CollectivePlan plan;
    if (int error = plan_reduce_scatter(__func__, plan, sendbuf, {recvbuf, 0, datatype}, recvcounts,
                                        op, comm))
        return error;
    return call.finish(plan, source(sendbuf, recvbuf), recvbuf);
}

POMONA_MPI(int, Reduce_scatter_block_c, (const void* sendbuf, void* recvbuf, MPI_Count recvcount,
                                         MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)) {
    return reduce_scatter_block(__func__, sendbuf, recvbuf, recvcount, datatype, op, comm);
}

// Has it been repeated? In place only the root may be, of which one buffer is significant then.
static bool gathers(BlockingCall& call, int root, const void* send, void* recv) {
    bool right = call.at(root) ? usable(send, recv) : usable(send);
    return right && call.repeated(source(send, recv), call.at(root) ? recv : nullptr);
}
static void* scattered(const void* send, void* recv) {
    return recv == MPI_IN_PLACE ? const_cast<void*>(send) : recv;
}
static bool scatters(BlockingCall& call, int root, const void* send, void* recv) {
    bool right = call.at(root) ? usable(recv, send) : usable(recv);
    return right && call.repeated(call.at(root) ? send : nullptr, scattered(send, recv));
}

POMONA_MPI(int, Gather_c, (const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void*
                           recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm
                           comm)) {
    CallKey key{
        .collective = Collective::gather, .in_place = sendbuf == MPI_IN_PLACE, .root = root};
    BlockingCall call(__func__, comm, key);
    if (!key.in_place) key.send_count = sendcount, key.send_type = sendtype;
    if (call.at(root)) key.recv_count = recvcount, key.recv_type = recvtype;
    if (gathers(call, root, sendbuf, recvbuf)) return call.error();
    CollectivePlan plan;
    if (int error = plan_gather(__func__, plan, {sendbuf, sendcount, sendtype},
                                {recvbuf, recvcount, recvtype}, root, comm))
        return error;
    return call.finish(plan);
}

POMONA_MPI(int, Gatherv_c, (const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void*
                            recvbuf, const MPI_Count recvcounts[], const MPI_Aint displs[],
                            MPI_Datatype recvtype, int root, MPI_Comm comm)) {
    CallKey key{.collective = Collective::gather,
                .in_place = sendbuf == MPI_IN_PLACE,
                .root = root,
                .recv_count = CallKey::kListed};
    CallLists lists;
    BlockingCall call(__func__, comm, key, &lists);
    if (!key.in_place) key.send_count = sendcount, key.send_type = sendtype;
    if (call.at(root)) key.recv_type = recvtype, call.list(recvcounts), call.list(displs);
    if (gathers(call, root, sendbuf, recvbuf)) return call.error();
    CollectivePlan plan;
    if (int error = plan_gatherv(__func__, plan, {sendbuf, sendcount, sendtype},
                                 {recvbuf, recvcounts, displs, recvtype, nullptr}, root, comm))
        return error;
    return call.finish(plan, source(sendbuf, recvbuf), call.at(root) ? recvbuf : nullptr);
}

POMONA_MPI(int, Scatter_c, (const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void*
                            recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root,
                            MPI_Comm comm)) {
    CallKey key{
        .collective = Collective::scatter, .in_place = recvbuf == MPI_IN_PLACE, .root = root};
    BlockingCall call(__func__, comm, key);
    if (call.at(root)) key.send_count = sendcount, key.send_type = sendtype;
    if (!key.in_place) key.recv_count = recvcount, key.recv_type = recvtype;
    if (scatters(call, root, sendbuf, recvbuf)) return call.error();
    CollectivePlan plan;
    if (int error = plan_scatter(__func__, plan, {sendbuf, sendcount, sendtype},
                                 {recvbuf, recvcount, recvtype}, root, comm))
        return error;
    return call.finish(plan);
}

POMONA_MPI(int, Scatterv_c, (const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint
                             displs[], MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount,
                             MPI_Datatype recvtype, int root, MPI_Comm comm)) {
    CallKey key{.collective = Collective::scatter,
                .in_place = recvbuf == MPI_IN_PLACE,
                .root = root,
                .send_count = CallKey::kListed};
    CallLists lists;
    BlockingCall call(__func__, comm, key, &lists);
    if (call.at(root)) key.send_type = sendtype, call.list(sendcounts), call.list(displs);
    if (!key.in_place) key.recv_count = recvcount, key.recv_type = recvtype;
    if (scatters(call, root, sendbuf, recvbuf)) return call.error();
    CollectivePlan plan;
    if (int error = plan_scatterv(__func__, plan, {sendbuf, sendcounts, displs, sendtype, nullptr},
                                  {recvbuf, recvcount, recvtype}, root, comm))
        return error;
    return call.finish(plan, call.at(root) ? sendbuf : nullptr, scattered(sendbuf, recvbuf));
}

POMONA_MPI(int, Allgather_c, (const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                              void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm
                              comm)) {
    CallKey key{.collective = Collective::allgather,
                .in_place = sendbuf == MPI_IN_PLACE,
                .send_count = sendcount,
                .recv_count = recvcount,
                .send_type = sendtype,
                .recv_type = recvtype};
    BlockingCall call(__func__, comm, key);
    if (usable(sendbuf, recvbuf) && call.repeated(source(sendbuf, recvbuf), recvbuf))
        return call.error();
    CollectivePlan plan;
    if (int error = plan_allgather(__func__, plan, {sendbuf, sendcount, sendtype},
                                   {recvbuf, recvcount, recvtype}, comm))
        return error;
    return call.finish(plan);
}

POMONA_MPI(int, Allgatherv_c, (const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                               void* recvbuf, const MPI_Count recvcounts[], const MPI_Aint
                               displs[], MPI_Datatype recvtype, MPI_Comm comm)) {
    CallKey key{.collective = Collective::allgather,
                .in_place = sendbuf == MPI_IN_PLACE,
                .recv_count = CallKey::kListed,
                .recv_type = recvtype};
    CallLists lists;
    BlockingCall call(__func__, comm, key, &lists);
    if (!key.in_place) key.send_count = sendcount, key.send_type = sendtype;
    call.list(recvcounts), call.list(displs);
    if (usable(sendbuf, recvbuf) && call.repeated(source(sendbuf, recvbuf), recvbuf))
        return call.error();
    CollectivePlan plan;
    if (int error = plan_allgatherv(__func__, plan, {sendbuf, sendcount, sendtype},
                                    {recvbuf, recvcounts, displs, recvtype, nullptr}, comm))
        return error;
    return call.finish(plan, source(sendbuf, recvbuf), recvbuf);
}

POMONA_MPI(int, Alltoall_c, (const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                             void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm
                             comm)) {
    CallKey key{.collective = Collective::alltoall,
                .in_place = sendbuf == MPI_IN_PLACE,
                .send_count = sendcount,
                .recv_count = recvcount,
                .send_type = sendtype,
                .recv_type = recvtype};
    BlockingCall call(__func__, comm, key);
    if (usable(sendbuf, recvbuf) && call.repeated(source(sendbuf, recvbuf), recvbuf))
        return call.error();
    CollectivePlan plan;
    if (int error = plan_alltoall(__func__, plan, {sendbuf, sendcount, sendtype},
                                  {recvbuf, recvcount, recvtype}, comm))
        return error;
    return call.finish(plan);
}

POMONA_MPI(int, Alltoallv_c, (const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint
                              sdispls[], MPI_Datatype sendtype, void* recvbuf, const MPI_Count
                              recvcounts[], const MPI_Aint rdispls[], MPI_Datatype recvtype,
                              MPI_Comm comm)) {
    CallKey key{.collective = Collective::alltoall,
                .in_place = sendbuf == MPI_IN_PLACE,
                .recv_count = CallKey::kListed,
                .recv_type = recvtype};
    CallLists lists;
    BlockingCall call(__func__, comm, key, &lists);
    if (!key.in_place) key.send_type = sendtype, call.list(sendcounts), call.list(sdispls);
    call.list(recvcounts), call.list(rdispls);
    if (usable(sendbuf, recvbuf) && call.repeated(source(sendbuf, recvbuf), recvbuf))
        return call.error();
    CollectivePlan plan;
    if (int error =
            plan_alltoallv(__func__, plan, {sendbuf, sendcounts, sdispls, sendtype, nullptr},
                           {recvbuf, recvcounts, rdispls, recvtype, nullptr}, comm))
        return error;
    return call.finish(plan, source(sendbuf, recvbuf), recvbuf);
}

POMONA_MPI(int, Alltoallw_c, (const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint
                              sdispls[], const MPI_Datatype sendtypes[], void* recvbuf, const
                              MPI_Count recvcounts[], const MPI_Aint rdispls[], const MPI_Datatype
                              recvtypes[], MPI_Comm comm)) {
    CollectivePlan plan;
    if (int error =
            plan_alltoallv(__func__, plan, {sendbuf, sendcounts, sdispls, nullptr, sendtypes},
                           {recvbuf, recvcounts, rdispls, nullptr, recvtypes}, comm))
        return error;
    return finish_blocking(__func__, plan);
}
