// mpi/trace/clocks.cc: see clocks.h.
#include "mpi/trace/clocks.h"

namespace pomona::trace {

void improve(ClockPoint& best, const Round& round) {
    int64_t half = (round.answered - round.sent) / 2;
    if (best.error > 0 && half >= best.error) return;
    best.error = half > 0 ? half : 1;
    best.at = round.there;
    best.offset = round.sent + half - round.there;
}

int64_t aligned(const PartHeader& part, int64_t time) {
    const ClockPoint& first = part.clock[0];
    const ClockPoint& last = part.clock[1];
    if (part.points < 2 || last.at <= first.at) return time + first.offset;
    double share = static_cast<double>(time - first.at) / static_cast<double>(last.at - first.at);
    auto drift = static_cast<double>(last.offset - first.offset);
    return time + first.offset + static_cast<int64_t>(drift * share);
}

}  // namespace pomona::trace
