// mpi/runtime/inter_schedule.cc: direct exchanges between two groups.
// Idea: every process talks to those of the other group that its data concerns, without detours;
// intercommunicators are used for control far more than for bulk data.
// Cost: for n local and m remote processes, allreduce: m (a + n b) + (m-1) n g; the others alike.
#include "mpi/runtime/inter_schedule.h"

#include "coll/builder.h"

#include <algorithm>

namespace pomona {

using coll::Builder;
using coll::Collective;
using coll::Region;

namespace {

// Receives everybody's `bytes` and reduces them in rank order; the result's place.
Region receive_and_reduce(Builder& b, int remote, size_t bytes) {
    Region sum = b.scratch(bytes);
    b.recv(0, sum);
    for (int peer = 1; peer < remote; ++peer) {
        Region next = b.scratch(bytes);
        b.recv(peer, next);
        b.reduce(sum, next, sum);
    }
    return sum;
}

void exchange_all(Builder& b, const coll::Shape& s, int remote) {
    for (int peer = 0; peer < remote; ++peer) {
        coll::Block in = s.input_block(peer), out = s.result_block(peer);
        b.recv(peer, b.result(out.offset, out.length));
        b.send(peer, b.input(in.offset, in.length));
    }
}

}  // namespace

void build_inter_schedule(CollectivePlan& plan) {
    const coll::Shape& s = plan.shape;
    int remote = plan.comm->remote_size();
    coll::Shape wide = s;  // room for peers of the larger group
    wide.size = std::max(plan.comm->size(), remote);
    wide.root = 0;
    Builder b(wide);
    bool root = s.root == MPI_ROOT, leaf = s.root >= 0;
    size_t bytes = s.bytes();
    switch (s.collective) {
    case Collective::barrier:
        for (int peer = 0; peer < remote; ++peer) b.signal(peer), b.await(peer);
        break;
    case Collective::bcast:
        if (root)
            for (int peer = 0; peer < remote; ++peer) b.send(peer, b.input(0, bytes));
        else if (leaf) b.recv(s.root, b.result(0, bytes));
        break;
    case Collective::gather:
        if (root)
            for (int peer = 0; peer < remote; ++peer) {
                coll::Block block = s.result_block(peer);
                b.recv(peer, b.result(block.offset, block.length));
            }
        else if (leaf) b.send(s.root, b.input(0, bytes));
        break;
    case Collective::scatter:
        if (root)
            for (int peer = 0; peer < remote; ++peer) {
                coll::Block block = s.input_block(peer);
                b.send(peer, b.input(block.offset, block.length));
            }
        else if (leaf) b.recv(s.root, b.result(0, bytes));
        break;
    case Collective::reduce:
        if (root && bytes) b.copy(receive_and_reduce(b, remote, bytes), b.result(0, bytes));
        else if (leaf) b.send(s.root, b.input(0, bytes));
        break;
    case Collective::allreduce:
        for (int peer = 0; peer < remote; ++peer) b.send(peer, b.input(0, bytes));
        if (bytes) b.copy(receive_and_reduce(b, remote, bytes), b.result(0, bytes));
        break;
    case Collective::reduce_scatter: {
        // The other group's division is not known here, so each gets the whole and takes its part.
        size_t total = s.input_blocks.back().offset + s.input_blocks.back().length;
        for (int peer = 0; peer < remote; ++peer) b.send(peer, b.input(0, total));
        if (total == 0) break;
        Region sum = receive_and_reduce(b, remote, total);
        coll::Block own = s.input_blocks[static_cast<size_t>(s.rank)];
        b.copy(sum.slice(own.offset, own.length), b.result(0, own.length));
        break;
    }
    case Collective::allgather:
        for (int peer = 0; peer < remote; ++peer) {
            coll::Block block = s.result_block(peer);
            b.recv(peer, b.result(block.offset, block.length));
            b.send(peer, b.input(0, s.bytes()));
        }
        break;
    case Collective::alltoall: exchange_all(b, s, remote); break;
    default: never("A collective that intercommunicators do not have");
    }
    plan.own_schedule = std::make_shared<const coll::Schedule>(b.finish());
}

}  // namespace pomona
