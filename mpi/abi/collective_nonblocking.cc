// mpi/abi/collective_nonblocking.cc: non-blocking collectives (MPI 5.0, section 6.12).
#include "mpi/abi/collective_plan.h"
#include "mpi/abi/define.h"

using namespace pomona;

POMONA_MPI(int, Ibarrier, (MPI_Comm comm, MPI_Request* request)) {
    CollectivePlan plan;
    if (int error = plan_barrier(__func__, plan, comm)) return error;
    return finish_nonblocking(__func__, plan, request);
}

POMONA_MPI(int, Ibcast_c, (void* buffer, MPI_Count count, MPI_Datatype datatype, int root,
                           MPI_Comm comm, MPI_Request* request)) {
    CollectivePlan plan;
    if (int error = plan_bcast(__func__, plan, {buffer, count, datatype}, root, comm)) return error;
    return finish_nonblocking(__func__, plan, request);
}

POMONA_MPI(int, Ireduce_c, (const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype
                            datatype, MPI_Op op, int root, MPI_Comm comm, MPI_Request* request)) {
    CollectivePlan plan;
    if (int error = plan_reduction(__func__, plan, coll::Collective::reduce, sendbuf,
                                   {recvbuf, count, datatype}, op, root, comm))
        return error;
    return finish_nonblocking(__func__, plan, request);
}

POMONA_MPI(int, Iallreduce_c, (const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype
                               datatype, MPI_Op op, MPI_Comm comm, MPI_Request* request)) {
    CollectivePlan plan;
    if (int error = plan_reduction(__func__, plan, coll::Collective::allreduce, sendbuf,
                                   {recvbuf, count, datatype}, op, 0, comm))
        return error;
    return finish_nonblocking(__func__, plan, request);
}

POMONA_MPI(int, Iscan_c, (const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype
                          datatype, MPI_Op op, MPI_Comm comm, MPI_Request* request)) {
    CollectivePlan plan;
    if (int error = plan_reduction(__func__, plan, coll::Collective::scan, sendbuf,
                                   {recvbuf, count, datatype}, op, 0, comm))
        return error;
    return finish_nonblocking(__func__, plan, request);
}

POMONA_MPI(int, Iexscan_c, (const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype
                            datatype, MPI_Op op, MPI_Comm comm, MPI_Request* request)) {
    CollectivePlan plan;
    if (int error = plan_reduction(__func__, plan, coll::Collective::exscan, sendbuf,
                                   {recvbuf, count, datatype}, op, 0, comm))
        return error;
    return finish_nonblocking(__func__, plan, request);
}

POMONA_MPI(int, Ireduce_scatter_c, (const void* sendbuf, void* recvbuf, const MPI_Count
                                    recvcounts[], MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
                                    MPI_Request* request)) {
    CollectivePlan plan;
    if (int error = plan_reduce_scatter(__func__, plan, sendbuf, {recvbuf, 0, datatype}, recvcounts,
                                        op, comm))
        return error;
    return finish_nonblocking(__func__, plan, request);
}

POMONA_MPI(int, Ireduce_scatter_block_c, (const void* sendbuf, void* recvbuf, MPI_Count recvcount,
                                          MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
                                          MPI_Request* request)) {
    CollectivePlan plan;
    if (int error = plan_reduce_scatter(__func__, plan, sendbuf, {recvbuf, recvcount, datatype},
                                        nullptr, op, comm))
        return error;
    return finish_nonblocking(__func__, plan, request);
}

POMONA_MPI(int, Igather_c, (const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void*
                            recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root,
                            MPI_Comm comm, MPI_Request* request)) {
    CollectivePlan plan;
    if (int error = plan_gather(__func__, plan, {sendbuf, sendcount, sendtype},
                                {recvbuf, recvcount, recvtype}, root, comm))
        return error;
    return finish_nonblocking(__func__, plan, request);
}

POMONA_MPI(int, Igatherv_c, (const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                             void* recvbuf, const MPI_Count recvcounts[], const MPI_Aint displs[],
                             MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Request*
                             request)) {
    CollectivePlan plan;
    if (int error = plan_gatherv(__func__, plan, {sendbuf, sendcount, sendtype},
                                 {recvbuf, recvcounts, displs, recvtype, nullptr}, root, comm))
        return error;
    return finish_nonblocking(__func__, plan, request);
}

POMONA_MPI(int, Iscatter_c, (const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                             void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root,
                             MPI_Comm comm, MPI_Request* request)) {
    CollectivePlan plan;
    if (int error = plan_scatter(__func__, plan, {sendbuf, sendcount, sendtype},
                                 {recvbuf, recvcount, recvtype}, root, comm))
        return error;
    return finish_nonblocking(__func__, plan, request);
}

POMONA_MPI(int, Iscatterv_c, (const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint
                              displs[], MPI_Datatype sendtype, void* recvbuf, MPI_Count recvcount,
                              MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Request*
                              request)) {
    CollectivePlan plan;
    if (int error = plan_scatterv(__func__, plan, {sendbuf, sendcounts, displs, sendtype, nullptr},
                                  {recvbuf, recvcount, recvtype}, root, comm))
        return error;
    return finish_nonblocking(__func__, plan, request);
}

POMONA_MPI(int, Iallgather_c, (const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                               void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm
                               comm, MPI_Request* request)) {
    CollectivePlan plan;
    if (int error = plan_allgather(__func__, plan, {sendbuf, sendcount, sendtype},
                                   {recvbuf, recvcount, recvtype}, comm))
        return error;
    return finish_nonblocking(__func__, plan, request);
}

POMONA_MPI(int, Iallgatherv_c, (const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                void* recvbuf, const MPI_Count recvcounts[], const MPI_Aint
                                displs[], MPI_Datatype recvtype, MPI_Comm comm, MPI_Request*
                                request)) {
    CollectivePlan plan;
    if (int error = plan_allgatherv(__func__, plan, {sendbuf, sendcount, sendtype},
                                    {recvbuf, recvcounts, displs, recvtype, nullptr}, comm))
        return error;
    return finish_nonblocking(__func__, plan, request);
}

POMONA_MPI(int, Ialltoall_c, (const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                              void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm
                              comm, MPI_Request* request)) {
    CollectivePlan plan;
    if (int error = plan_alltoall(__func__, plan, {sendbuf, sendcount, sendtype},
                                  {recvbuf, recvcount, recvtype}, comm))
        return error;
    return finish_nonblocking(__func__, plan, request);
}

POMONA_MPI(int, Ialltoallv_c, (const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint
                               sdispls[], MPI_Datatype sendtype, void* recvbuf, const MPI_Count
                               recvcounts[], const MPI_Aint rdispls[], MPI_Datatype recvtype,
                               MPI_Comm comm, MPI_Request* request)) {
    CollectivePlan plan;
    if (int error =
            plan_alltoallv(__func__, plan, {sendbuf, sendcounts, sdispls, sendtype, nullptr},
                           {recvbuf, recvcounts, rdispls, recvtype, nullptr}, comm))
        return error;
    return finish_nonblocking(__func__, plan, request);
}

POMONA_MPI(int, Ialltoallw_c, (const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint
                               sdispls[], const MPI_Datatype sendtypes[], void* recvbuf, const
                               MPI_Count recvcounts[], const MPI_Aint rdispls[], const
                               MPI_Datatype recvtypes[], MPI_Comm comm, MPI_Request* request)) {
    CollectivePlan plan;
    if (int error =
            plan_alltoallv(__func__, plan, {sendbuf, sendcounts, sdispls, nullptr, sendtypes},
                           {recvbuf, recvcounts, rdispls, nullptr, recvtypes}, comm))
        return error;
    return finish_nonblocking(__func__, plan, request);
}
