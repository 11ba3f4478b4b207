// tests/verbs/raw.h: one end of a queue pair that is used without Pomona, to compare with.
#pragma once

#include "btl/rdma/verbs.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <sched.h>
#include <string>
#include <unistd.h>
#include <vector>

namespace raw {

using namespace pomona;
using namespace pomona::rdma;

constexpr uint32_t kSlots = 16;
constexpr size_t kMemory = size_t{128} << 20;
constexpr size_t kMessage = 64 << 10;

[[noreturn]] inline void stop(const std::string& why) {
    std::fprintf(stderr, "%s\n", why.c_str());
    _exit(1);
}

struct Half {
    // Messages of so many bytes; each from, and to, the next place in `memory_used` bytes.
    Half(const std::string& name, size_t bytes, size_t memory_used, int out, int in)
        : device(open_library(), name), bytes(bytes), out(out), in(in) {
        Reason why;
        if (!device.open_now(why) || !memory.make(device, kMemory, why)) stop(why.text());
        const Library& library = device.library();
        queue = library.create_cq(device.context(), 4 * kSlots, nullptr, nullptr, 0);
        verbs::QpInitAttr asked{};
        asked.send_cq = asked.recv_cq = queue;
        asked.qp_type = verbs::kUc;
        slots = std::max<uint32_t>(1, std::min(kSlots, kLimits.frames_most / frames_of(bytes)));
        places = std::max<size_t>(slots, memory_used / stride());
        uint32_t frames = slots * frames_of(bytes);
        asked.cap = {frames, frames, 1, 1, 0};
        pair = library.create_qp(device.domain(), &asked);
        if (!pair) stop("there is no queue pair");
        connect(library);
        for (uint32_t slot = 0; slot < slots; ++slot) receive();
        barrier();
    }
    ~Half() {
        device.library().destroy_qp(pair);
        device.library().destroy_cq(queue);
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
    size_t stride() const { return (bytes + 4095) & ~size_t{4095}; }
    verbs::Sge place_of(uint64_t message, bool receives) {
        size_t from = receives ? 0 : kMemory / 2;
        return {reinterpret_cast<uint64_t>(memory.data() + from + message % places * stride()),
                static_cast<uint32_t>(bytes), memory.key()};
    }
    void receive() {
        verbs::Sge sge = place_of(posted++, true);
        verbs::RecvWr wr{0, nullptr, &sge, 1}, *bad;
        if (device.context()->ops.post_recv(pair, &wr, &bad) != 0) stop("no receive is taken");
    }
    void send() {
        verbs::Sge sge = place_of(given++, false);
        verbs::SendWr wr{}, *bad;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.opcode = verbs::kSend;
        wr.send_flags = verbs::kSignaled;
        if (device.context()->ops.post_send(pair, &wr, &bad) != 0) stop("no send is taken");
    }
    // The number of completions; what arrives is posted anew.
    int poll() {
        verbs::Wc done[8];
        int found = device.context()->ops.poll_cq(queue, 8, done);
        if (found < 0) stop("the device does not answer");
        for (int i = 0; i < found; ++i) {
            if (done[i].status != verbs::kSuccess) stop("a message has failed");
            if (done[i].opcode == verbs::kSent) ++sent;
            else ++arrived, receive();
        }
        return found;
    }
    // Until so many have arrived, and so many are sent.
    void wait(uint64_t arrived_goal, uint64_t sent_goal) {
        for (int empty = 0; arrived < arrived_goal || sent < sent_goal;)
            if (poll() == 0 && ++empty % 200 == 0) sched_yield();
    }
    Device device;
    Region memory;
    size_t bytes;
    int out, in;
    uint32_t slots = 0;
    size_t places = 0;
    verbs::Cq* queue = nullptr;
    verbs::Qp* pair = nullptr;
    uint64_t arrived = 0, sent = 0, posted = 0, given = 0;
};

inline double processor_now() {
    timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace raw
