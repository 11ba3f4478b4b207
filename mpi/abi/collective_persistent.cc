// mpi/abi/collective_persistent.cc: persistent collectives (MPI 5.0, section 6.13).
#include "mpi/abi/collective_plan.h"
#include "mpi/abi/define.h"

using namespace pomona;

POMONA_MPI(int, Barrier_init, (MPI_Comm comm, MPI_Info info, MPI_Request* request)) {
    CollectivePlan plan;
    if (int error = plan_barrier(__func__, plan, comm)) return error;
    return finish_persistent(__func__, plan, info, request);
}

POMONA_MPI(int, Bcast_init_c, (void* buffer, MPI_Count count, MPI_Datatype datatype, int root,
                               MPI_Comm comm, MPI_Info info, MPI_Request* request)) {
    CollectivePlan plan;
    if (int error = plan_bcast(__func__, plan, {buffer, count, datatype}, root, comm)) return error;
    return finish_persistent(__func__, plan, info, request);
}

POMONA_MPI(int, Reduce_init_c, (const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype
                                datatype, MPI_Op op, int root, MPI_Comm comm, MPI_Info info,
                                MPI_Request* request)) {
    CollectivePlan plan;
    if (int error = plan_reduction(__func__, plan, coll::Collective::reduce, sendbuf,
                                   {recvbuf, count, datatype}, op, root, comm))
        return error;
    return finish_persistent(__func__, plan, info, request);
}

POMONA_MPI(int, Allreduce_init_c, (const void* sendbuf, void* recvbuf, MPI_Count count,
                                   MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Info info,
                                   MPI_Request* request)) {
    CollectivePlan plan;
    if (int error = plan_reduction(__func__, plan, coll::Collective::allreduce, sendbuf,
                                   {recvbuf, count, datatype}, op, 0, comm))
        return error;
    return finish_persistent(__func__, plan, info, request);
}

POMONA_MPI(int, Scan_init_c, (const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype
                              datatype, MPI_Op op, MPI_Comm comm, MPI_Info info, MPI_Request*
                              request)) {
    CollectivePlan plan;
    if (int error = plan_reduction(__func__, plan, coll::Collective::scan, sendbuf,
                                   {recvbuf, count, datatype}, op, 0, comm))
        return error;
    return finish_persistent(__func__, plan, info, request);
}

POMONA_MPI(int, Exscan_init_c, (const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype
                                datatype, MPI_Op op, MPI_Comm comm, MPI_Info info, MPI_Request*
                                request)) {
    CollectivePlan plan;
    if (int error = plan_reduction(__func__, plan, coll::Collective::exscan, sendbuf,
                                   {recvbuf, count, datatype}, op, 0, comm))
        return error;
    return finish_persistent(__func__, plan, info, request);
}

POMONA_MPI(int, Reduce_scatter_init_c, (const void* sendbuf, void* recvbuf, const MPI_Count
                                        recvcounts[], MPI_Datatype datatype, MPI_Op op, MPI_Comm
                                        comm, MPI_Info info, MPI_Request* request)) {
    CollectivePlan plan;
    if (int error = plan_reduce_scatter(__func__, plan, sendbuf, {recvbuf, 0, datatype}, recvcounts,
                                        op, comm))
        return error;
    return finish_persistent(__func__, plan, info, request);
}

POMONA_MPI(int, Reduce_scatter_block_init_c, (const void* sendbuf, void* recvbuf, MPI_Count
                                              recvcount, MPI_Datatype datatype, MPI_Op op,
                                              MPI_Comm comm, MPI_Info info, MPI_Request* request)) {
    CollectivePlan plan;
    if (int error = plan_reduce_scatter(__func__, plan, sendbuf, {recvbuf, recvcount, datatype},
                                        nullptr, op, comm))
        return error;
    return finish_persistent(__func__, plan, info, request);
}

POMONA_MPI(int, Gather_init_c, (const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int
                                root, MPI_Comm comm, MPI_Info info, MPI_Request* request)) {
    CollectivePlan plan;
    if (int error = plan_gather(__func__, plan, {sendbuf, sendcount, sendtype},
                                {recvbuf, recvcount, recvtype}, root, comm))
        return error;
    return finish_persistent(__func__, plan, info, request);
}

POMONA_MPI(int, Gatherv_init_c, (const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                 void* recvbuf, const MPI_Count recvcounts[], const MPI_Aint
                                 displs[], MPI_Datatype recvtype, int root, MPI_Comm comm,
                                 MPI_Info info, MPI_Request* request)) {
    CollectivePlan plan;
    if (int error = plan_gatherv(__func__, plan, {sendbuf, sendcount, sendtype},
                                 {recvbuf, recvcounts, displs, recvtype, nullptr}, root, comm))
        return error;
    return finish_persistent(__func__, plan, info, request);
}

POMONA_MPI(int, Scatter_init_c, (const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                 void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int
                                 root, MPI_Comm comm, MPI_Info info, MPI_Request* request)) {
    CollectivePlan plan;
    if (int error = plan_scatter(__func__, plan, {sendbuf, sendcount, sendtype},
                                 {recvbuf, recvcount, recvtype}, root, comm))
        return error;
    return finish_persistent(__func__, plan, info, request);
}

POMONA_MPI(int, Scatterv_init_c, (const void* sendbuf, const MPI_Count sendcounts[], const
                                  MPI_Aint displs[], MPI_Datatype sendtype, void* recvbuf,
                                  MPI_Count recvcount, MPI_Datatype recvtype, int root, MPI_Comm
                                  comm, MPI_Info info, MPI_Request* request)) {
    CollectivePlan plan;
    if (int error = plan_scatterv(__func__, plan, {sendbuf, sendcounts, displs, sendtype, nullptr},
                                  {recvbuf, recvcount, recvtype}, root, comm))
        return error;
    return finish_persistent(__func__, plan, info, request);
}

POMONA_MPI(int, Allgather_init_c, (const void* sendbuf, MPI_Count sendcount, MPI_Datatype
                                   sendtype, void* recvbuf, MPI_Count recvcount, MPI_Datatype
                                   recvtype, MPI_Comm comm, MPI_Info info, MPI_Request* request)) {
    CollectivePlan plan;
    if (int error = plan_allgather(__func__, plan, {sendbuf, sendcount, sendtype},
                                   {recvbuf, recvcount, recvtype}, comm))
        return error;
    return finish_persistent(__func__, plan, info, request);
}

POMONA_MPI(int, Allgatherv_init_c, (const void* sendbuf, MPI_Count sendcount, MPI_Datatype
                                    sendtype, void* recvbuf, const MPI_Count recvcounts[], const
                                    MPI_Aint displs[], MPI_Datatype recvtype, MPI_Comm comm,
                                    MPI_Info info, MPI_Request* request)) {
    CollectivePlan plan;
    if (int error = plan_allgatherv(__func__, plan, {sendbuf, sendcount, sendtype},
                                    {recvbuf, recvcounts, displs, recvtype, nullptr}, comm))
        return error;
    return finish_persistent(__func__, plan, info, request);
}

POMONA_MPI(int, Alltoall_init_c, (const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                  void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
                                  MPI_Comm comm, MPI_Info info, MPI_Request* request)) {
    CollectivePlan plan;
    if (int error = plan_alltoall(__func__, plan, {sendbuf, sendcount, sendtype},
                                  {recvbuf, recvcount, recvtype}, comm))
        return error;
    return finish_persistent(__func__, plan, info, request);
}

POMONA_MPI(int, Alltoallv_init_c, (const void* sendbuf, const MPI_Count sendcounts[], const
                                   MPI_Aint sdispls[], MPI_Datatype sendtype, void* recvbuf, const
                                   MPI_Count recvcounts[], const MPI_Aint rdispls[], MPI_Datatype
                                   recvtype, MPI_Comm comm, MPI_Info info, MPI_Request* request)) {
    CollectivePlan plan;
    if (int error =
            plan_alltoallv(__func__, plan, {sendbuf, sendcounts, sdispls, sendtype, nullptr},
                           {recvbuf, recvcounts, rdispls, recvtype, nullptr}, comm))
        return error;
    return finish_persistent(__func__, plan, info, request);
}

POMONA_MPI(int, Alltoallw_init_c, (const void* sendbuf, const MPI_Count sendcounts[], const
                                   MPI_Aint sdispls[], const MPI_Datatype sendtypes[], void*
                                   recvbuf, const MPI_Count recvcounts[], const MPI_Aint
                                   rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm,
                                   MPI_Info info, MPI_Request* request)) {
    CollectivePlan plan;
    if (int error =
            plan_alltoallv(__func__, plan, {sendbuf, sendcounts, sdispls, nullptr, sendtypes},
                           {recvbuf, recvcounts, rdispls, nullptr, recvtypes}, comm))
        return error;
    return finish_persistent(__func__, plan, info, request);
}
