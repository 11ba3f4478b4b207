// tests/verbs/raw_bench.cc: verbs_bench: what the verbs library itself does, between two processes:
// half round trips and bandwidth, one line a size. For tests/bench/rdma.py, which puts Pomona's
// figures beside them.
// Usage: verbs_bench DEVICE PEER SECONDS, by tests/programs/rdma.sh BUILD 2 1.
#include "btl/base/clock.h"
#include "btl/base/format.h"
#include "btl/rdma/verbs.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sched.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace pomona;
using namespace pomona::rdma;

namespace {

constexpr uint32_t kSlots = 16;
constexpr size_t kMemory = size_t{64} << 20;

[[noreturn]] void stop(const std::string& why) {
    std::fprintf(stderr, "verbs_bench: %s\n", why.c_str());
    _exit(1);
}

struct Half {
    Half(const std::string& name, size_t bytes, int out, int in)
        : device(open_library(), name), bytes(bytes), out(out), in(in) {
        Reason why;
        if (!device.open(why) || !memory.make(device, kMemory, why)) stop(why.text());
        const Library& library = device.library();
        queue = library.create_cq(device.context(), 4 * kSlots, nullptr, nullptr, 0);
        verbs::QpInitAttr asked{};
        asked.send_cq = asked.recv_cq = queue;
        asked.qp_type = verbs::kUc;
        slots = std::max<uint32_t>(1, std::min(kSlots, kLimits.frames_most / frames_of(bytes)));
        uint32_t frames = slots * frames_of(bytes);
        asked.cap = {frames, frames, 1, 1, 0};
        pair = library.create_qp(device.domain(), &asked);
        if (!pair) stop("there is no queue pair");
        connect(library);
        for (uint32_t slot = 0; slot < slots; ++slot) receive(slot);
        barrier();
    }
    static std::shared_ptr<Library> open_library() {
        std::string why;
        auto library = Library::open(why);
        if (!library) stop(why);
        return library;
    }
    void connect(const Library& library) {
        struct Place {
            GidBytes gid;
            uint32_t number;
        } own{}, theirs{};
        verbs::PortAttr port;
        Reason why;
        if (!device.port(port, why)) stop(why.text());
        int index = device.find_gid(port, own.gid);
        own.number = pair->qp_num;
        if (write(out, &own, sizeof own) != sizeof own ||
            read(in, &theirs, sizeof theirs) != sizeof theirs)
            stop("the other process has ended");
        verbs::QpAttr attr{};
        attr.qp_state = verbs::kInit;
        attr.port_num = 1;
        library.modify_qp(pair, &attr,
                          verbs::kMaskState | verbs::kMaskPort | verbs::kMaskPkey |
                              verbs::kMaskAccess);
        attr.qp_state = verbs::kRtr;
        attr.path_mtu = port.active_mtu;
        attr.dest_qp_num = theirs.number;
        attr.ah_attr.is_global = 1;
        attr.ah_attr.port_num = 1;
        attr.ah_attr.grh.sgid_index = static_cast<uint8_t>(index);
        attr.ah_attr.grh.hop_limit = 64;
        std::memcpy(attr.ah_attr.grh.dgid.raw, theirs.gid.data(), theirs.gid.size());
        int mask = verbs::kMaskState | verbs::kMaskAv | verbs::kMaskMtu | verbs::kMaskPeer |
                   verbs::kMaskRqPsn;
        if (library.modify_qp(pair, &attr, mask) != 0) stop("the other end is not reached");
        attr.qp_state = verbs::kRts;
        library.modify_qp(pair, &attr, verbs::kMaskState | verbs::kMaskSqPsn);
    }
    void barrier() {
        char byte = 0;
        if (write(out, &byte, 1) != 1 || read(in, &byte, 1) != 1)
            stop("the other process has ended");
    }
    verbs::Sge slot_at(uint32_t slot, bool receives) {
        size_t stride = (bytes + 4095) & ~size_t{4095};
        size_t from = receives ? 0 : kMemory / 2;
        return {reinterpret_cast<uint64_t>(memory.data() + from + slot * stride),
                static_cast<uint32_t>(bytes), memory.key()};
    }
    void receive(uint32_t slot) {
        verbs::Sge sge = slot_at(slot, true);
        verbs::RecvWr wr{slot, nullptr, &sge, 1}, *bad;
        if (device.context()->ops.post_recv(pair, &wr, &bad) != 0) stop("no receive is taken");
    }
    void send(uint32_t slot) {
        verbs::Sge sge = slot_at(slot, false);
        verbs::SendWr wr{}, *bad;
        wr.wr_id = slot;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.opcode = verbs::kSend;
        wr.send_flags = verbs::kSignaled;
        if (device.context()->ops.post_send(pair, &wr, &bad) != 0) stop("no send is taken");
    }
    // Until so many have arrived, and so many are sent; what arrives is posted anew.
    void wait(uint64_t arrived_goal, uint64_t sent_goal) {
        verbs::Wc done[8];
        for (int empty = 0; arrived < arrived_goal || sent < sent_goal;) {
            int found = device.context()->ops.poll_cq(queue, 8, done);
            if (found < 0) stop("the device does not answer");
            if (found == 0 && ++empty % 200 == 0) sched_yield();
            for (int i = 0; i < found; ++i) {
                if (done[i].status != verbs::kSuccess) stop("a message has failed");
                if (done[i].opcode == verbs::kSent) ++sent;
                else ++arrived, receive(static_cast<uint32_t>(done[i].wr_id));
            }
        }
    }
    Device device;
    Region memory;
    size_t bytes;
    int out, in;
    uint32_t slots = 0;
    verbs::Cq* queue = nullptr;
    verbs::Qp* pair = nullptr;
    uint64_t arrived = 0, sent = 0;
};

double seconds_now() { return static_cast<double>(RealClock().now()) * 1e-9; }

// Half a round trip in microseconds, the quickest batch.
double ping_pong(Half& half, bool leads, uint64_t rounds) {
    double best = 1e9;
    for (int batch = 0; batch < 20; ++batch) {
        double begin = seconds_now();
        for (uint64_t i = 0; i < rounds / 20; ++i) {
            uint64_t goal = half.arrived + 1;
            if (leads) half.send(0);
            half.wait(goal, 0);
            if (!leads) half.send(0);
        }
        best = std::min(best, (seconds_now() - begin) / static_cast<double>(rounds / 20) / 2 * 1e6);
    }
    return best;
}

// GB/s from one to the other, the quickest of some batches.
double stream(Half& half, bool leads, uint64_t messages) {
    double best = 0;
    for (int batch = 0; batch < 10; ++batch) {
        half.barrier();
        double begin = seconds_now();
        if (leads) {
            uint64_t before = half.sent;
            for (uint64_t i = 0; i < messages; ++i) {
                if (i >= half.slots) half.wait(0, before + i + 1 - half.slots);
                half.send(static_cast<uint32_t>(i % half.slots));
            }
            half.wait(0, before + messages);
        } else {
            half.wait(half.arrived + messages, 0);
        }
        half.barrier();
        double took = seconds_now() - begin;
        best = std::max(best, static_cast<double>(messages * half.bytes) / took * 1e-9);
    }
    return best;
}

void measure(const std::string& name, int out, int in, bool leads, double share) {
    {
        Half half(name, 8, out, in);
        double us = ping_pong(half, leads, static_cast<uint64_t>(4000 * share));
        if (leads) std::printf("latency 8 %.4f\n", us);
    }
    for (size_t bytes : {size_t{64} << 10, size_t{128} << 10, size_t{512} << 10, size_t{1} << 20}) {
        Half half(name, bytes, out, in);
        auto messages = static_cast<uint64_t>(share * 4e7) / bytes + 1;
        double rate = stream(half, leads, messages);
        if (leads) std::printf("bandwidth %zu %.4f\n", bytes, rate);
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 4) stop("usage: verbs_bench DEVICE PEER EFFORT");
    int to_child[2], to_parent[2];
    if (pipe(to_child) != 0 || pipe(to_parent) != 0) stop("there is no pipe");
    double share = std::atof(argv[3]);
    pid_t child = fork();
    if (child == 0) {
        measure(argv[2], to_parent[1], to_child[0], false, share);
        _exit(0);
    }
    measure(argv[1], to_child[1], to_parent[0], true, share);
    std::fflush(stdout);
    int status = 0;
    waitpid(child, &status, 0);
    return status == 0 ? 0 : 1;
}
