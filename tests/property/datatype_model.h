// tests/property/datatype_model.h: datatypes as the standard defines them: a list of (basic type,
// displacement) and markers. Slow and plain; the reference for mpi/object/datatype.
#pragma once

#include "mpi/object/datatype.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

namespace pomona::test {

struct Model {
    struct Item {
        MPI_Count offset;
        const Datatype* basic;
    };
    std::vector<Item> items;
    std::vector<MPI_Count> lb_marks, ub_marks;

    MPI_Count size() const {
        MPI_Count sum = 0;
        for (const Item& each : items) sum += each.basic->size();
        return sum;
    }
    MPI_Count true_lb() const {
        if (items.empty()) return 0;
        MPI_Count low = items[0].offset;
        for (const Item& each : items) low = std::min(low, each.offset);
        return low;
    }
    MPI_Count true_ub() const {
        if (items.empty()) return 0;
        MPI_Count high = items[0].offset + items[0].basic->size();
        for (const Item& each : items) high = std::max(high, each.offset + each.basic->size());
        return high;
    }
    MPI_Count lb() const {
        return lb_marks.empty() ? true_lb() : *std::min_element(lb_marks.begin(), lb_marks.end());
    }
    MPI_Count ub() const {
        if (!ub_marks.empty()) return *std::max_element(ub_marks.begin(), ub_marks.end());
        MPI_Count alignment = 1;
        for (const Item& each : items)
            alignment = std::max<MPI_Count>(alignment, each.basic->alignment());
        MPI_Count extent = true_ub() - lb();
        return lb() + (extent + alignment - 1) / alignment * alignment;
    }
    MPI_Count extent() const { return ub() - lb(); }

    void add(const Model& other, MPI_Count at) {
        for (const Item& each : other.items) items.push_back({each.offset + at, each.basic});
        for (MPI_Count each : other.lb_marks) lb_marks.push_back(each + at);
        for (MPI_Count each : other.ub_marks) ub_marks.push_back(each + at);
    }
    void add_block(const Model& other, MPI_Count count, MPI_Count at) {
        MPI_Count extent = other.extent();
        for (MPI_Count i = 0; i < count; ++i) add(other, at + i * extent);
    }
    bool overlaps() const {
        std::vector<Item> sorted = items;
        std::sort(sorted.begin(), sorted.end(),
                  [](const Item& a, const Item& b) { return a.offset < b.offset; });
        for (size_t i = 1; i < sorted.size(); ++i)
            if (sorted[i - 1].offset + sorted[i - 1].basic->size() > sorted[i].offset) return true;
        return false;
    }
    static Model of(const Datatype& predefined) {
        Model made;
        if (!predefined.pair(0)) {
            made.items = {{0, &predefined}};
        } else {
            MPI_Count second = predefined.true_extent() - predefined.pair(1)->size();
            made.items = {{0, predefined.pair(0)}, {second, predefined.pair(1)}};
        }
        return made;
    }
};

// A datatype and what it should be.
struct Sample {
    Ref<Datatype> type;
    Model model;
};

}  // namespace pomona::test
