// coll/helper.cc: see helper.h.
#include "coll/helper.h"

#include "btl/base/thread_role.h"
#include "btl/base/word_wait.h"

#include <algorithm>
#include <system_error>

namespace pomona::coll {

std::unique_ptr<Helper> Helper::start() {
    std::unique_ptr<Helper> out(new Helper);
    try {
        out->thread_ = std::thread([helper = out.get()] { helper->run(); });
    } catch (const std::system_error&) { return nullptr; }
    return out;
}

Helper::~Helper() {
    if (!thread_.joinable()) return;
    stop_.store(true, std::memory_order_relaxed);
    next_.fetch_add(1, std::memory_order_seq_cst);  // no reduction: it looks at stop_ first
    WordWait::system().wake_all(next_);
    thread_.join();
}

bool Helper::offer(const AsideReduction& reduction, Completion& done) {
    uint32_t number = next_.load(std::memory_order_relaxed);
    if (number - first_ == kSlots) return false;
    Slot& here = slot(number);
    here.reduction = reduction;
    here.done = &done;
    here.parts =
        static_cast<int>(std::max<size_t>(1, reduction.count * reduction.element / kReducePart));
    here.over.store(0, std::memory_order_relaxed);
    here.left.store(here.parts, std::memory_order_release);
    // Pairs with the thread, which says that it sleeps and then looks at the number.
    next_.store(number + 1, std::memory_order_seq_cst);
    if (asleep_.load(std::memory_order_seq_cst)) WordWait::system().wake_all(next_);
    return true;
}

size_t Helper::take_part(Slot& slot) {
    if (slot.left.load(std::memory_order_relaxed) <= 0) return 0;
    int left = slot.left.fetch_sub(1, std::memory_order_acquire);
    if (left <= 0) return 0;
    const AsideReduction& all = slot.reduction;
    size_t each = kReducePart / all.element, begin = static_cast<size_t>(slot.parts - left) * each;
    size_t count = left == 1 ? all.count - begin : each, at = begin * all.element;
    all.kernel->to(all.out + at, all.left + at, all.right + at, count);
    slot.over.fetch_add(1, std::memory_order_release);
    return count * all.element;
}

size_t Helper::take_part() {
    uint32_t end = next_.load(std::memory_order_relaxed);
    for (uint32_t number = first_; number != end; ++number)
        if (size_t bytes = take_part(slot(number))) return bytes;
    return 0;
}

void Helper::collect() {
    while (busy()) {
        Slot& here = slot(first_);
        if (here.over.load(std::memory_order_acquire) != here.parts) return;
        ++first_;
        here.done->function(here.done, nullptr);  // may offer more
    }
}

void Helper::run() {
    become_helper_thread();
    for (uint32_t number = 0; !stop_.load(std::memory_order_relaxed);) {
        if (number != next_.load(std::memory_order_acquire)) {
            Slot& here = slot(number++);
            while (size_t bytes = take_part(here))
                bytes_.fetch_add(bytes, std::memory_order_relaxed);
            continue;
        }
        asleep_.store(true, std::memory_order_seq_cst);
        if (next_.load(std::memory_order_seq_cst) == number &&
            !stop_.load(std::memory_order_relaxed))
            WordWait::system().wait(next_, number);
        asleep_.store(false, std::memory_order_relaxed);
    }
}

}  // namespace pomona::coll
