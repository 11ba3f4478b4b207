// ring.cc: see ring.h.
#include "torch_glue/ring.h"

#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

namespace pomona::glue {
namespace {
std::atomic<uint64_t> pieces{0};
}

uint64_t pieces_by_peers() { return pieces.load(); }
void count_piece_by_peers() { pieces.fetch_add(1, std::memory_order_relaxed); }

PeerRing::PeerRing(int rank, int size, int64_t slot_bytes, int64_t shared_from)
    : rank_(rank), size_(size), slot_bytes_(slot_bytes), shared_from_(shared_from),
      memory_(static_cast<size_t>(size), nullptr) {}

// What was not released may be in use by others: it stays until the process ends.
PeerRing::~PeerRing() = default;

PeerRing::State PeerRing::state() const {
    std::lock_guard lock(mutex_);
    return state_;
}

PeerRing::Offer PeerRing::offer(c10::Device where) {
    std::lock_guard lock(mutex_);
    Offer made;
    made.word = kRefused;
    char*& own = memory_[static_cast<size_t>(rank_)];
    if (own == nullptr) {
        sharing_ = memory_sharing(where.type());
        if (sharing_ == nullptr) return made;
        const c10::DeviceGuard current(where);
        void* address = nullptr;
        const auto bytes = static_cast<size_t>(slot_bytes_) * kSlots;
        if (sharing_->identify(&device_) != 0) return made;
        if (sharing_->allocate(bytes, &address, handle_) != 0) return made;
        own = static_cast<char*>(address);
        where_ = where;
    }
    made.word = where == where_ ? kUsable : kNot;
    std::memcpy(made.handle, handle_, sizeof handle_);
    made.device = device_;
    return made;
}

bool PeerRing::open(const std::vector<Offer>& offers) {
    std::lock_guard lock(mutex_);
    std::vector<uint64_t> devices;
    for (const Offer& each : offers) devices.push_back(each.device);
    std::sort(devices.begin(), devices.end());
    shares_device_ = std::adjacent_find(devices.begin(), devices.end()) != devices.end();
    const c10::DeviceGuard current(where_);
    for (size_t i = 0; i < offers.size(); ++i) {
        if (static_cast<int>(i) == rank_) continue;
        void* address = nullptr;
        if (sharing_->open(offers[i].handle, &address) != 0) return false;
        memory_[i] = static_cast<char*>(address);
    }
    return true;
}

void PeerRing::decide(State state) {
    std::lock_guard lock(mutex_);
    state_ = state;
}

bool PeerRing::is_worth(int64_t bytes) const {
    std::lock_guard lock(mutex_);
    return !shares_device_ || bytes >= shared_from_;
}

bool PeerRing::tried_in_vain() {
    constexpr int kTries = 8;
    std::lock_guard lock(mutex_);
    return ++vain_tries_ >= kTries;
}

bool PeerRing::is_on(c10::Device where) const {
    std::lock_guard lock(mutex_);
    return memory_[static_cast<size_t>(rank_)] != nullptr && where == where_;
}

void PeerRing::close_others() {
    std::lock_guard lock(mutex_);
    if (sharing_ == nullptr) return;
    const c10::DeviceGuard current(where_);
    for (size_t i = 0; i < memory_.size(); ++i) {
        if (static_cast<int>(i) == rank_ || memory_[i] == nullptr) continue;
        sharing_->close(memory_[i]);
        memory_[i] = nullptr;
    }
}

void PeerRing::release() {
    std::lock_guard lock(mutex_);
    char*& own = memory_[static_cast<size_t>(rank_)];
    if (own == nullptr) return;
    const c10::DeviceGuard current(where_);
    sharing_->release(own);
    own = nullptr;
}

at::Tensor PeerRing::part(int rank, uint64_t ticket, int64_t offset_bytes, int64_t count,
                          at::ScalarType dtype) const {
    char* start = memory_[static_cast<size_t>(rank)] +
                  static_cast<int64_t>(ticket % kSlots) * slot_bytes_ + offset_bytes;
    return at::for_blob(start, {count})
        .options(at::TensorOptions().dtype(dtype).device(where_))
        .target_device(where_)
        .make_tensor();
}

uint64_t PeerRing::take() {
    std::lock_guard lock(mutex_);
    return taken_++;
}

bool PeerRing::may_write(uint64_t ticket) const {
    std::lock_guard lock(mutex_);
    return ticket < kSlots || met_ > ticket - kSlots + kBehind;
}

bool PeerRing::may_meet(uint64_t ticket) const {
    std::lock_guard lock(mutex_);
    if (ticket < kBehind) return true;
    const Reading& last = readings_[(ticket - kBehind) % kSlots];
    return last.tickets == ticket - kBehind + 1 && last.over();
}

void PeerRing::met(uint64_t ticket) {
    std::lock_guard lock(mutex_);
    met_ = std::max(met_, ticket + 1);
}

void PeerRing::has_read(uint64_t ticket, MomentPointer when) {
    std::lock_guard lock(mutex_);
    readings_[ticket % kSlots] = {ticket + 1, std::move(when)};
}

bool PeerRing::is_quiet() const {
    std::lock_guard lock(mutex_);
    for (uint64_t i = taken_ - std::min(taken_, kSlots); i < taken_; ++i) {
        const Reading& last = readings_[i % kSlots];
        if (last.tickets != i + 1 || !last.over()) return false;
    }
    return true;
}

}  // namespace pomona::glue
