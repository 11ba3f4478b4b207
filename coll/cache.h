// coll/cache.h: the schedules a communicator used lately, by shape.
// Idea: programs repeat few shapes, and replaying a schedule costs a hundredth of building it. The
// one used last is compared first; beyond, a linear search over hashes. Not locked: the caller
// holds its communicator's engine.
#pragma once

#include "coll/select.h"

#include <memory>
#include <vector>

namespace pomona::coll {

class ScheduleCache {
public:
    explicit ScheduleCache(size_t capacity = 64) : capacity_(capacity ? capacity : 1) {}

    // The schedule for the shape, made if need be (then `built` is set). Shared, because it may
    // be dropped from the cache while it runs; a reference, good until the next call, because
    // whoever has it already need not count once more. `machine`: always the same one, unless
    // clear() is called.
    const std::shared_ptr<const Schedule>& get(const Shape& shape, const Machine& machine,
                                               const Choice& choice = {}, bool* built = nullptr,
                                               std::span<const Rules* const> rules = {});
    // That of the last call, if this one is of the same shape; else null, and get() knows.
    const std::shared_ptr<const Schedule>* again(const Shape& shape) const {
        if (last_ >= entries_.size() || !same(entries_[last_]->shape, shape)) return nullptr;
        return &entries_[last_]->schedule;
    }
    size_t size() const { return entries_.size(); }
    void clear() { entries_.clear(); }

private:
    struct Entry {
        uint64_t hash = 0;
        Shape shape;  // its spans refer to the vectors below
        std::vector<Block> input_blocks, result_blocks;
        std::vector<int> sources, destinations;
        std::shared_ptr<const Schedule> schedule;
        uint64_t used = 0;
    };
    static uint64_t hash_of(const Shape& shape);
    static bool same(const Shape& a, const Shape& b);
    Entry& place();

    size_t capacity_;
    uint64_t clock_ = 0;
    size_t last_ = 0;
    std::vector<std::unique_ptr<Entry>> entries_;
};

}  // namespace pomona::coll
