// btl/shm/ring_list.h: which of many inbound rings a poll looks at.
// Idea: those that brought something lately stand near, and every poll looks at them; of the others
// it looks at a few, in turn. So a poll costs the same however many peers have fallen silent, and
// nobody's frame waits for longer than some polls. Whoever is about to sleep looks at all.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace pomona {

class RingList {
public:
    RingList(size_t near_most, size_t far_looks) : near_most_(near_most), far_looks_(far_looks) {}

    void add(int index) {
        rings_.push_back(index);
        come_near(rings_.size() - 1);
    }
    // The next poll looks at this one.
    void bring_near(int index) {
        auto found = std::find(rings_.begin(), rings_.end(), index);
        if (found != rings_.end()) come_near(static_cast<size_t>(found - rings_.begin()));
    }

    // One poll: look(index) says how many frames a ring has brought; ends when over() says so. The
    // next poll begins behind the ring that brought the last, so that none is passed over for ever.
    template <class Look, class Over> int poll(Look look, Over over) {
        int handed = 0;
        size_t looks = std::min(rings_.size(), near_most_ + far_looks_);
        for (; looks > 0 && !over(); --looks) {
            size_t at = next();
            int brought = look(rings_[at]);
            handed += brought;
            if (brought > 0) come_near(at);
        }
        return handed;
    }

    const std::vector<int>& all() const { return rings_; }

private:
    size_t near() const { return std::min(near_most_, rings_.size()); }
    // Goes round through the near ones, then through some of the far ones, and so on.
    size_t next() {
        size_t far = rings_.size() - near();
        if (step_ >= near() + std::min(far_looks_, far)) step_ = 0;
        if (step_ < near()) return step_++;
        ++step_;
        return near() + far_++ % far;
    }
    // In the place of the one that has stood near for longest.
    void come_near(size_t at) {
        if (at < near()) return;
        std::swap(rings_[at], rings_[oldest_]);
        oldest_ = (oldest_ + 1) % near_most_;
    }

    const size_t near_most_, far_looks_;
    std::vector<int> rings_;  // local indexes; the first near_most_ are near
    size_t step_ = 0;         // of a round
    size_t far_ = 0;          // far ones looked at, ever
    size_t oldest_ = 0;       // of the near ones
};

}  // namespace pomona
