// mpi/abi/neighbor.cc: neighborhood collectives in all forms (MPI 5.0, sections 8.6 to 8.9).
#include "mpi/abi/collective_plan.h"
#include "mpi/abi/define.h"

using namespace pomona;

// ---- blocking

POMONA_MPI(int, Neighbor_allgather_c, (const void* sendbuf, MPI_Count sendcount, MPI_Datatype
                                       sendtype, void* recvbuf, MPI_Count recvcount, MPI_Datatype
                                       recvtype, MPI_Comm comm)) {
    CollectivePlan plan;
    if (int error = plan_neighbor(__func__, plan, {sendbuf, sendcount, sendtype},
                                  {recvbuf, recvcount, recvtype}, true, comm))
        return error;
    return finish_blocking(__func__, plan);
}

POMONA_MPI(int, Neighbor_allgatherv_c, (const void* sendbuf, MPI_Count sendcount, MPI_Datatype
                                        sendtype, void* recvbuf, const MPI_Count recvcounts[],
                                        const MPI_Aint displs[], MPI_Datatype recvtype, MPI_Comm
                                        comm)) {
    CollectivePlan plan;
    if (int error = plan_neighbor_gatherv(__func__, plan, {sendbuf, sendcount, sendtype},
                                          {recvbuf, recvcounts, displs, recvtype, nullptr}, comm))
        return error;
    return finish_blocking(__func__, plan);
}

POMONA_MPI(int, Neighbor_alltoall_c, (const void* sendbuf, MPI_Count sendcount, MPI_Datatype
                                      sendtype, void* recvbuf, MPI_Count recvcount, MPI_Datatype
                                      recvtype, MPI_Comm comm)) {
    CollectivePlan plan;
    if (int error = plan_neighbor(__func__, plan, {sendbuf, sendcount, sendtype},
                                  {recvbuf, recvcount, recvtype}, false, comm))
        return error;
    return finish_blocking(__func__, plan);
}

POMONA_MPI(int, Neighbor_alltoallv_c, (const void* sendbuf, const MPI_Count sendcounts[], const
                                       MPI_Aint sdispls[], MPI_Datatype sendtype, void* recvbuf,
                                       const MPI_Count recvcounts[], const MPI_Aint rdispls[],
                                       MPI_Datatype recvtype, MPI_Comm comm)) {
    CollectivePlan plan;
    if (int error = plan_neighbor_alltoallv(
            __func__, plan, {sendbuf, sendcounts, sdispls, sendtype, nullptr},
            {recvbuf, recvcounts, rdispls, recvtype, nullptr}, comm))
        return error;
    return finish_blocking(__func__, plan);
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
