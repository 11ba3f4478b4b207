// btl/link/leaving.cc: before the program goes on without MPI: what others wait for leaves, and
// what is over for the program is left to paths that bring it without this process.
#include "btl/link/state.h"

#include <algorithm>

namespace pomona::link {

void Link::hurry(bool leaves) {
    if (over) return;
    if (owes_end_) send_owed_state();
    if (leaves && strands()) leave_behind();
}

// Has a path taken a part of a message only?
bool Link::brings_message() const {
    return std::any_of(paths.begin(), paths.end(),
                       [](const Path& path) { return path.busy() && !path.sending; });
}

// The path that has taken this frame, which has no room, into memory of its own; null: none. One
// that needs this process for room, as by RDMA, takes none: then another one, whatever its order.
Path* Link::hand_over(uint64_t number) {
    const Kept& frame = window_[number];
    FrameHeader header = message_header(number).pack();
    auto takes = [&](Path& path) {
        return path.usable() && !path.busy() &&
               path.endpoint->push_kept(header, window_.bytes(frame),
                                        {frame.data, frame.data_length});
    };
    for (Path* path : order_)
        if (takes(*path)) return path;
    auto other = std::find_if(paths.begin(), paths.end(), takes);
    return other == paths.end() ? nullptr : &*other;
}

// What is over for the program must not wait for it. Messages of which it waits to hear are its
// own, and those behind them.
void Link::leave_behind() {
    for (Path& path : paths)
        if (path.busy() && !path.sending &&
            path.endpoint->keep_rest(
                {message_bytes(path.begun) + path.rest_offset, path.rest_length}))
            path.rest_length = 0;
    for (; first_unsent_ < window_.next(); ++first_unsent_) {
        Kept& frame = window_[first_unsent_];
        if (frame.path != kUnsent) continue;
        if (frame.ticket != 0 || frame.kind == Kind::relay) return;
        Path* path = hand_over(first_unsent_);
        if (!path) return;
        note_sent(frame, *path, window_.first() == first_unsent_);
    }
}

}  // namespace pomona::link
