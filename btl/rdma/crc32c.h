// btl/rdma/crc32c.h: the checksum of messages (Castagnoli's polynomial, as iSCSI has it: RFC 3720).
#pragma once

#include "btl/base/bytes.h"

#include <vector>

namespace pomona::rdma {

uint32_t crc32c(ConstBytes bytes);
// The state behind `bytes`, which are copied as well unless `to` is null, in one pass where the
// processor can. A checksum is the inverse of the state behind all from ~0 on.
uint32_t crc32c_state(uint32_t state, ConstBytes bytes, std::byte* to);
// The state behind what has led to `first` and behind kCrcPart bytes more, which lead from 0 to
// `second`.
inline constexpr size_t kCrcPart = 16 << 10;
uint32_t crc32c_joined(uint32_t first, uint32_t second);
// By a table alone: for tests.
uint32_t crc32c_plain(ConstBytes bytes);
// A way to compute it: the state behind `bytes`, which are copied as well unless `to` is null.
struct CrcForm {
    using Sum = uint32_t (*)(uint32_t state, ConstBytes bytes, std::byte* to);
    const char* name;
    Sum sum;
};
// Those that this processor has, the last of which is used: for tests.
std::vector<CrcForm> crc32c_forms();
// The processor has an instruction for it.
bool crc32c_is_quick();

}  // namespace pomona::rdma
