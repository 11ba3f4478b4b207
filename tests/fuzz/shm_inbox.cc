// tests/fuzz/shm_inbox.cc: libFuzzer over an inbox in shared memory, into which any other process
// can write. Goal: whatever stands in its words and slots, reader and writers stay within the inbox
// and come to an end, and no producer is named that does not exist; and as long as nobody has
// damaged it, every published frame arrives once, each producer's in order. Method: memory of
// exactly the inbox's size; the input is a list of calls (reserve, publish, take, give a dead one's
// claim back) and of bytes that are overwritten; every payload that the reader hands on is read.
#include "btl/shm/inbox.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

using namespace pomona;

namespace {

constexpr int kProducers = 3;

struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
};

void hold(bool what) {
    if (!what) std::abort();
}

struct Fuzz {
    explicit Fuzz(InboxMemory& memory) : memory(memory), reader(memory, kProducers) {
        for (int owner = 0; owner < kProducers; ++owner) writers.emplace_back(memory, owner);
    }

    size_t next_byte() {
        if (input.empty()) return 0;
        auto out = std::to_integer<size_t>(input[0]);
        input = input.subspan(1);
        return out;
    }
    bool in_slots(const std::byte* bytes, size_t length) const {
        auto* begin = reinterpret_cast<const std::byte*>(memory.slots);
        return bytes >= begin && bytes + length <= begin + sizeof memory.slots;
    }

    void reserve(size_t owner) {
        if (places[owner]) return;  // a producer has one claim at a time
        places[owner] = writers[owner].reserve();
        hold(!places[owner] || in_slots(places[owner], kInboxMax));
    }
    void publish(size_t owner, size_t length) {
        if (!places[owner]) return;
        std::memset(places[owner], static_cast<int>(length & 0xff), length);
        writers[owner].publish({{owner, sent[owner]++, length, 0}}, length, (length & 1) != 0);
        places[owner] = nullptr;
    }
    void arrive(int owner, const FrameHeader& header, ConstBytes payload) {
        hold(owner >= 0 && owner < kProducers && payload.size() <= kInboxMax);
        hold(in_slots(payload.data(), payload.size()));
        static volatile unsigned sum;  // keeps the reads
        for (std::byte each : payload) sum = sum + std::to_integer<unsigned>(each);
        if (damaged) return;
        auto from = static_cast<size_t>(owner);
        hold(header.word[0] == from && header.word[1] == got[from]++);
        hold(header.word[2] == payload.size());
        for (std::byte each : payload) hold(each == static_cast<std::byte>(payload.size() & 0xff));
    }
    void take(int most) {
        int handed = 0;
        int said = reader.poll(
            [&](int owner, const FrameHeader& header, ConstBytes payload) {
                arrive(owner, header, payload);
                return ++handed < most;
            },
            [&](int owner) { hold(damaged && owner >= 0 && owner < kProducers); });
        hold(said == handed && handed <= static_cast<int>(kInboxSlots));
    }
    // What the transport asks before it sleeps and when it looks for the dead.
    void look(size_t owner) {
        bool holds = reader.holds(static_cast<int>(owner));
        hold(damaged || holds == (got[owner] < sent[owner]));
        hold(damaged || !holds || !reader.empty());
        int claimant = reader.claimant();
        hold(claimant >= -1 && (damaged || claimant < kProducers));
    }
    // It has died: what it had published is there, what it had only claimed is free again.
    void die(size_t owner) {
        reader.release(static_cast<int>(owner));
        places[owner] = nullptr;
    }
    void damage() {
        size_t at = (next_byte() << 8 | next_byte()) % sizeof(InboxMemory);
        // Words are what matters most, and few of all bytes.
        if (at % 2)
            at = offsetof(InboxMemory, slots) + at % kInboxSlots * sizeof(InboxSlot) + at / 256 % 8;
        size_t length = std::min({next_byte() % 48, input.size(), sizeof(InboxMemory) - at});
        std::memcpy(reinterpret_cast<std::byte*>(&memory) + at, input.data(), length);
        input = input.subspan(length);
        damaged |= length != 0;
    }
    void run() {
        while (!input.empty()) {
            size_t what = next_byte(), owner = what / 8 % kProducers;
            switch (what % 8) {
            case 0: reserve(owner); break;
            case 1: publish(owner, next_byte() * 2 % (kInboxMax + 1)); break;
            case 2: take(static_cast<int>(1 + next_byte())); break;
            case 3: look(owner); break;
            case 4: die(owner); break;
            case 5: damage(); break;
            default:  // many, so that laps begin
                for (size_t left = next_byte(); left > 0; --left) {
                    reserve(owner);
                    publish(owner, left % 32);
                }
            }
        }
        // All claims ended: what was published arrives.
        for (size_t owner = 0; owner < kProducers; ++owner) die(owner);
        // A poll ends where it has gone round.
        for (int polls = 0; polls < 4 && !reader.empty(); ++polls) take(1000);
        for (size_t owner = 0; owner < kProducers; ++owner)
            hold(damaged || got[owner] == sent[owner]);
    }

    InboxMemory& memory;
    ConstBytes input;
    InboxReader reader;
    std::vector<InboxWriter> writers;
    std::byte* places[kProducers] = {};
    uint64_t sent[kProducers] = {}, got[kProducers] = {};
    bool damaged = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    std::unique_ptr<std::byte, Free> place(
        static_cast<std::byte*>(std::aligned_alloc(alignof(InboxMemory), sizeof(InboxMemory))));
    std::memset(place.get(), 0, sizeof(InboxMemory));
    Fuzz fuzz(*reinterpret_cast<InboxMemory*>(place.get()));
    fuzz.input = {reinterpret_cast<const std::byte*>(data), size};
    fuzz.run();
    return 0;
}
