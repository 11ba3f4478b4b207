// coll/cache.cc: lookup by hash, replacement of what was used longest ago.
#include "coll/cache.h"

#include <algorithm>

namespace pomona::coll {

namespace {
template <class T> bool equal(std::span<const T> a, std::span<const T> b) {
    return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin());
}
template <class T> std::vector<T> copy_of(std::span<const T> a) { return {a.begin(), a.end()}; }

void mix(uint64_t& hash, uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
}
}  // namespace

bool ScheduleCache::same(const Shape& a, const Shape& b) {
    return a.collective == b.collective && a.count == b.count && a.element == b.element &&
           a.root == b.root && a.commutative == b.commutative && a.in_place == b.in_place &&
           a.irregular == b.irregular && a.board == b.board && a.rank == b.rank &&
           a.size == b.size && equal(a.input_blocks, b.input_blocks) &&
           equal(a.result_blocks, b.result_blocks) && equal(a.sources, b.sources) &&
           equal(a.destinations, b.destinations);
}

uint64_t ScheduleCache::hash_of(const Shape& shape) {
    uint64_t hash = static_cast<uint64_t>(shape.collective) << 56;
    mix(hash, shape.count);
    uint64_t flags = shape.board << 3 | shape.commutative << 2 | shape.in_place << 1 |
                     static_cast<int>(shape.irregular);
    mix(hash, shape.element << 34 ^ static_cast<uint64_t>(shape.root) << 4 ^ flags);
    for (auto blocks : {shape.input_blocks, shape.result_blocks})
        for (const Block& block : blocks) mix(hash, block.offset * 31 + block.length);
    for (int rank : shape.sources) mix(hash, static_cast<uint64_t>(rank) + 1);
    for (int rank : shape.destinations) mix(hash, static_cast<uint64_t>(rank) + 2);
    return hash;
}

const std::shared_ptr<const Schedule>& ScheduleCache::get(const Shape& shape,
                                                          const Machine& machine,
                                                          const Choice& choice, bool* built,
                                                          std::span<const Rules* const> rules) {
    if (built) *built = false;
    if (const auto* known = again(shape)) return *known;
    uint64_t hash = hash_of(shape);
    for (size_t i = 0; i < entries_.size(); ++i) {
        Entry& entry = *entries_[i];
        if (entry.hash != hash || !same(entry.shape, shape)) continue;
        entry.used = ++clock_;
        last_ = i;
        return entry.schedule;
    }
    if (built) *built = true;
    Plan plan = select(shape, machine, choice, rules);
    auto schedule =
        std::make_shared<const Schedule>(build_schedule(*plan.algorithm, shape, plan.options));
    Entry& entry = place();
    entry.hash = hash;
    entry.input_blocks = copy_of(shape.input_blocks);
    entry.result_blocks = copy_of(shape.result_blocks);
    entry.sources = copy_of(shape.sources);
    entry.destinations = copy_of(shape.destinations);
    entry.shape = shape;
    entry.shape.input_blocks = entry.input_blocks;
    entry.shape.result_blocks = entry.result_blocks;
    entry.shape.sources = entry.sources;
    entry.shape.destinations = entry.destinations;
    entry.shape.place({});  // of the communicator: the same for all
    entry.schedule = std::move(schedule);
    entry.used = ++clock_;
    return entry.schedule;
}

ScheduleCache::Entry& ScheduleCache::place() {
    if (entries_.size() < capacity_) {
        entries_.push_back(std::make_unique<Entry>());
        last_ = entries_.size() - 1;
    } else {
        auto oldest = std::min_element(entries_.begin(), entries_.end(),
                                       [](auto& a, auto& b) { return a->used < b->used; });
        last_ = static_cast<size_t>(oldest - entries_.begin());
    }
    return *entries_[last_];
}

}  // namespace pomona::coll
