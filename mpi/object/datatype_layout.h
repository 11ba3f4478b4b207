// mpi/object/datatype_layout.h: where the bytes of one datatype lie, ready for copying.
// Idea: a typemap reduced to four forms: one block, a loop at a fixed stride, a list of runs, and a
// sequence of smaller layouts. Building merges neighbours and finds the regular pattern once, so
// that packing is a few tight loops, and any byte of the packed stream is found by division and
// binary search. A Layout is a small value; lists are shared and never change.
#pragma once

#include "btl/base/bytes.h"
#include "mpi/include/mpi.h"

#include <algorithm>
#include <memory>
#include <vector>

namespace pomona {

struct LayoutPart;

struct Layout {
    enum class Form : uint8_t {
        block,    // `size` bytes
        loop,     // `count` times `child`, `stride` bytes apart
        runs,     // blocks of any length at any place
        sequence  // parts of any form
    };
    // One block of `runs`; its length is the difference to the next one's `position`.
    struct Run {
        MPI_Count offset;    // from the layout's origin
        MPI_Count position;  // in the packed stream
    };

    Form form = Form::block;
    MPI_Count origin = 0;  // from the element's address
    MPI_Count size = 0;    // bytes in the packed stream
    MPI_Count count = 0;
    MPI_Count stride = 0;
    MPI_Count run_length = 0;  // form runs: the length of every run if all are equal, else 0
    std::shared_ptr<const Layout> child;                   // its origin is 0
    std::shared_ptr<const std::vector<Run>> runs;          // and one more, which ends the last
    std::shared_ptr<const std::vector<LayoutPart>> parts;  // likewise

    static Layout block(MPI_Count size);
    Layout moved(MPI_Count by) const;
    // `count` copies, `stride` bytes apart.
    Layout repeated(MPI_Count count, MPI_Count stride) const;
    // One after the other in the packed stream.
    static Layout joined(std::vector<Layout> layouts);
    // Blocks of lengths[i] * unit bytes at offsets[i] (lengths null: all are one unit).
    static Layout blocks(MPI_Count count, const MPI_Count* offsets, const MPI_Count* lengths,
                         MPI_Count unit);

    // Where byte `position` of one element's packed stream lies, from the element's address.
    MPI_Count locate(MPI_Count position) const;

    // Bytes [offset, offset + out.size()) of the packed stream of `count` elements, `extent` apart.
    void pack(const std::byte* base, MPI_Count count, MPI_Count extent, size_t offset,
              Bytes out) const;
    void unpack(std::byte* base, MPI_Count count, MPI_Count extent, size_t offset,
                ConstBytes in) const;
};

struct LayoutPart {
    Layout layout;
    MPI_Count position = 0;  // in the packed stream
};

// The entry of runs or parts whose bytes include `position`; the last, which has none, for the end.
template <class Entry> size_t find_position(const std::vector<Entry>& list, MPI_Count position) {
    auto next = std::upper_bound(list.begin(), list.end(), position,
                                 [](MPI_Count p, const Entry& e) { return p < e.position; });
    return static_cast<size_t>(next - list.begin()) - 1;
}

}  // namespace pomona
