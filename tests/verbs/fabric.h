// tests/verbs/fabric.h: what the fake verbs library's processes share: the devices of all
// "machines", their queue pairs, and the faults that a test has asked for.
// Idea: DIR/fabric is one mapped file; DIR/wires-N holds the bytes that are on their way to device
// N, a ring for each queue pair. Whoever sends writes into the ring of the receiver's queue pair;
// the receiver's poll_cq copies from there to where its receives were posted.
//
// DIR/cables says what there is:
//   cable MACHINE DEVICE MACHINE DEVICE
// and any of the commands below, which fake_control() takes, too. MACHINE and DEVICE may be `*`.
//   port M D up|down         one end; `pull M D` and `plug M D`: both ends of its cable
//   lose M D, find M D       the device vanishes, and comes back
//   gids M D on|off          its table of addresses is empty, as it is for minutes on some Macs;
//            local|self|late what is in there: the link-local one alone; an IPv4 one that the system
//                            took for itself, which tells nothing of the cable; the IPv4 one behind
//                            an empty place
//   regions M D on|off       memory can be registered
//   stuck M D on|off         nothing that was made of it is given back
//   reliable M D on|off      it has reliable connections alone, as some of Linux's devices
//   stall M D on|off         what it sends stays where it is
//   drop M D N               of each 1000 messages that it sends; likewise duplicate, reorder, corrupt
//   message_most M D BYTES   longer ones never arrive, and nobody is told
//   too_long M D failed|lost what becomes of these: they end with an error, and their queue pair with
//                            them; lost: as above
//   deep M D N              a queue pair with more than so many long messages on their way sends no
//                           more
//   hang M D CALL|off       this one of the library's calls (kCalls) does not return, until it is off
//   granted M D FRAMES       a queue pair has so many at the most, whatever was asked for
//   latency M D NS           what it sends is there so much later at the earliest; 0: at once
//   rate M D BYTES           it sends so many bytes in a microsecond at most; 0: as quickly as it can
//   engine M D on|off        from when it is opened on, it moves bytes by a thread of its own, as
//                            hardware does, and not within the library's calls
//   hold M D on|off          a send without a posted receive waits (as credits in Apple's hardware do)
//                            instead of being lost
#pragma once

#include "btl/rdma/limits.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

namespace fake {

inline constexpr int kDevicesMost = 64;
// Devices deliver to what was posted without the receiver: so much is posted, and more.
inline constexpr size_t kRing = 2 << 20;
inline constexpr int kGids = 4;

// Those that may hang: not those for messages.
inline constexpr const char* kCalls[] = {
    "off",           "ibv_get_device_list", "ibv_open_device", "ibv_close_device", "ibv_query_port",
    "ibv_query_gid", "ibv_alloc_pd",        "ibv_dealloc_pd",  "ibv_reg_mr",       "ibv_dereg_mr",
    "ibv_create_cq", "ibv_destroy_cq",      "ibv_create_qp",   "ibv_destroy_qp",   "ibv_modify_qp",
    "ibv_query_qp"};

enum class Gids : uint32_t { none, usual, local, self, late };

struct QueuePairSlot {
    std::atomic<int32_t> owner;        // process; 0: free
    std::atomic<uint32_t> generation;  // of its users; a part of its number
    std::atomic<uint32_t> state;
    std::atomic<uint32_t> peer;                   // number of the one that it is connected to
    std::atomic<uint64_t> long_begun, long_read;  // messages of more than one frame
    alignas(128) std::atomic<uint64_t> posted;    // receives, ever
    alignas(128) std::atomic<uint64_t> taken;     // of these, by messages on their way or arrived
    alignas(
        128) std::atomic<uint64_t> head[2];  // bytes written to its ring, by generation's parity
    alignas(128) std::atomic<uint64_t> tail[2];  // bytes read
};

struct DeviceState {
    char name[64];
    int32_t machine;
    int32_t other;  // the device at the cable's other end
    int32_t cable;
    int32_t end;
    std::atomic<uint32_t> port_up, lost, regions, stall, hold, reliable, too_long_fails, engine;
    std::atomic<uint32_t> stuck;
    std::atomic<uint32_t> hang;     // which of kCalls
    std::atomic<uint32_t> granted;  // frames of a queue pair
    std::atomic<uint32_t> deep;     // long messages of one
    std::atomic<Gids> gids;
    std::atomic<uint32_t> drop, duplicate, reorder, corrupt;  // of 1000
    std::atomic<uint64_t> message_most;
    std::atomic<uint64_t> latency, rate;  // nanoseconds, bytes in a microsecond
    std::atomic<int64_t> sends_until;     // with all that it has been given, by the clock
    std::atomic<int32_t> region_owner[pomona::rdma::kLimits.regions];
    QueuePairSlot queue_pairs[pomona::rdma::kLimits.queue_pairs];
    // What happened, for tests.
    std::atomic<uint64_t> refused;    // queue pairs, of which there was none left
    std::atomic<uint64_t> too_early;  // calls to destroy what something else still stood on
    std::atomic<uint64_t> messages, bytes, no_receive, mismatched, dropped, duplicated, reordered,
        corrupted;
};

struct Fabric {
    std::atomic<uint32_t> ready;
    int32_t devices;
    DeviceState device[kDevicesMost];
};

// Maps DIR/fabric, and makes it from DIR/cables where it is not there. Null: `why` says why not.
Fabric* open_fabric(const std::string& directory, std::string& why);
// Does what a command says; false when it is none.
bool control(Fabric& fabric, const std::string& command);
std::array<uint8_t, 16> gid_of(const DeviceState& device, int index);  // zeros: there is none
bool has_gid(const DeviceState& device, const std::array<uint8_t, 16>& gid);

}  // namespace fake
