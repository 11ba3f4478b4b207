// btl/base/asking.h: which messages between machines go without asking their receiver first.
// Idea: a question and its answer wait on a slow line for what others have put on it, 2 to 6 ms at
// 0.1 and 1 Gb/s (docs/predict.md); a message that does not ask is one frame, for which all others
// wait, and is copied once more at its receiver. So a slow line takes without a question what it
// carries in a few times as long as an answer comes. By a quick one a question takes about as long
// as a copy, and messages in a row gain nothing from their questions' being left out. The link
// (btl/link) decides by this, and the price of a schedule (coll/price) reckons with it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>

namespace pomona::asking {

// What brings more, in bytes a nanosecond, lets nothing wait for long.
inline constexpr double kQuick = 0.3;
// Of what is no line.
inline constexpr double kNoLine = std::numeric_limits<double>::infinity();
// What a slow line takes without a question leaves in so long a time.
inline constexpr double kSlowTime = 26e6;
// The longest message by a quick line, and what may be under way then.
inline constexpr std::size_t kQuickMost = 128 << 10, kAloneMost = 32 << 10;
// Shorter ones never ask.
inline constexpr std::size_t kNever = 64 << 10;
// The longest message at all, unless tcp_eager_max says otherwise. Where hosts send in a ring an
// answer leaves its host behind what that sends, up to a MiB or what the system's sockets let stand
// before the line (docs/bench/README.md, sums.json).
inline constexpr std::size_t kLongest = 1 << 20;
// By a line that is not known.
inline constexpr std::size_t kUnknownMost = 256 << 10;
// The heads of frames do not count.
inline constexpr std::size_t kHeads = 1 << 10;

// The longest message that goes unasked by a line of `rate` bytes a nanosecond (0: not known), by
// which `under_way` bytes go already. By a slow one as many in a row may as it carries in
// kSlowTime, and the second in any case, so that the line does not wait for an answer while the
// first one leaves it, or its acknowledgement comes. An answer would have to wait for what its own
// host sends, so that the two directions of the line would work one after the other; so also where
// only one of two hosts knows yet that the line is slow. A line that is not known counts as slow.
inline std::size_t unasked_most(double rate, std::size_t under_way, std::size_t longest) {
    if (rate > kQuick) return under_way < kAloneMost ? std::min(longest, kQuickMost) : 0;
    std::size_t carried = rate == 0 ? kUnknownMost : static_cast<std::size_t>(rate * kSlowTime);
    std::size_t most = std::min(longest, carried);
    std::size_t before = carried - std::min(most, kUnknownMost);
    return under_way <= std::max(most, before) + kHeads ? most : 0;
}

inline bool is_slow(double byte_ns) { return byte_ns * kQuick >= 1; }

// What stands on a slow line before the answer to a question: the answer's host sends, too.
inline constexpr double kBefore = 64 << 10;

// How long a message by a line waits for the answer to its question, where one without bytes takes
// `message_ns`. By a quick one that is hidden, or as short as the copy that it spares: 0.
inline double ask_ns(double message_ns, double byte_ns) {
    return is_slow(byte_ns) ? 2 * message_ns + kBefore * byte_ns : 0;
}

}  // namespace pomona::asking
