// mpi/object/datatype_create.h: how the constructors of derived datatypes compute bounds.
// Idea: Bounds follows the same steps as the Layout (move, repeat, join) in arithmetic that notices
// overflow; only when the bounds fit 64 bits is the layout built, with plain arithmetic.
#pragma once

#include "mpi/object/datatype.h"

#include <algorithm>

namespace pomona {

// lb, ub, true bounds and size of a typemap. `marked`: lb and ub were set by
// MPI_Type_create_resized somewhere inside; such bounds stick, and unmarked neighbours do not
// count (MPI 5.0, 5.1.6).
struct Bounds {
    MPI_Count lb = 0, ub = 0, true_lb = 0, true_ub = 0, size = 0;
    bool marked = false;
    bool overflow = false;

    bool empty() const { return size == 0 && !marked; }
    void move(MPI_Count by) {
        if (empty()) return;
        for (MPI_Count* each : {&lb, &ub, &true_lb, &true_ub}) *each = sum(*each, by);
        if (size == 0) true_lb = true_ub = 0;
    }
    void repeat(MPI_Count count, MPI_Count stride) {
        if (count == 0) {
            *this = {.overflow = overflow};
            return;
        }
        if (empty()) return;
        MPI_Count last = product(count - 1, stride);
        size = product(size, count);
        MPI_Count low = std::min<MPI_Count>(0, last), high = std::max<MPI_Count>(0, last);
        lb = sum(lb, low);
        ub = sum(ub, high);
        if (size == 0) return;
        true_lb = sum(true_lb, low);
        true_ub = sum(true_ub, high);
    }
    void join(const Bounds& other) {
        overflow |= other.overflow;
        if (other.size > 0) {
            true_lb = size > 0 ? std::min(true_lb, other.true_lb) : other.true_lb;
            true_ub = size > 0 ? std::max(true_ub, other.true_ub) : other.true_ub;
        }
        if (!other.empty()) {
            if (empty() || (other.marked && !marked)) {
                lb = other.lb;
                ub = other.ub;
            } else if (other.marked == marked) {
                lb = std::min(lb, other.lb);
                ub = std::max(ub, other.ub);
            }
        }
        size = sum(size, other.size);
        marked |= other.marked;
    }
    // Unmarked types end where the next element of the strictest alignment could begin.
    void pad(MPI_Count alignment) {
        if (marked || size == 0) return;
        MPI_Count extent = difference(ub, lb);
        if (extent % alignment != 0) ub = sum(ub, alignment - extent % alignment);
    }
    void set(MPI_Count new_lb, MPI_Count extent) {
        lb = new_lb;
        ub = sum(new_lb, extent);
        marked = true;
    }
    // Extents fit too.
    bool valid() {
        difference(ub, lb);
        difference(true_ub, true_lb);
        return !overflow;
    }

    MPI_Count sum(MPI_Count a, MPI_Count b) {
        MPI_Count result = 0;
        overflow |= __builtin_add_overflow(a, b, &result);
        return overflow ? 0 : result;
    }
    MPI_Count difference(MPI_Count a, MPI_Count b) {
        MPI_Count result = 0;
        overflow |= __builtin_sub_overflow(a, b, &result);
        return overflow ? 0 : result;
    }
    MPI_Count product(MPI_Count a, MPI_Count b) {
        MPI_Count result = 0;
        overflow |= __builtin_mul_overflow(a, b, &result);
        return overflow ? 0 : result;
    }
};

// Puts a datatype together; a friend of Datatype.
struct DatatypeMaker {
    Ref<Datatype> type{new Datatype};

    static Bounds bounds_of(const Datatype& type);
    // The call that is remembered.
    DatatypeMaker& call(int combiner, std::vector<MPI_Count> arguments);
    // One old type more, with a reference to it.
    DatatypeMaker& of(Datatype& old, bool used = true);
    // Bounds and layout are those of `times` elements of the one old type in some order, or of all.
    Datatype::Made finish(Bounds bounds, Layout layout);
};

Error datatype_overflow();

}  // namespace pomona
