// python_end.h: may a thread of ours still drop a tensor?
// Python is ending: a thread of ours that drops the last reference to a tensor would wait for the
// GIL forever (or be ended inside it). From then on references are leaked; stop_futures() waits for
// the threads that are past the check. Sequentially consistent: flag and count answer each other.
#pragma once

#include <atomic>

namespace pomona::glue {

inline std::atomic<bool> python_ended{false};
inline std::atomic<int> threads_releasing{0};

struct Releasing {
    Releasing() { threads_releasing.fetch_add(1); }
    ~Releasing() { threads_releasing.fetch_sub(1); }
    bool allowed() const { return !python_ended.load(); }
};

}  // namespace pomona::glue
