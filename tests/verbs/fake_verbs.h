// tests/verbs/fake_verbs.h: the objects behind the fake verbs library's handles.
// Idea: post_send and poll_cq move bytes between queue pairs of processes through the rings of
// fabric.h, as far as there is room and there are posted receives. What is posted leaves a device
// without further calls: a thread moves what has waited for a while. A device with an engine has a
// thread that moves all: it copies without the mutex, and holds `moving` meanwhile.
// With a rate or a latency bytes move as soon as they can, and what is modelled is when a message
// counts as sent and as arrived, so that the time for copying lies within.
#pragma once

#include "btl/rdma/verbs_abi.h"
#include "tests/verbs/fabric.h"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace fake {

namespace verbs = pomona::verbs;

struct ListedDevice {
    verbs::Device handle{};  // first: a handle is a pointer to it
    int number = 0;
};

struct QueuePair;

struct Context {
    verbs::Context handle{};
    DeviceState* device = nullptr;
    int number = 0;
    std::byte* wires = nullptr;  // of this device
    std::recursive_mutex mutex;
    std::vector<struct Region*> regions;
    int domains = 0, queues = 0;  // that stand
    std::minstd_rand random;
    // The thread that sends what waits, with the mutex held; from the first such message on.
    std::vector<QueuePair*> pairs;
    std::thread sender;
    std::condition_variable_any wake;
    bool sender_sleeps = false;
    std::atomic<bool> ends = false;
    bool engine = false;
    std::mutex moving;                // locked before `mutex`
    std::atomic<int> wait_moving{0};  // for it, beside the engine
    std::thread mover;
    ~Context();
};

struct Pd {
    verbs::Pd handle{};
};

struct Region {
    verbs::Mr handle{};
    int slot = 0;
};

struct CompletionQueue {
    verbs::Cq handle{};
    std::deque<verbs::Wc> ready;
    std::vector<QueuePair*> users;
    bool overrun = false;
};

// What a posted send has become.
struct Leaving {
    uint64_t wr_id = 0;
    const std::byte* data = nullptr;
    size_t length = 0;
    std::vector<std::byte> own{};  // a copy, where a fault changes it; `data` points into it
    uint32_t frames = 0;           // of the send queue
    uint32_t key = 0;              // of the region that it was posted from
    bool completes = true;
    bool begun = false;
    size_t done = 0;
    int64_t ends = 0;  // by the clock; 0: at once
};

struct Posted {
    uint64_t wr_id;
    std::byte* to;
    size_t length;
    uint32_t key;
};

// Before each message in a ring.
struct RingHead {
    uint64_t length;
    int64_t due;  // it is there, by the clock; 0: at once
};

struct QueuePair {
    verbs::Qp handle{};
    QueuePairSlot* slot = nullptr;
    int index = 0;
    uint32_t generation = 0;
    verbs::QpCap cap{};
    uint32_t receive_frames = 0, send_frames = 0;  // taken of the queues
    std::deque<Leaving> leaving;
    std::deque<Leaving> timed;  // written, and not sent yet by the clock
    std::vector<Leaving> late;  // overtaken by the next ones
    std::deque<Posted> posted;
    // Being received.
    bool receiving = false;
    size_t length = 0, received = 0;
    int64_t due = 0;
    bool fits = false;
    bool stuck = false;  // it had too many long messages
    // For the engine to do, which takes the mutex only where there is something.
    std::atomic<bool> failing = false, given = false;
    // The other end.
    QueuePairSlot* peer = nullptr;
    uint32_t peer_generation = 0;
    DeviceState* peer_device = nullptr;
    std::byte* peer_wires = nullptr;
};

// Numbers of queue pairs: 14 bits of the generation, 6 of the device, 4 of the slot.
inline uint32_t number_of(int device, int slot, uint32_t generation) {
    return (generation & 0x3fff) << 10 | static_cast<uint32_t>(device) << 4 |
           static_cast<uint32_t>(slot);
}

extern Fabric* fabric;
extern std::string& directory;
std::byte* map_wires(int device);  // each ring twice, one behind the other: nothing wraps
inline std::byte* ring_of(std::byte* wires, int slot, uint32_t generation) {
    return wires + (static_cast<size_t>(slot) * 2 + (generation & 1)) * 2 * kRing;
}
inline Context& context_of(verbs::Context* handle) { return *reinterpret_cast<Context*>(handle); }

void progress(QueuePair& pair);
void run_engine(Context& context);
// Nothing moves, and nobody else calls, while it stands.
class Standstill {
public:
    explicit Standstill(Context& context) : context_(context) {
        if (context.engine) {
            ++context.wait_moving;
            context.moving.lock();
            --context.wait_moving;
        }
        context.mutex.lock();
    }
    ~Standstill() {
        context_.mutex.unlock();
        if (context_.engine) context_.moving.unlock();
    }
    Standstill(const Standstill&) = delete;
    Standstill& operator=(const Standstill&) = delete;

private:
    Context& context_;
};
// With the context's mutex held: something may wait.
void send_later(Context& context);
void complete(verbs::Cq* queue, QueuePair& pair, uint64_t wr_id, verbs::WcStatus status,
              verbs::WcOpcode opcode, size_t length);
void flush_all(QueuePair& pair);
// Something is posted that lies in this memory.
bool uses(const QueuePair& pair, const Region& region);
int post_send(verbs::Qp* pair, verbs::SendWr* wr, verbs::SendWr** bad);
int post_receive(verbs::Qp* pair, verbs::RecvWr* wr, verbs::RecvWr** bad);
int poll(verbs::Cq* queue, int entries, verbs::Wc* out);

}  // namespace fake
