// mpi/abi/collective_plan.cc: what each collective call checks and decodes, but of neighbors.
#include "mpi/abi/collective_planner.h"

namespace pomona {

int plan_barrier(const char* f, CollectivePlan& plan, MPI_Comm comm) {
    PLAN(Collective::barrier);
    return MPI_SUCCESS;
}

int plan_bcast(const char* f, CollectivePlan& plan, RecvSide data, int root, MPI_Comm comm) {
    PLAN(Collective::bcast);
    Datatype* type;
    STEP(root(root));
    if (!p.takes_part()) return MPI_SUCCESS;
    STEP(count(data.count, "count"));
    STEP(type(data.type, "datatype", type));
    STEP(buffer(data.buffer, data.count, *type, "buffer"));
    if (plan.check) plan.check->give_alike(*type, data.count);
    plan.shape.count = static_cast<size_t>(data.count * type->size());
    // The root only reads, the others only write the same buffer.
    if (p.is_root()) {
        p.bind_input(data.buffer, data.count, *type);
        plan.result = const_cast<void*>(plan.input);
    } else {
        p.bind_result(data.buffer, data.count, *type);
        plan.input = plan.result;
    }
    plan.one_buffer = true;
    return MPI_SUCCESS;
}

int plan_reduction(const char* f, CollectivePlan& plan, Collective collective, const void* send,
                   RecvSide data, MPI_Op op, int root, MPI_Comm comm) {
    PLAN(collective);
    Datatype* type;
    bool rooted = collective == Collective::reduce;
    bool scanning = collective == Collective::scan || collective == Collective::exscan;
    if (scanning && p.inter())
        return fail(f, p.comm, MPI_ERR_COMM, "scans are not defined on intercommunicators");
    if (rooted) STEP(root(root));
    if (rooted && !p.takes_part()) return MPI_SUCCESS;
    STEP(count(data.count, "count"));
    STEP(type(data.type, "datatype", type));
    STEP(operation(op, *type));
    if (plan.check) plan.check->give_alike(*type, data.count);
    bool sends = !rooted || p.is_leaf();
    if (sends) STEP(no_in_place(send));
    bool receives = !rooted || p.is_root();
    bool in_place = send == MPI_IN_PLACE && receives && sends;
    if (!in_place && sends) STEP(buffer(send, data.count, *type, "sendbuf"));
    if (receives) STEP(buffer(data.buffer, data.count, *type, "recvbuf"));
    if (receives && sends && !p.inter()) STEP(distinct(send, data.buffer, data.count));
    plan.shape.count = static_cast<size_t>(data.count);
    p.bind_reduction(in_place || !sends ? nullptr : send, data.count,
                     receives ? data.buffer : nullptr, data.count, in_place);
    return MPI_SUCCESS;
}

int plan_reduce_scatter(const char* f, CollectivePlan& plan, const void* send, RecvSide data,
                        Counts_c counts, MPI_Op op, MPI_Comm comm) {
    PLAN(Collective::reduce_scatter);
    Datatype* type;
    int size = p.comm->size();
    if (!counts) STEP(count(data.count, "recvcount"));
    STEP(type(data.type, "datatype", type));
    STEP(operation(op, *type));
    STEP(no_in_place(send));
    MPI_Count total = 0, own = data.count;
    size_t element = plan.shape.element;
    for (int rank = 0; rank < size; ++rank) {
        MPI_Count each = counts ? counts[rank] : data.count;
        STEP(count(each, "recvcounts"));
        STEP(fits(each, size, *type, "recvcounts"));
        if (plan.check && !p.inter()) plan.check->give_alike(*type, each);
        plan.input_blocks.push_back(
            {static_cast<size_t>(total) * element, static_cast<size_t>(each) * element});
        if (rank == p.comm->rank()) own = each;
        total += each;
    }
    plan.shape.irregular = counts != nullptr;
    plan.shape.count = static_cast<size_t>(own);
    if (counts || p.inter()) plan.shape.input_blocks = plan.input_blocks;
    bool in_place = send == MPI_IN_PLACE;
    if (!in_place) STEP(buffer(send, total, *type, "sendbuf"));
    STEP(buffer(data.buffer, own, *type, "recvbuf"));
    if (!p.inter()) STEP(distinct(send, data.buffer, own));
    p.bind_reduction(in_place ? nullptr : send, total, data.buffer, own, in_place);
    return MPI_SUCCESS;
}

int plan_gather(const char* f, CollectivePlan& plan, SendSide send, RecvSide recv, int root,
                MPI_Comm comm) {
    PLAN(Collective::gather);
    Datatype* type;
    STEP(root(root));
    if (p.is_leaf()) STEP(no_in_place(send.buffer));
    bool in_place = send.buffer == MPI_IN_PLACE && p.is_root() && p.is_leaf();
    if (p.is_root()) {
        STEP(recv_side(recv, p.partners(), type));
        if (plan.check) plan.check->receive(*type, recv.count);
    }
    if (in_place) {
        p.in_place_from_result();
    } else if (p.is_leaf()) {
        STEP(send_side(send, 1, type));
        if (plan.check) plan.check->send(*type, send.count, root);
    }
    if (p.is_root() && !in_place) STEP(result_apart());
    return MPI_SUCCESS;
}

int plan_gatherv(const char* f, CollectivePlan& plan, SendSide send, RecvBlocks recv, int root,
                 MPI_Comm comm) {
    PLAN(Collective::gather);
    Datatype* type;
    plan.shape.irregular = true;
    STEP(root(root));
    if (p.is_leaf()) STEP(no_in_place(send.buffer));
    bool in_place = send.buffer == MPI_IN_PLACE && p.is_root() && p.is_leaf();
    if (p.is_root()) STEP(recv_blocks(recv, p.partners()));
    if (in_place) {
        p.in_place_from_result();
    } else if (p.is_leaf()) {
        STEP(send_side(send, 1, type));
        if (plan.check) plan.check->send(*type, send.count, root);
    }
    if (p.is_root() && !in_place) STEP(result_apart());
    if (in_place) plan.shape.count = plan.result_blocks[static_cast<size_t>(p.comm->rank())].length;
    return MPI_SUCCESS;
}

int plan_scatter(const char* f, CollectivePlan& plan, SendSide send, RecvSide recv, int root,
                 MPI_Comm comm) {
    PLAN(Collective::scatter);
    Datatype* type;
    STEP(root(root));
    if (p.is_leaf()) STEP(no_in_place(recv.buffer));
    bool in_place = recv.buffer == MPI_IN_PLACE && p.is_root() && p.is_leaf();
    if (!in_place && p.is_leaf()) {
        STEP(recv_side(recv, 1, type));
        if (plan.check) plan.check->receive(*type, recv.count, root);
    }
    if (p.is_root()) {
        STEP(send_side(send, p.partners(), type));
        if (plan.check) plan.check->send(*type, send.count);
    }
    if (p.is_root() && !in_place) STEP(input_apart());
    if (in_place) p.in_place_from_input();
    return MPI_SUCCESS;
}

int plan_scatterv(const char* f, CollectivePlan& plan, SendBlocks send, RecvSide recv, int root,
                  MPI_Comm comm) {
    PLAN(Collective::scatter);
    Datatype* type;
    plan.shape.irregular = true;
    STEP(root(root));
    if (p.is_leaf()) STEP(no_in_place(recv.buffer));
    bool in_place = recv.buffer == MPI_IN_PLACE && p.is_root() && p.is_leaf();
    if (!in_place && p.is_leaf()) {
        STEP(recv_side(recv, 1, type));
        if (plan.check) plan.check->receive(*type, recv.count, root);
    }
    if (p.is_root()) STEP(send_blocks(send, p.partners()));
    if (p.is_root() && !in_place) STEP(input_apart());
    if (in_place) {
        p.in_place_from_input();
        plan.shape.count = plan.input_blocks[static_cast<size_t>(p.comm->rank())].length;
    }
    return MPI_SUCCESS;
}

int plan_allgather(const char* f, CollectivePlan& plan, SendSide send, RecvSide recv,
                   MPI_Comm comm) {
    PLAN(Collective::allgather);
    Datatype* type;
    STEP(no_in_place(send.buffer));
    STEP(recv_side(recv, p.partners(), type));
    if (plan.check) plan.check->receive(*type, recv.count);
    if (send.buffer == MPI_IN_PLACE && plan.check) plan.check->send(*type, recv.count);
    if (send.buffer == MPI_IN_PLACE) return p.in_place_from_result(), MPI_SUCCESS;
    size_t theirs = plan.shape.count;
    STEP(send_side(send, 1, type));
    if (plan.check) plan.check->send(*type, send.count);
    STEP(result_apart());
    if (p.inter()) {
        // The groups' contributions may differ in length.
        for (int rank = 0; rank < p.partners(); ++rank)
            plan.result_blocks.push_back({static_cast<size_t>(rank) * theirs, theirs});
        plan.shape.result_blocks = plan.result_blocks;
    }
    return MPI_SUCCESS;
}

int plan_allgatherv(const char* f, CollectivePlan& plan, SendSide send, RecvBlocks recv,
                    MPI_Comm comm) {
    PLAN(Collective::allgather);
    Datatype* type;
    plan.shape.irregular = true;
    STEP(no_in_place(send.buffer));
    STEP(recv_blocks(recv, p.partners()));
    if (send.buffer == MPI_IN_PLACE) {
        p.in_place_from_result();
    } else {
        STEP(send_side(send, 1, type));
        if (plan.check) plan.check->send(*type, send.count);
    }
    if (send.buffer != MPI_IN_PLACE) STEP(result_apart());
    if (!p.inter())
        plan.shape.count = plan.result_blocks[static_cast<size_t>(p.comm->rank())].length;
    return MPI_SUCCESS;
}

int plan_alltoall(const char* f, CollectivePlan& plan, SendSide send, RecvSide recv,
                  MPI_Comm comm) {
    PLAN(Collective::alltoall);
    Datatype* type;
    STEP(no_in_place(send.buffer));
    STEP(recv_side(recv, p.partners(), type));
    if (plan.check) plan.check->receive(*type, recv.count);
    if (send.buffer == MPI_IN_PLACE && plan.check) plan.check->send(*type, recv.count);
    if (send.buffer == MPI_IN_PLACE) return p.in_place_from_result(), MPI_SUCCESS;
    size_t theirs = plan.shape.count;
    STEP(send_side(send, p.partners(), type));
    if (plan.check) plan.check->send(*type, send.count);
    STEP(apart(plan.input, plan.result, 0, plan.shape.count));
    if (p.inter() && theirs != plan.shape.count) {
        for (int rank = 0; rank < p.partners(); ++rank)
            plan.result_blocks.push_back({static_cast<size_t>(rank) * theirs, theirs});
        plan.shape.result_blocks = plan.result_blocks;
    }
    return MPI_SUCCESS;
}

int plan_alltoallv(const char* f, CollectivePlan& plan, SendBlocks send, RecvBlocks recv,
                   MPI_Comm comm) {
    PLAN(Collective::alltoall);
    plan.shape.irregular = true;
    STEP(no_in_place(send.buffer));
    STEP(recv_blocks(recv, p.partners()));
    if (send.buffer != MPI_IN_PLACE) {
        if (int e = p.send_blocks(send, p.partners())) return e;
        return p.apart(send.buffer, recv.buffer, 0, total_bytes(plan.result_blocks));
    }
    p.in_place_from_result();
    if (plan.check) plan.check->sends = plan.check->receives;
    plan.input_blocks = plan.result_blocks;
    plan.shape.input_blocks = plan.input_blocks;
    return MPI_SUCCESS;
}

}  // namespace pomona
