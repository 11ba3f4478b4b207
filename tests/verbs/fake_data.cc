// tests/verbs/fake_data.cc: the fake verbs library's messages: posting, moving, completing.
#include "tests/verbs/fake_verbs.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <sched.h>
#include <utility>

namespace fake {

using namespace pomona::rdma;
using namespace verbs;

static constexpr size_t kChunk = 64 << 10;

static int64_t clock_now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

void complete(Cq* handle, QueuePair& pair, uint64_t wr_id, WcStatus status, WcOpcode opcode,
              size_t length) {
    auto& queue = *reinterpret_cast<CompletionQueue*>(handle);
    if (queue.ready.size() >= static_cast<size_t>(queue.handle.cqe)) {
        queue.overrun = true;
        return;
    }
    Wc done{};
    done.wr_id = wr_id;
    done.status = status;
    done.opcode = opcode;
    done.byte_len = static_cast<uint32_t>(length);
    done.qp_num = pair.handle.qp_num;
    queue.ready.push_back(done);
}

void flush_all(QueuePair& pair) {
    for (Posted& each : pair.posted)
        complete(pair.handle.recv_cq, pair, each.wr_id, kFlushed, kReceived, 0);
    for (auto* list : {&pair.timed, &pair.leaving})
        for (Leaving& each : *list)
            if (each.completes) complete(pair.handle.send_cq, pair, each.wr_id, kFlushed, kSent, 0);
    pair.posted.clear();
    pair.leaving.clear();
    pair.timed.clear();
    pair.late.clear();
    pair.receive_frames = pair.send_frames = 0;
}

bool uses(const QueuePair& pair, const Region& region) {
    auto lies_there = [&](const auto& each) { return each.key == region.handle.lkey; };
    return std::any_of(pair.posted.begin(), pair.posted.end(), lies_there) ||
           std::any_of(pair.leaving.begin(), pair.leaving.end(), lies_there) ||
           std::any_of(pair.timed.begin(), pair.timed.end(), lies_there);
}

static void fail(QueuePair& pair) {
    pair.failing = false;
    pair.handle.state = kError;
    pair.slot->state = kError;
    flush_all(pair);
}

// What a caller of the library has found; an engine may have begun with what would be flushed.
static void fail_soon(QueuePair& pair) {
    if (context_of(pair.handle.context).engine) pair.failing = true;
    else fail(pair);
}

static void copy_bytes(Context& context, void* to, const void* from, size_t length) {
    if (context.engine) context.mutex.unlock();
    std::memcpy(to, from, length);
    if (context.engine) context.mutex.lock();
}

static const Region* region_with(const Context& context, uint32_t key, uint64_t at, size_t length) {
    for (const Region* each : context.regions) {
        auto begin = reinterpret_cast<uint64_t>(each->handle.addr);
        if (each->handle.lkey == key && at >= begin && at + length <= begin + each->handle.length)
            return each;
    }
    return nullptr;
}

int post_receive(Qp* handle, RecvWr* wr, RecvWr** bad) {
    auto& pair = *reinterpret_cast<QueuePair*>(handle);
    Context& context = context_of(handle->context);
    std::lock_guard guard(context.mutex);
    for (; wr; wr = wr->next) {
        *bad = wr;
        if (context.device->lost) return EIO;
        if (handle->state < kRtr || handle->state == kError) return EINVAL;
        if (wr->num_sge != 1) return EINVAL;
        const Sge& sge = *wr->sg_list;
        uint32_t frames = frames_of(sge.length);
        if (pair.receive_frames + frames > pair.cap.max_recv_wr) return ENOMEM;
        if (!region_with(context, sge.lkey, sge.addr, sge.length)) {
            complete(handle->recv_cq, pair, wr->wr_id, kLocalProtection, kReceived, 0);
            fail_soon(pair);
            return 0;
        }
        pair.receive_frames += frames;
        pair.posted.push_back(
            {wr->wr_id, reinterpret_cast<std::byte*>(sge.addr), sge.length, sge.lkey});
        pair.slot->posted.fetch_add(1, std::memory_order_release);
    }
    return 0;
}

static bool chance(Context& context, const std::atomic<uint32_t>& of_1000) {
    uint32_t part = of_1000.load(std::memory_order_relaxed);
    return part != 0 && context.random() % 1000 < part;
}

static Leaving copy_of(const Leaving& from) {
    Leaving out;
    out.own.assign(from.data, from.data + from.length);
    out.data = out.own.data();
    out.length = from.length;
    out.completes = false;
    return out;
}

// The faults that a message meets. Its completion comes in any case.
static void leave(QueuePair& pair, Leaving&& sent) {
    Context& context = context_of(pair.handle.context);
    DeviceState& device = *context.device;
    device.messages.fetch_add(1, std::memory_order_relaxed);
    device.bytes.fetch_add(sent.length, std::memory_order_relaxed);
    auto lose = [&] {
        sent.length = 0;
        sent.data = nullptr;
        pair.leaving.push_back(std::move(sent));
    };
    if (sent.length > device.message_most) return lose();
    if (chance(context, device.drop)) return device.dropped.fetch_add(1), lose();
    if (chance(context, device.corrupt)) {
        Leaving changed = copy_of(sent);
        changed.own[context.random() % changed.length] ^= std::byte{0x10};
        changed.wr_id = sent.wr_id;
        changed.frames = sent.frames;
        changed.key = sent.key;
        changed.completes = true;
        device.corrupted.fetch_add(1);
        sent = std::move(changed);
    }
    if (pair.late.empty() && chance(context, device.reorder)) {
        device.reordered.fetch_add(1);
        pair.late.push_back(copy_of(sent));
        return lose();
    }
    bool twice = chance(context, device.duplicate);
    Leaving again;
    if (twice) again = copy_of(sent);
    pair.leaving.push_back(std::move(sent));
    if (twice) {
        device.duplicated.fetch_add(1);
        pair.leaving.push_back(std::move(again));
    }
    for (Leaving& each : pair.late) pair.leaving.push_back(std::move(each));
    pair.late.clear();
}

int post_send(Qp* handle, SendWr* wr, SendWr** bad) {
    auto& pair = *reinterpret_cast<QueuePair*>(handle);
    Context& context = context_of(handle->context);
    std::lock_guard guard(context.mutex);
    for (; wr; wr = wr->next) {
        *bad = wr;
        if (context.device->lost) return EIO;
        if (handle->state != kRts) return EINVAL;
        if (wr->opcode != kSend || wr->num_sge != 1 || (wr->send_flags & kInline)) return EINVAL;
        const Sge& sge = *wr->sg_list;
        uint32_t frames = frames_of(sge.length);
        if (sge.length == 0 || sge.length > kLimits.message_most) return EINVAL;
        if (pair.send_frames + frames > pair.cap.max_send_wr) return ENOMEM;
        if (!region_with(context, sge.lkey, sge.addr, sge.length)) {
            complete(handle->send_cq, pair, wr->wr_id, kLocalProtection, kSent, 0);
            fail_soon(pair);
            return 0;
        }
        if (sge.length > context.device->message_most && context.device->too_long_fails) {
            complete(handle->send_cq, pair, wr->wr_id, kLocalLength, kSent, 0);
            fail_soon(pair);
            return 0;
        }
        Leaving sent;
        sent.wr_id = wr->wr_id;
        sent.data = reinterpret_cast<const std::byte*>(sge.addr);
        sent.length = sge.length;
        sent.frames = frames;
        sent.key = sge.lkey;
        pair.send_frames += frames;
        // A lost one still counts: its frames come back with its completion.
        leave(pair, std::move(sent));
    }
    if (context.engine) return pair.given = true, 0;
    progress(pair);
    if (!pair.leaving.empty()) send_later(context);
    return 0;
}

// ---- moving

static bool reaches(const QueuePair& pair) {
    return pair.peer && pair.peer_device && context_of(pair.handle.context).device->port_up &&
           pair.peer_device->port_up && !pair.peer_device->lost &&
           pair.peer->generation == pair.peer_generation && pair.peer->state >= kRtr &&
           pair.peer->state <= kRts && pair.peer->peer == pair.handle.qp_num;
}

// In the ring of a queue pair, whose bytes are written to `head`. A little is kept for alignment.
static size_t room_in(const QueuePairSlot& slot, uint32_t side, uint64_t head) {
    return kRing - 16 -
           std::min<size_t>(kRing - 16, head - slot.tail[side].load(std::memory_order_acquire));
}

// When a message that is sent now will have left the device, which sends one after the other, and
// when it will have arrived.
static void schedule(DeviceState& device, Leaving& sent, int64_t& due) {
    uint64_t rate = device.rate, latency = device.latency;
    if (rate == 0 && latency == 0) return;
    int64_t now = clock_now(), until = device.sends_until;
    auto takes = rate == 0 ? int64_t{0} : static_cast<int64_t>(sent.length * 1000 / rate);
    do sent.ends = std::max(now, until) + takes;
    while (!device.sends_until.compare_exchange_weak(until, sent.ends));
    due = sent.ends + static_cast<int64_t>(latency);
}

// True when the first of those that leave is through, or lost.
static bool move_first(QueuePair& pair) {
    Leaving& first = pair.leaving.front();
    if (!first.data) return true;
    if (!reaches(pair)) return true;
    Context& context = context_of(pair.handle.context);
    DeviceState& device = *context.device;
    QueuePairSlot& peer = *pair.peer;
    uint32_t side = pair.peer_generation & 1;
    std::byte* ring =
        ring_of(pair.peer_wires, static_cast<int>(&peer - pair.peer_device->queue_pairs),
                pair.peer_generation);
    uint64_t head = peer.head[side].load(std::memory_order_relaxed);
    if (pair.stuck) return false;
    bool is_long = frames_of(first.length) > 1;
    if (!first.begun) {
        pair.stuck = is_long && peer.long_begun - peer.long_read >= device.deep;
        if (pair.stuck) return false;
        if (peer.taken.load(std::memory_order_relaxed) >=
            peer.posted.load(std::memory_order_acquire)) {
            if (device.hold) return false;
            device.no_receive.fetch_add(1);
            return true;
        }
        if (room_in(peer, side, head) < sizeof(RingHead)) return false;
        RingHead begin{first.length, 0};
        schedule(device, first, begin.due);
        std::memcpy(ring + head % kRing, &begin, sizeof begin);
        head += sizeof begin;
        peer.taken.fetch_add(1, std::memory_order_relaxed);
        if (is_long) peer.long_begun.fetch_add(1, std::memory_order_relaxed);
        peer.head[side].store(head, std::memory_order_release);
        first.begun = true;
    }
    while (first.done < first.length) {
        size_t part = std::min({room_in(peer, side, head), first.length - first.done, kChunk});
        if (part == 0 || !reaches(pair)) return part != 0;
        copy_bytes(context, ring + head % kRing, first.data + first.done, part);
        first.done += part;
        head += part;
        // The next message's head stays aligned.
        if (first.done == first.length) head = (head + 15) & ~uint64_t{15};
        peer.head[side].store(head, std::memory_order_release);
    }
    return true;
}

static void finish(QueuePair& pair, const Leaving& sent) {
    if (sent.completes) complete(pair.handle.send_cq, pair, sent.wr_id, kSuccess, kSent, 0);
    pair.send_frames -= sent.frames;
}

static void send_some(QueuePair& pair) {
    if (context_of(pair.handle.context).device->stall) return;
    for (; !pair.leaving.empty() && move_first(pair); pair.leaving.pop_front()) {
        Leaving& first = pair.leaving.front();
        if (first.ends == 0 && pair.timed.empty()) finish(pair, first);
        else pair.timed.push_back(std::move(first));
    }
    int64_t now = pair.timed.empty() ? 0 : clock_now();
    for (; !pair.timed.empty() && pair.timed.front().ends <= now; pair.timed.pop_front())
        finish(pair, pair.timed.front());
}

// The message that has begun to arrive, or the next one; false when there is nothing to do.
static bool receive_some(QueuePair& pair) {
    Context& context = context_of(pair.handle.context);
    QueuePairSlot& slot = *pair.slot;
    uint32_t side = pair.generation & 1;
    std::byte* ring = ring_of(context.wires, pair.index, pair.generation);
    uint64_t tail = slot.tail[side].load(std::memory_order_relaxed);
    uint64_t there = slot.head[side].load(std::memory_order_acquire) - tail;
    if (!pair.receiving) {
        if (there < sizeof(RingHead) || pair.posted.empty()) return false;
        RingHead begin;
        std::memcpy(&begin, ring + tail % kRing, sizeof begin);
        pair.receiving = true;
        pair.length = begin.length;
        pair.due = begin.due;
        pair.received = 0;
        pair.fits = frames_of(begin.length) == frames_of(pair.posted.front().length) &&
                    begin.length <= pair.posted.front().length;
        tail += sizeof begin;
        there -= sizeof begin;
    }
    while (there > 0 && pair.received < pair.length) {
        size_t part = std::min({static_cast<size_t>(there), pair.length - pair.received, kChunk});
        if (pair.fits)
            copy_bytes(context, pair.posted.front().to + pair.received, ring + tail % kRing, part);
        pair.received += part;
        tail += part;
        there -= part;
        slot.tail[side].store(tail, std::memory_order_release);
    }
    if (pair.received < pair.length) {
        slot.tail[side].store(tail, std::memory_order_release);
        return false;
    }
    slot.tail[side].store((tail + 15) & ~uint64_t{15}, std::memory_order_release);
    if (pair.due != 0 && clock_now() < pair.due) return false;
    pair.receiving = false;
    if (frames_of(pair.length) > 1) slot.long_read.fetch_add(1, std::memory_order_relaxed);
    Posted done = pair.posted.front();
    pair.posted.pop_front();
    pair.receive_frames -= frames_of(done.length);
    complete(pair.handle.recv_cq, pair, done.wr_id, pair.fits ? kSuccess : kLocalLength, kReceived,
             pair.length);
    if (pair.fits) return true;
    context.device->mismatched.fetch_add(1);
    fail(pair);
    return false;
}

void progress(QueuePair& pair) {
    if (pair.failing) fail(pair);
    if (pair.handle.state < kRtr || pair.handle.state > kRts) return;
    send_some(pair);
    // Some at a time: the reader has a say.
    for (int i = 0; i < 16 && receive_some(pair); ++i) {}
}

// Asked by the engine without the mutex: of what only it changes, and of what is shared anyway.
static bool has_work(const QueuePair& pair, int64_t now) {
    if (pair.failing || pair.given) return true;
    if (!pair.timed.empty() && pair.timed.front().ends <= now) return true;
    if (pair.receiving && pair.received == pair.length) return pair.due <= now;
    uint32_t side = pair.generation & 1;
    return pair.slot->head[side].load(std::memory_order_acquire) !=
           pair.slot->tail[side].load(std::memory_order_relaxed);
}

// On any processor, also where the rank is bound to one: a device has none of these.
void run_engine(Context& context) {
#if defined(__linux__)
    cpu_set_t all;
    std::memset(&all, 0xff, sizeof all);
    sched_setaffinity(0, sizeof all, &all);
#endif
    constexpr int kIdleMost = 2000;
    for (int idle = 0; !context.ends; ++idle) {
        {
            std::lock_guard moving(context.moving);
            int64_t now = clock_now();
            for (QueuePair* each : context.pairs) {
                if (!has_work(*each, now)) continue;
                std::lock_guard guard(context.mutex);
                progress(*each);
                each->given = !each->leaving.empty();
                idle = 0;
            }
        }
        while (context.wait_moving > 0) std::this_thread::yield();
        if (idle > kIdleMost) std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
}

// ---- without calls

static bool any_leaves(const Context& context) {
    return std::any_of(context.pairs.begin(), context.pairs.end(),
                       [](const QueuePair* each) { return !each->leaving.empty(); });
}

static void run_sender(Context& context) {
    constexpr auto kEvery = std::chrono::milliseconds(1);
    std::unique_lock lock(context.mutex);
    while (!context.ends) {
        context.sender_sleeps = true;
        context.wake.wait(lock, [&] { return context.ends || any_leaves(context); });
        context.sender_sleeps = false;
        if (context.wake.wait_for(lock, kEvery, [&] { return context.ends.load(); })) return;
        for (QueuePair* each : context.pairs)
            if (each->handle.state == kRts) send_some(*each);
    }
}

void send_later(Context& context) {
    if (!context.sender.joinable())
        context.sender = std::thread([&context] { run_sender(context); });
    else if (context.sender_sleeps) context.wake.notify_one();
}

Context::~Context() {
    {
        std::lock_guard guard(mutex);
        ends = true;
    }
    wake.notify_one();
    if (sender.joinable()) sender.join();
    if (mover.joinable()) mover.join();
}

int poll(Cq* handle, int entries, Wc* out) {
    auto& queue = *reinterpret_cast<CompletionQueue*>(handle);
    Context& context = context_of(handle->context);
    std::lock_guard guard(context.mutex);
    if (context.device->lost || queue.overrun) return -1;
    if (!context.engine && queue.ready.size() < static_cast<size_t>(entries))
        for (QueuePair* each : queue.users) progress(*each);
    int found = 0;
    for (; found < entries && !queue.ready.empty(); ++found) {
        out[found] = queue.ready.front();
        queue.ready.pop_front();
    }
    return found;
}

}  // namespace fake
