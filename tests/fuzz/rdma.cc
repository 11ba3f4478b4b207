// tests/fuzz/rdma.cc: libFuzzer over what a rank reads of RDMA: the words by which two ranks agree,
// and the messages of a queue pair. Any input ends in a value or a refusal. Words that were
// accepted say the same on the way out and back; of a message that was accepted the payload lies
// within it, and within the frame that it belongs to. The first byte chooses the parser.
#include "btl/rdma/crc32c.h"
#include "btl/rdma/wire.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>

using namespace pomona;

static void must(bool holds) {
    if (!holds) std::abort();
}

static void words(ConstBytes bytes) {
    auto parsed = rdma::parse_words(bytes);
    if (!parsed) return;
    must(parsed->end.pairs.size() <= 2 && parsed->devices.size() <= UINT8_MAX);
    for (const rdma::PairPlace& each : parsed->end.pairs)
        must(each.slots > 0 && each.stride >= rdma::kLimits.frame &&
             each.slots * rdma::frames_of(each.stride) <= rdma::kLimits.frames_most);
    auto out = parsed->pack();
    must(out.size() == bytes.size());
    auto back = rdma::parse_words(out);
    must(back && back->pack() == out);
}

// As a slot holds it: behind an aligned head.
static void message(ConstBytes bytes, bool checked, bool mended) {
    alignas(rdma::MessageHead) static std::byte slot[rdma::kLimits.frame];
    size_t length = std::min(bytes.size(), sizeof slot);
    std::memcpy(slot, bytes.data(), length);
    auto& raw = *reinterpret_cast<rdma::MessageHead*>(slot);
    // Checksums that are right by chance are too rare to find what is behind them.
    if (mended && length >= sizeof raw) {
        bool apart = raw.checked == rdma::Checked::apart;
        size_t payload = apart ? 0 : std::min<size_t>(raw.length, length - sizeof raw);
        raw.magic = rdma::kMagic;
        raw.checksum =
            rdma::crc32c({slot + sizeof raw.checksum, sizeof raw - sizeof raw.checksum + payload});
    }
    const rdma::MessageHead* head = rdma::sound_head({slot, length}, checked);
    if (!head) return;
    must(length >= sizeof *head && head->length <= length - sizeof *head);
    must(head->length <= head->total);
    if (head->checked == rdma::Checked::apart) must(head->length == head->total);
    else must(head->offset <= head->total - head->length);
    static rdma::Copiers alone(0);
    rdma::payload_is_sound(*head, {slot + sizeof *head, head->length}, alone);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) return 0;
    ConstBytes rest{reinterpret_cast<const std::byte*>(data) + 1, size - 1};
    if (data[0] % 2 == 0) words(rest);
    else message(rest, (data[0] & 2) != 0, (data[0] & 4) != 0);
    return 0;
}
