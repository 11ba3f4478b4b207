// overlap.cc: see overlap.h.
#include "torch_glue/overlap.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace pomona::glue {

Range range_of(const at::Tensor& t) {
    if (t.numel() == 0) return {};
    int64_t last = 0;
    for (int64_t i = 0; i < t.dim(); ++i) last += (t.size(i) - 1) * t.stride(i);
    const auto begin = reinterpret_cast<uintptr_t>(t.data_ptr());
    return {begin, begin + static_cast<uintptr_t>(last + 1) * t.element_size()};
}

bool overlaps(const at::Tensor& a, const at::Tensor& b) {
    const Range one = range_of(a), two = range_of(b);
    return one.begin < two.end && two.begin < one.end;
}

bool any_overlap(std::vector<Range> ranges) {
    ranges.erase(std::remove_if(ranges.begin(), ranges.end(),
                                [](const Range& each) { return each.begin == each.end; }),
                 ranges.end());
    const auto before = [](const Range& a, const Range& b) { return a.begin < b.begin; };
    if (!std::is_sorted(ranges.begin(), ranges.end(), before))
        std::sort(ranges.begin(), ranges.end(), before);
    for (size_t i = 1; i < ranges.size(); ++i)
        if (ranges[i].begin < ranges[i - 1].end) return true;
    return false;
}

bool any_overlap(const std::vector<at::Tensor>& tensors) {
    std::vector<Range> ranges;
    ranges.reserve(tensors.size());
    for (const at::Tensor& t : tensors) ranges.push_back(range_of(t));
    return any_overlap(std::move(ranges));
}

bool pairs_overlap(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs) {
    if (outputs.size() < 2) return false;
    std::vector<Range> ranges;
    for (size_t i = 0; i < outputs.size(); ++i) {
        const Range out = range_of(outputs[i]), in = range_of(inputs[i]);
        if (overlaps(outputs[i], inputs[i])) {
            ranges.push_back({std::min(out.begin, in.begin), std::max(out.end, in.end)});
        } else {
            ranges.push_back(out);
            ranges.push_back(in);
        }
    }
    return any_overlap(std::move(ranges));
}

bool overlaps_others(const at::Tensor& t, const std::vector<at::Tensor>& list, int own) {
    const Range mine = range_of(t);
    for (size_t i = 0; i < list.size(); ++i) {
        if (!overlaps(t, list[i])) continue;
        const Range other = range_of(list[i]);
        const bool same = mine.begin == other.begin && mine.end == other.end;
        if (static_cast<int>(i) != own || !same) return true;
    }
    return false;
}

}  // namespace pomona::glue
