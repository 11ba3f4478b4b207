// waits.cc: see waits.h.
#include "torch_glue/waits.h"

#include <torch/csrc/autograd/engine.h>

namespace pomona::glue {

void FutureWait::begin() {
    std::lock_guard lock(mutex_);
    if (!until_) until_ = Clock::now();
}

std::chrono::nanoseconds FutureWait::share() {
    std::lock_guard lock(mutex_);
    if (!until_) return std::chrono::nanoseconds(0);
    const auto now = Clock::now();
    return now - std::exchange(*until_, now);
}

std::shared_ptr<FutureWait> FutureWait::of_backward_pass() {
    thread_local int last_pass = -1;
    thread_local std::weak_ptr<FutureWait> last;
    const int pass = torch::autograd::get_current_graph_task_id();
    if (pass < 0) return nullptr;
    if (pass == last_pass) return last.lock();  // null: its end has been
    const auto made = std::make_shared<FutureWait>();
    torch::autograd::Engine::get_default_engine().queue_callback([made] { made->begin(); });
    last_pass = pass;
    last = made;
    return made;
}

}  // namespace pomona::glue
