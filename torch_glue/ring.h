// ring.h: device memory that all ranks of a group can read, and who may use which part of it when.
// Idea: each rank has kSlots slots on its device and the others' opened. A piece of an operation
// takes a ticket, the same on all ranks, which stands for one slot. A rank writes the piece there;
// then all meet (a small collective of MPI's); then all read each other's slots. Nobody waits for
// another process on the device itself: only the host does, so a peer that dies leaves no stream
// blocked. A slot is written again when all have read it: who comes to the meeting of a ticket has
// read all tickets kBehind before.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <cstdint>
#include <mutex>
#include <vector>

#include "torch_glue/device.h"
#include "torch_glue/sharing.h"

namespace pomona::glue {

class PeerRing {
public:
    static constexpr uint64_t kSlots = 4, kBehind = 2;
    static_assert(kBehind < kSlots);

    // Ranks that share a device exchange less than `shared_from` bytes more quickly by the host.
    PeerRing(int rank, int size, int64_t slot_bytes, int64_t shared_from);
    ~PeerRing();
    PeerRing(const PeerRing&) = delete;
    PeerRing& operator=(const PeerRing&) = delete;

    int rank() const { return rank_; }
    int size() const { return size_; }
    int64_t slot_bytes() const { return slot_bytes_; }

    // Making the connections, in one order on all ranks (exchange.cc):
    enum class State { Unknown, Ready, Refused };
    enum Word : int32_t { kNot = 0, kUsable = 1, kRefused = 2 };
    struct Offer {
        int32_t word = kNot;
        char handle[MemorySharing::kHandle] = {};
        uint64_t device = 0;
    };
    State state() const;
    Offer offer(c10::Device where);               // makes this rank's memory
    bool open(const std::vector<Offer>& offers);  // the others'
    void decide(State state);
    bool is_worth(int64_t bytes) const;  // as far as is known: all ranks know the same
    // Another sum that some rank's tensor kept from going this way; true: it is time to give up.
    bool tried_in_vain();
    bool is_on(c10::Device where) const;  // the memory is, and so must be the tensors
    void close_others();
    void release();

    // Part of a rank's slot as a tensor of `dtype`.
    at::Tensor part(int rank, uint64_t ticket, int64_t offset_bytes, int64_t count,
                    at::ScalarType dtype) const;

    // Tickets. take(): when it is the operation's turn to call MPI.
    uint64_t take();
    bool may_write(uint64_t ticket) const;  // all ranks have read what its slot had
    bool may_meet(uint64_t ticket) const;   // this rank has read what others want to overwrite
    void met(uint64_t ticket);
    void has_read(uint64_t ticket, MomentPointer when);  // its last use by this rank
    bool is_quiet() const;  // all that was taken has been read by this rank

private:
    struct Reading {
        uint64_t tickets = 0;  // one more than the ticket
        MomentPointer when;
        bool over() const { return !when || when->reached(); }
    };
    const int rank_, size_;
    const int64_t slot_bytes_, shared_from_;
    mutable std::mutex mutex_;
    State state_ = State::Unknown;
    int vain_tries_ = 0;
    bool shares_device_ = false;
    c10::Device where_{c10::DeviceType::CPU};
    const MemorySharing* sharing_ = nullptr;
    char handle_[MemorySharing::kHandle] = {};
    uint64_t device_ = 0;
    std::vector<char*> memory_;  // by rank; null: not made, or not open
    uint64_t taken_ = 0, met_ = 0;
    std::array<Reading, kSlots> readings_;
};

// How many pieces have gone that way in this process.
uint64_t pieces_by_peers();
void count_piece_by_peers();

}  // namespace pomona::glue
