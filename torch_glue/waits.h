// waits.h: how long the program has waited for Futures, for the metrics.
// Idea: wait() of a Work is ours and is measured there; a Future is torch's, final, and says
// nothing. Python's wait() tells us (python/pomona/_futures.py). DistributedDataParallel waits in
// C++, at the end of the backward pass: the pass runs what was queued for its end in the order of
// queueing, and the reducer queues its wait when the last bucket has been started. So what is
// queued when a pass first asks for a Future runs just before, and is when the wait begins; each
// operation's share is told when the operation is over.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace pomona::glue {

// A thread's wait for one or several Futures.
class FutureWait {
public:
    using Clock = std::chrono::steady_clock;

    void begin();  // from now on; the first call counts
    // Of one of the operations, which is over now: the time since the wait began, or since another
    // one was over.
    std::chrono::nanoseconds share();

    // That of the backward pass which this thread is in; null: it is in none.
    static std::shared_ptr<FutureWait> of_backward_pass();

private:
    std::mutex mutex_;
    std::optional<Clock::time_point> until_;  // counted up to here
};

}  // namespace pomona::glue
