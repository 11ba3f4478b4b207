// btl/rdma/wire.cc: see wire.h.
#include "btl/rdma/wire.h"

#include "btl/rdma/crc32c.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace pomona::rdma {

static constexpr size_t kNameMost = 63;
static constexpr size_t kTextMost = 400;
static constexpr size_t kDevicesMost = 16;

const MessageHead* sound_head(ConstBytes message, bool checked) {
    if (message.size() < sizeof(MessageHead)) return nullptr;
    const auto& head = *reinterpret_cast<const MessageHead*>(message.data());
    bool sound = head.magic == kMagic && head.length <= message.size() - sizeof head &&
                 (head.checked == Checked::apart
                      ? head.length == head.total
                      : head.offset <= head.total && head.length <= head.total - head.offset) &&
                 head.kind >= MessageKind::data && head.kind <= MessageKind::probe;
    if (!sound || (head.checked != Checked::no) != checked) return nullptr;
    constexpr size_t kAfter = sizeof head.checksum;
    size_t length = sizeof head - kAfter + (head.checked == Checked::apart ? 0 : head.length);
    if (checked && crc32c(message.subspan(kAfter, length)) != head.checksum) return nullptr;
    return &head;
}

bool payload_is_sound(const MessageHead& head, ConstBytes payload, Copiers& copiers) {
    return head.checked != Checked::apart || copiers.sum(nullptr, payload) == head.offset;
}

static void put_gid(Writer& out, const GidBytes& gid) {
    out.put_bytes({reinterpret_cast<const std::byte*>(gid.data()), gid.size()});
}
static void get_gid(Reader& in, GidBytes& gid) {
    ConstBytes bytes = in.take(gid.size());
    if (!bytes.empty()) std::memcpy(gid.data(), bytes.data(), gid.size());
}

static bool has_frames(Word word) {
    return word == Word::resync || word == Word::credit || word == Word::asleep;
}

std::vector<std::byte> Words::pack() const {
    Writer out;
    out.put(word);
    out.put(path);
    out.put(attempt);
    if (word == Word::offer) out.put(device);
    if (word == Word::offer || word == Word::accept) {
        out.put_text(std::string_view(end.device).substr(0, kNameMost));
        put_gid(out, end.gid);
        out.put(end.lid);
        out.put(end.mtu);
        out.put(static_cast<uint8_t>(end.checks));
        out.put(static_cast<uint8_t>(end.type));
        out.put(static_cast<uint8_t>(end.pairs.size()));
        for (const PairPlace& each : end.pairs)
            for (uint32_t value : {each.number, each.first_packet, each.stride, each.slots})
                out.put(value);
    }
    if (word == Word::refuse || word == Word::gone)
        out.put_text(std::string_view(text).substr(0, kTextMost));
    if (has_frames(word))
        for (uint64_t each : frames) out.put(each);
    if (word == Word::devices) {
        size_t number = std::min(devices.size(), kDevicesMost);
        out.put(static_cast<uint8_t>(number));
        for (size_t i = 0; i < number; ++i) {
            out.put_text(std::string_view(devices[i].name).substr(0, kNameMost));
            put_gid(out, devices[i].gid);
        }
    }
    return out.bytes();
}

static bool sound(const EndPlace& end) {
    if (end.pairs.empty() || end.pairs.size() > 2 || !pair_type(end.type)) return false;
    return std::all_of(end.pairs.begin(), end.pairs.end(), [&](const PairPlace& each) {
        bool small = &each == &end.pairs.front();
        return each.stride % kLimits.frame == 0 && each.stride <= kLimits.message_most &&
               (small ? each.stride == kLimits.frame : each.stride > kLimits.frame) &&
               each.slots > 0 &&
               uint64_t{each.slots} * frames_of(each.stride) <= kLimits.frames_most;
    });
}

std::optional<Words> parse_words(ConstBytes bytes) {
    Reader in(bytes);
    Words out;
    out.word = in.get<Word>();
    out.path = in.get<uint8_t>();
    out.attempt = in.get<uint32_t>();
    if (out.word < Word::offer || out.word > Word::devices) return std::nullopt;
    if (out.word == Word::offer) out.device = in.get<uint8_t>();
    if (out.word == Word::offer || out.word == Word::accept) {
        out.end.device = in.get_text(kNameMost);
        get_gid(in, out.end.gid);
        out.end.lid = in.get<uint16_t>();
        out.end.mtu = in.get<uint8_t>();
        out.end.checks = in.get<uint8_t>() != 0;
        out.end.type = static_cast<verbs::QpType>(in.get<uint8_t>());
        auto pairs = in.get<uint8_t>();
        for (int i = 0; i < pairs && !in.failed(); ++i) {
            PairPlace each;
            each.number = in.get<uint32_t>();
            each.first_packet = in.get<uint32_t>();
            each.stride = in.get<uint32_t>();
            each.slots = in.get<uint32_t>();
            out.end.pairs.push_back(each);
        }
        if (!sound(out.end)) return std::nullopt;
    }
    if (out.word == Word::refuse || out.word == Word::gone) out.text = in.get_text(kTextMost);
    if (has_frames(out.word))
        for (uint64_t& each : out.frames) each = in.get<uint64_t>();
    if (out.word == Word::devices) {
        auto number = in.get<uint8_t>();
        if (number > kDevicesMost) return std::nullopt;
        for (int i = 0; i < number && !in.failed(); ++i) {
            KnownDevice each;
            each.name = in.get_text(kNameMost);
            get_gid(in, each.gid);
            out.devices.push_back(std::move(each));
        }
    }
    if (in.failed() || in.left() != 0) return std::nullopt;
    return out;
}

}  // namespace pomona::rdma
