// mpi/check/buffers.cc: see buffers.h.
#include "mpi/check/buffers.h"

#include <algorithm>

namespace pomona {

// More basic elements are not walked through: then nothing is said of types with gaps.
static constexpr MPI_Count kElementsMost = 1 << 20;

static bool has_gaps(const Memory& memory) { return !memory.type->contiguous(memory.count); }
static bool too_many(const Memory& memory) {
    return has_gaps(memory) && memory.count * memory.type->basics() > kElementsMost;
}

static std::vector<std::pair<uintptr_t, uintptr_t>> runs_of(const Memory& memory) {
    std::vector<std::pair<uintptr_t, uintptr_t>> runs;
    auto* base = static_cast<std::byte*>(const_cast<void*>(memory.buffer));
    memory.type->each_basic(base, memory.count, [&](const Datatype& basic, std::byte* address) {
        auto begin = reinterpret_cast<uintptr_t>(address);
        uintptr_t end = begin + static_cast<uintptr_t>(basic.size());
        if (!runs.empty() && runs.back().second == begin) runs.back().second = end;
        else runs.emplace_back(begin, end);
    });
    std::sort(runs.begin(), runs.end());
    return runs;
}

BufferUses::Use BufferUses::use_of(const Memory& memory, uint64_t owner) {
    Use use{0, 0, memory.written, {}, owner};
    if (memory.count == 0 || memory.type->size() == 0 || too_many(memory)) return use;
    auto base = reinterpret_cast<uintptr_t>(memory.buffer);
    if (!has_gaps(memory)) {
        use.begin = base + static_cast<uintptr_t>(memory.type->true_lb());
        use.end = use.begin + static_cast<uintptr_t>(memory.count * memory.type->size());
        return use;
    }
    use.runs = runs_of(memory);
    use.begin = use.runs.front().first;
    for (const auto& [begin, end] : use.runs) use.end = std::max(use.end, end);
    return use;
}

static bool share_bytes(const BufferUses::Use& a, const BufferUses::Use& b) {
    std::vector<std::pair<uintptr_t, uintptr_t>> all_a{{a.begin, a.end}}, all_b{{b.begin, b.end}};
    const auto& left = a.runs.empty() ? all_a : a.runs;
    const auto& right = b.runs.empty() ? all_b : b.runs;
    size_t i = 0, j = 0;
    while (i < left.size() && j < right.size()) {
        if (left[i].first < right[j].second && right[j].first < left[i].second) return true;
        if (left[i].second <= right[j].second) ++i;
        else ++j;
    }
    return false;
}

const BufferUses::Use* BufferUses::conflict(const Memory& memory, uint64_t owner,
                                            const Counts& counts) const {
    if (uses_.empty()) return nullptr;
    Use use = use_of(memory, owner);
    if (use.begin == use.end) return nullptr;
    uintptr_t first = use.begin > longest_ ? use.begin - longest_ : 0;
    for (auto each = uses_.lower_bound(first); each != uses_.end() && each->first < use.end;
         ++each) {
        const Use& other = each->second;
        if (other.owner == owner || (!other.written && !use.written) || other.end <= use.begin)
            continue;
        if (share_bytes(use, other) && (!counts || counts(other))) return &other;
    }
    return nullptr;
}

BufferUses::Entry BufferUses::add(const Memory& memory, uint64_t owner) {
    Use use = use_of(memory, owner);
    longest_ = std::max(longest_, use.end - use.begin);
    return uses_.emplace(use.begin, std::move(use));
}

void BufferUses::remove(Entry entry) { uses_.erase(entry); }

}  // namespace pomona
