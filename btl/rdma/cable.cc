// btl/rdma/cable.cc: see cable.h.
#include "btl/rdma/cable.h"

#include "btl/base/entropy.h"
#include "btl/base/format.h"
#include "btl/base/messages.h"
#include "btl/rdma/crc32c.h"
#include "btl/rdma/termination.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace pomona::rdma {

static constexpr uint32_t kSmallSlots = 128;
static constexpr uint32_t kLargeSlots = 16;
static constexpr size_t kLargeMost = size_t{4} << 20;  // bytes of long slots, each way
static constexpr int kPollMost = 16;
// Of so many slots one may be missing until the next poll.
static constexpr uint32_t kPostedLaterFrom = 32;

static uint32_t slots_of(size_t stride) {
    if (stride == kLimits.frame) return kSmallSlots;
    return std::clamp(static_cast<uint32_t>(kLargeMost / stride), uint32_t{4}, kLargeSlots);
}

bool Cable::make(Device& device, const Options& options, Reason& why) {
    options_ = options;
    verbs::PortAttr port;
    if (asked_to_end()) return why = {"this process ends"}, false;
    if (!device.open(why) || !device.port(port, why)) return false;
    device_ = &device;
    ++device.users;
    holds(*this);
    gid_index_ = device.find_gid(port, end_.gid);
    if (gid_index_ < 0) {
        why = {format(messages::rdma_no_address, device.name()), messages::rdma_give_address};
        return fails(why);
    }
    end_.device = device.name();
    end_.lid = port.lid;
    end_.mtu = static_cast<uint8_t>(port.active_mtu);
    end_.checks = options.checks;
    std::vector<size_t> strides{kLimits.frame};
    if (options.stride > kLimits.frame) strides.push_back(options.stride);
    size_t bytes = 0;
    uint32_t entries = 0;
    for (size_t stride : strides) {
        bytes += 2 * stride * slots_of(stride);
        entries += 2 * slots_of(stride);
    }
    if (!memory_.make(device, bytes, why)) return fails(why);
    queue_ = device.ask("ibv_create_cq", [context = device.context(), entries](const Library& l) {
        return l.create_cq(context, static_cast<int>(entries), nullptr, nullptr, 0);
    });
    if (!queue_) {
        why = {format("{} gives no completion queue", device.name()), "", errno};
        return fails(why);
    }
    std::byte* at = memory_.data();
    pairs_.reserve(strides.size());
    for (size_t stride : strides) {
        QueuePair pair;
        pair.stride = stride;
        pair.slots = slots_of(stride);
        pair.frames = frames_of(stride);
        pair.id = uint64_t{pairs_.size()} << 40;
        pair.out = at;
        pair.in = at + stride * pair.slots;
        at += 2 * stride * pair.slots;
        for (uint32_t slot = pair.slots; slot > 0; --slot) pair.free.push_back(slot - 1);
        // Without a second one all goes by the first.
        bool made = make_pair(pair, why);
        if (made) pairs_.push_back(std::move(pair));
        else if (pairs_.empty() || device.hangs(why)) return fails(why);
    }
    for (const QueuePair& pair : pairs_) {
        std::array<std::byte, 4> first{};
        random_bytes(first);
        uint32_t packet;
        std::memcpy(&packet, first.data(), sizeof packet);
        end_.pairs.push_back({pair.handle->qp_num, packet & 0xffffff,
                              static_cast<uint32_t>(pair.stride), pair.slots});
    }
    return true;
}

bool Cable::fails(Reason& why) {
    device_->hangs(why);
    destroy();
    return false;
}

// Of the type that is asked for, or the first that the device has.
verbs::Qp* Cable::create(QueuePair& pair, Reason& why) {
    int error = 0;
    for (const PairType& each : kPairTypes) {
        if (options_.type != 0 && options_.type != each.type) continue;
        verbs::QpInitAttr asked{};
        asked.send_cq = asked.recv_cq = queue_;
        asked.qp_type = each.type;
        asked.sq_sig_all = 1;
        asked.cap = {pair.slots * pair.frames, pair.slots * pair.frames, kLimits.entries,
                     kLimits.entries, kLimits.inline_most};
        verbs::Qp* made = device_->ask(
            "ibv_create_qp", [domain = device_->domain(), asked](const Library& l) mutable {
                return l.create_qp(domain, &asked);
            });
        if (made) return options_.type = end_.type = each.type, made;
        if (error == 0) error = errno;
        if (errno == EBUSY || errno == ENOMEM) break;
    }
    std::string mend;
    if (error == EBUSY) mend = format(messages::rdma_fewer_ranks, kLimits.queue_pairs);
    else if (const PairType* asked = pair_type(options_.type))
        mend = format(messages::rdma_type_missing, asked->name);
    why = {format(messages::rdma_no_pair, device_->name()), std::move(mend), error};
    return nullptr;
}

bool Cable::make_pair(QueuePair& pair, Reason& why) {
    pair.handle = create(pair, why);
    if (!pair.handle) return false;
    // It may have given less than was asked for.
    struct Granted {
        bool told = false;
        verbs::QpCap room{};
    };
    auto granted = device_->ask("ibv_query_qp", [qp = pair.handle](const Library& l) {
        verbs::QpAttr attr{};
        verbs::QpInitAttr init{};
        bool told = l.query_qp(qp, &attr, verbs::kMaskCap, &init) == 0;
        return Granted{told, attr.cap};
    });
    if (granted.told) {
        uint32_t least = std::min(granted.room.max_recv_wr, granted.room.max_send_wr) / pair.frames;
        pair.slots = std::min(pair.slots, least);
        std::erase_if(pair.free, [&](uint32_t slot) { return slot >= pair.slots; });
        // Messages need some beside those that are kept for credit.
        if (pair.slots < (pairs_.empty() ? 2 * kKeptFrames : 1)) {
            why = {format("{} gives a queue pair too little room", device_->name())};
            destroy(pair);
            return false;
        }
    }
    verbs::QpAttr attr{};
    attr.qp_state = verbs::kInit;
    attr.port_num = kLimits.port;
    constexpr int kMask =
        verbs::kMaskState | verbs::kMaskPkey | verbs::kMaskPort | verbs::kMaskAccess;
    int error = modify(pair, attr, kMask);
    if (error == 0) return true;
    why = {format("{} does not set a queue pair up", device_->name()), "", error};
    destroy(pair);
    return false;
}

int Cable::modify(QueuePair& pair, verbs::QpAttr attr, int mask) {
    return device_->ask("ibv_modify_qp", [qp = pair.handle, attr, mask](const Library& l) mutable {
        return l.modify_qp(qp, &attr, mask);
    });
}

bool Cable::connect(const EndPlace& peer, Reason& why) {
    if (is_given_back()) return why = {"this process ends"}, false;
    peer_checks_ = peer.checks;
    // What both have.
    size_t number = std::min(peer.pairs.size(), pairs_.size());
    if (number == 2 && peer.pairs[1].stride != pairs_[1].stride) number = 1;
    while (pairs_.size() > number) {
        destroy(pairs_.back());
        pairs_.pop_back();
    }
    for (size_t i = 0; i < number; ++i) {
        if (!ready(pairs_[i], peer.pairs[i], peer, why)) return false;
        pairs_[i].sent = 0;
        pairs_[i].both_slots = std::min(pairs_[i].slots, peer.pairs[i].slots);
        pairs_[i].allowed = uint64_t{peer.pairs[i].slots} * pairs_[i].frames;
        pairs_[i].told = uint64_t{pairs_[i].slots} * pairs_[i].frames;
        for (uint32_t slot = 0; slot < pairs_[i].slots; ++slot)
            if (!post(pairs_[i], slot, why)) return false;
    }
    return true;
}

bool Cable::ready(QueuePair& pair, const PairPlace& place, const EndPlace& peer, Reason& why) {
    const PairType& type = *pair_type(end_.type);
    verbs::QpAttr attr = type.attributes;
    attr.qp_state = verbs::kRtr;
    attr.path_mtu = static_cast<verbs::Mtu>(std::clamp<int>(std::min(peer.mtu, end_.mtu), 1, 5));
    attr.dest_qp_num = place.number;
    attr.rq_psn = place.first_packet & 0xffffff;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.dlid = peer.lid;
    attr.ah_attr.port_num = kLimits.port;
    attr.ah_attr.grh.sgid_index = static_cast<uint8_t>(gid_index_);
    attr.ah_attr.grh.hop_limit = 64;
    std::memcpy(attr.ah_attr.grh.dgid.raw, peer.gid.data(), peer.gid.size());
    constexpr int kMask =
        verbs::kMaskState | verbs::kMaskAv | verbs::kMaskMtu | verbs::kMaskPeer | verbs::kMaskRqPsn;
    int error = modify(pair, attr, kMask | type.to_receive);
    if (error != 0 && device_->hangs(why)) return false;
    if (error != 0) {
        why = {
            format(messages::rdma_not_joined, device_->name(), peer.device, text_of_gid(peer.gid)),
            error == EINVAL ? messages::rdma_leave_bridge : "", error};
        return false;
    }
    size_t index = static_cast<size_t>(&pair - pairs_.data());
    attr = type.attributes;
    attr.qp_state = verbs::kRts;
    attr.sq_psn = end_.pairs[index].first_packet;
    error = modify(pair, attr, verbs::kMaskState | verbs::kMaskSqPsn | type.to_send);
    if (error == 0) return true;
    if (device_->hangs(why)) return false;
    why = {format("{} does not begin to send", device_->name()), "", error};
    return false;
}

bool Cable::post(QueuePair& pair, uint32_t slot, Reason& why) {
    verbs::Sge sge{reinterpret_cast<uint64_t>(pair.in + slot * pair.stride),
                   static_cast<uint32_t>(pair.stride), memory_.key()};
    verbs::RecvWr wr{pair.id | kReceives | slot, nullptr, &sge, 1}, *bad = nullptr;
    int error = device_->context()->ops.post_recv(pair.handle, &wr, &bad);
    if (error == 0) {
        pair.posted += pair.frames;
        return true;
    }
    return no_receive(error, why);
}

[[gnu::noinline]] bool Cable::no_receive(int error, Reason& why) const {
    why = {format("{} takes no receive", device_->name()), "", error};
    return false;
}

void Cable::destroy(QueuePair& pair) {
    int error = 0;
    if (pair.handle)
        error = device_->ask("ibv_destroy_qp",
                             [qp = pair.handle](const Library& l) { return l.destroy_qp(qp); });
    kept_ |= !device_->takes_back("a queue pair", error);
    pair.handle = nullptr;
}

void Cable::give_back() {
    for (QueuePair& pair : pairs_) destroy(pair);
    if (kept_) return;
    if (queue_)
        device_->takes_back("a completion queue",
                            device_->ask("ibv_destroy_cq", [queue = queue_](const Library& l) {
                                return l.destroy_cq(queue);
                            }));
    memory_.give_back();
}

void Cable::destroy() {
    if (!device_) return;
    if (holds_nothing(*this)) give_back();
    pairs_.clear();
    // A queue pair that the device has not taken back may still receive.
    if (std::exchange(kept_, false)) memory_.keep();
    else memory_.release();
    queue_ = nullptr;
    --device_->users;
    device_ = nullptr;
    end_ = {};
}

// ---- out

std::byte* Cable::payload_slot(int which) {
    QueuePair& pair = pairs_[static_cast<size_t>(which)];
    return pair.out + pair.free.back() * pair.stride + sizeof(MessageHead);
}

uint32_t Cable::slot_checksum(int which, size_t length) {
    return apart(length) ? options_.copiers->sum(nullptr, {payload_slot(which), length}) : 0;
}

uint32_t Cable::copy_to_slot(int which, const Parts& payload, size_t from, size_t length,
                             bool whole) {
    std::byte* to = payload_slot(which);
    bool checks = whole && apart(length);
    if (payload.second.empty()) {
        if (checks) return options_.copiers->sum(to, payload.first.subspan(from, length));
        if (length != 0) std::memcpy(to, payload.first.data() + from, length);
        return 0;
    }
    size_t skipped = std::min(from, payload.first.size());
    ConstBytes first = payload.first.subspan(skipped);
    ConstBytes second = payload.second.subspan(from - skipped);
    size_t of_first = std::min(length, first.size());
    if (of_first != 0) std::memcpy(to, first.data(), of_first);
    if (of_first < length) std::memcpy(to + of_first, second.data(), length - of_first);
    return checks ? slot_checksum(which, length) : 0;
}

// In its place, and its checksum over what is behind it.
void Cable::write_head(QueuePair& pair, std::byte* at, MessageKind kind, const FrameHeader& header,
                       const Part& part) {
    bool own_checksum = part.length == part.total && apart(part.length);
    auto* head = new (at) MessageHead;
    head->magic = kMagic;
    head->kind = kind;
    head->checked = !options_.checks ? Checked::no
                    : own_checksum   ? Checked::apart
                                     : Checked::together;
    head->attempt = options_.attempt;
    head->length = static_cast<uint32_t>(part.length);
    head->sequence = pair.sent;
    head->credit[0] = told_now(pairs_[0]);
    head->credit[1] = pairs_.size() > 1 ? told_now(pairs_[1]) : 0;
    head->total = static_cast<uint32_t>(part.total);
    head->offset = own_checksum ? part.checksum : static_cast<uint32_t>(part.offset);
    head->header = header;
    head->checksum = 0;
    if (!options_.checks) return;
    constexpr size_t kAfter = sizeof head->checksum;
    size_t behind = own_checksum ? 0 : part.length;
    head->checksum = crc32c({at + kAfter, sizeof *head - kAfter + behind});
}

int Cable::send_slot(QueuePair& pair, std::byte* at, size_t length) {
    // As many frames as the receiver has posted.
    size_t least = pair.stride - kLimits.frame + 1;
    auto bytes = static_cast<uint32_t>(std::max(sizeof(MessageHead) + length, least));
    verbs::Sge sge{reinterpret_cast<uint64_t>(at), bytes, memory_.key()};
    if (is_given_back()) return ESHUTDOWN;
    verbs::SendWr* bad = nullptr;
    request_.wr_id = pair.id | pair.free.back();
    request_.sg_list = &sge;
    request_.num_sge = 1;
    request_.opcode = verbs::kSend;
    request_.send_flags = verbs::kSignaled;
    int error = device_->context()->ops.post_send(pair.handle, &request_, &bad);
    if (error != 0) return error;
    pair.free.pop_back();
    pair.sent += pair.frames;
    given_ += pair.stride;
    return 0;
}

int Cable::send(int which, MessageKind kind, const FrameHeader& header, const Part& part) {
    QueuePair& pair = pairs_[static_cast<size_t>(which)];
    std::byte* at = pair.out + pair.free.back() * pair.stride;
    write_head(pair, at, kind, header, part);
    return send_slot(pair, at, part.length);
}

int Cable::send_short(const FrameHeader& header, ConstBytes payload) {
    QueuePair& pair = pairs_[0];
    std::byte* at = pair.out + pair.free.back() * kLimits.frame;
    if (!payload.empty()) std::memcpy(at + sizeof(MessageHead), payload.data(), payload.size());
    write_head(pair, at, MessageKind::data, header, {payload.size(), payload.size(), 0, 0});
    return send_slot(pair, at, payload.size());
}

Reason Cable::not_taken(int error) const {
    return {format(messages::rdma_not_taken, device_->name()), messages::rdma_look_at_cable, error};
}

bool Cable::is_stuck(int calls) {
    bool stuck = false;
    for (QueuePair& pair : pairs_) {
        bool moves = pair.free.size() == pair.slots || std::exchange(pair.has_sent, false);
        pair.idle_calls = moves ? 0 : pair.idle_calls + 1;
        stuck |= pair.idle_calls >= calls;
    }
    return stuck;
}

bool Cable::all_sent() const {
    return std::all_of(pairs_.begin(), pairs_.end(),
                       [](const QueuePair& each) { return each.free.size() == each.slots; });
}

// ---- in

// Apart from poll(), which is to be short.
[[gnu::noinline]] int Cable::fail(verbs::WcStatus status, Reason& why) {
    why = {status == verbs::kSuccess
               ? format(messages::rdma_silent, device_->name())
               : format(messages::rdma_message_failed, device_->name(), static_cast<int>(status)),
           messages::rdma_look_at_cable};
    return -1;
}

int Cable::poll(CableOwner& owner, int most, const bool& stopped, Reason& why) {
    if (is_given_back()) return 0;
    // It was the last one: whoever waited for it has gone on before this.
    if (unposted_ != kNone && !post(pairs_[0], std::exchange(unposted_, kNone), why)) return -1;
    verbs::Wc done[kPollMost];
    int found = device_->context()->ops.poll_cq(queue_, std::min(most, kPollMost), done);
    if (found < 0) {
        device_->lost = true;
        return fail(verbs::kSuccess, why);
    }
    int handed = 0;
    for (int i = 0; i < found; ++i) {
        const verbs::Wc& wc = done[i];
        auto which = static_cast<size_t>(wc.wr_id >> 40);
        if (wc.status != verbs::kSuccess) return fail(wc.status, why);
        if (which >= pairs_.size()) continue;
        QueuePair& pair = pairs_[which];
        auto slot = static_cast<uint32_t>(wc.wr_id);
        if ((wc.wr_id >> 32 & 1) == 0) {
            pair.free.push_back(slot);
            pair.has_sent = true;
            left_ += pair.stride;
            continue;
        }
        pair.posted -= pair.frames;
        size_t length = std::min<size_t>(wc.byte_len, pair.stride);
        ConstBytes message{pair.in + slot * pair.stride, length};
        const MessageHead* head = sound_head(message, peer_checks_);
        if (head && head->attempt == options_.attempt && !stopped) {
            pair.seen = std::max(pair.seen, head->sequence + pair.frames);
            pair.lost = 0;
            take_credit(0, head->credit[0]);
            if (pairs_.size() > 1) take_credit(1, head->credit[1]);
            owner.message(static_cast<int>(which), *head,
                          message.subspan(sizeof *head, head->length));
            ++handed;
        }
        if (i + 1 == found && which == 0 && pair.slots >= kPostedLaterFrom) unposted_ = slot;
        else if (!post(pair, slot, why)) return -1;
    }
    return handed;
}

uint64_t Cable::sent_frames(int which) const { return pairs_[static_cast<size_t>(which)].sent; }

uint64_t Cable::seen_frames(int which) const { return pairs_[static_cast<size_t>(which)].seen; }

uint64_t Cable::credit(int which) const {
    const QueuePair& pair = pairs_[static_cast<size_t>(which)];
    return std::max(pair.told, pair.seen + pair.posted);
}

bool Cable::owes_credit() const {
    return std::any_of(pairs_.begin(), pairs_.end(), [](const QueuePair& pair) {
        return pair.seen + pair.posted >= pair.told + uint64_t{pair.frames} * (pair.slots / 2);
    });
}

void Cable::told_credit() {
    for (QueuePair& pair : pairs_) pair.told = std::max(pair.told, pair.seen + pair.posted);
}

void Cable::take_credit(int which, uint64_t frames) {
    QueuePair& pair = pairs_[static_cast<size_t>(which)];
    // More than it can have posted is no credit of a sound peer.
    if (frames > pair.allowed && frames <= pair.sent + kLimits.frames_most) pair.allowed = frames;
}

void Cable::lost_below(int which, uint64_t frames) {
    QueuePair& pair = pairs_[static_cast<size_t>(which)];
    if (frames <= pair.seen || frames > pair.seen + kLimits.frames_most) return;
    pair.lost += frames - pair.seen;
    pair.seen = frames;
}

uint64_t Cable::lost_in_row(int which) const {
    const QueuePair& pair = pairs_[static_cast<size_t>(which)];
    return pair.lost / pair.frames;
}

}  // namespace pomona::rdma
