// mpi/abi/neighbor_plan.cc: what collective calls among neighbors of a topology check and decode.
#include "mpi/abi/collective_planner.h"

#include "mpi/topo/topology.h"

namespace pomona {

namespace {

int neighbors(Planner& p, const Topology*& topology) {
    topology = p.comm->topology.get();
    if (!topology) return fail(p.f, p.comm, MPI_ERR_TOPOLOGY, "the communicator has no topology");
    return MPI_SUCCESS;
}

// The positions of the neighbors that exist, in the order in which messages are matched. In a
// Cartesian grid what goes up arrives from below: with both neighbors the same process (dimension
// of 1 or 2) the order of sends decides, so destinations go by pairs (up, down), sources (down,
// up).
std::vector<int> present(const Topology& topology, const std::vector<int>& ranks,
                         bool destinations) {
    std::vector<int> order;
    bool swap = destinations && topology.kind == MPI_CART;
    for (int i = 0; i < static_cast<int>(ranks.size()); ++i) {
        int position = swap ? i ^ 1 : i;
        if (ranks[static_cast<size_t>(position)] != MPI_PROC_NULL) order.push_back(position);
    }
    return order;
}

void keep_present(Planner& p, const Topology& topology, std::vector<Planner::Decoded>& send,
                  std::vector<Planner::Decoded>& recv) {
    std::vector<Planner::Decoded> kept;
    for (int position : present(topology, topology.destinations, true)) {
        p.plan.destinations.push_back(topology.destinations[static_cast<size_t>(position)]);
        kept.push_back(send[static_cast<size_t>(position)]);
    }
    send.swap(kept);
    kept.clear();
    for (int position : present(topology, topology.sources, false)) {
        p.plan.sources.push_back(topology.sources[static_cast<size_t>(position)]);
        kept.push_back(recv[static_cast<size_t>(position)]);
    }
    recv.swap(kept);
    p.shape.destinations = p.plan.destinations;
    p.shape.sources = p.plan.sources;
    p.shape.irregular = true;
}

int bind_neighbors(Planner& p, const Topology& topology, const void* send_buffer,
                   std::vector<Planner::Decoded>& send, void* recv_buffer,
                   std::vector<Planner::Decoded>& recv) {
    keep_present(p, topology, send, recv);
    if (int e = p.check_blocks(send_buffer, send, "sendbuf")) return e;
    if (int e = p.check_blocks(recv_buffer, recv, "recvbuf")) return e;
    p.bind_send_blocks(send_buffer, send);
    return p.bind_recv_blocks(recv_buffer, recv);
}

}  // namespace

int plan_neighbor(const char* f, CollectivePlan& plan, SendSide send, RecvSide recv, bool gather,
                  MPI_Comm comm) {
    PLAN(Collective::neighbor);
    const Topology* topology;
    Datatype *send_type, *recv_type;
    if (int e = neighbors(p, topology)) return e;
    STEP(count(send.count, "sendcount"));
    STEP(count(recv.count, "recvcount"));
    STEP(type(send.type, "sendtype", send_type));
    STEP(type(recv.type, "recvtype", recv_type));
    auto to = static_cast<MPI_Count>(topology->destinations.size());
    auto from = static_cast<MPI_Count>(topology->sources.size());
    STEP(fits(send.count, gather ? 1 : to, *send_type, "sendcount"));
    STEP(fits(recv.count, from, *recv_type, "recvcount"));
    std::vector<Planner::Decoded> out, in;
    for (size_t i = 0; i < topology->destinations.size(); ++i)
        out.push_back({send.count,
                       gather ? 0 : static_cast<MPI_Aint>(i) * send.count * send_type->extent(),
                       send_type});
    for (size_t i = 0; i < topology->sources.size(); ++i)
        in.push_back(
            {recv.count, static_cast<MPI_Aint>(i) * recv.count * recv_type->extent(), recv_type});
    return bind_neighbors(p, *topology, send.buffer, out, recv.buffer, in);
}

int plan_neighbor_gatherv(const char* f, CollectivePlan& plan, SendSide send, RecvBlocks recv,
                          MPI_Comm comm) {
    PLAN(Collective::neighbor);
    const Topology* topology;
    Datatype* send_type;
    if (int e = neighbors(p, topology)) return e;
    STEP(count(send.count, "sendcount"));
    STEP(type(send.type, "sendtype", send_type));
    std::vector<Planner::Decoded> out(topology->destinations.size(), {send.count, 0, send_type}),
        in;
    STEP(decode_blocks(recv.counts, recv.displs, recv.type, recv.types, "recv",
                       static_cast<int>(topology->sources.size()), in));
    return bind_neighbors(p, *topology, send.buffer, out, recv.buffer, in);
}

int plan_neighbor_alltoallv(const char* f, CollectivePlan& plan, SendBlocks send, RecvBlocks recv,
                            MPI_Comm comm) {
    PLAN(Collective::neighbor);
    const Topology* topology;
    if (int e = neighbors(p, topology)) return e;
    std::vector<Planner::Decoded> out, in;
    STEP(decode_blocks(send.counts, send.displs, send.type, send.types, "send",
                       static_cast<int>(topology->destinations.size()), out));
    STEP(decode_blocks(recv.counts, recv.displs, recv.type, recv.types, "recv",
                       static_cast<int>(topology->sources.size()), in));
    return bind_neighbors(p, *topology, send.buffer, out, recv.buffer, in);
}

}  // namespace pomona
