// btl/base/queue.h: a first-in, first-out queue that takes no memory before it is first used.
// A std::deque takes half a KiB when it is made; there are as many peers as ranks, and most have
// none waiting.
#pragma once

#include <deque>
#include <memory>
#include <utility>

namespace pomona {

template <class T> class Queue {
public:
    bool empty() const { return !items_ || items_->empty(); }
    T& front() { return items_->front(); }
    void push_back(T item) {
        if (!items_) items_ = std::make_unique<std::deque<T>>();
        items_->push_back(std::move(item));
    }
    void pop_front() { items_->pop_front(); }
    void clear() { items_.reset(); }

private:
    std::unique_ptr<std::deque<T>> items_;
};

}  // namespace pomona
