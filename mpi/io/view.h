// mpi/io/view.h: file views (MPI 5.0, section 14.3): which bytes of a file a process sees, in which
// order.
// Idea: a view is a stream of bytes: the data of filetype, filetype, ... from the displacement on.
// Positions are bytes of that stream, offsets are bytes of the file. Three questions are answered
// from the filetype's Layout, without lists of their own: where a position lies, which position
// comes first at an offset, and which segments of the file a piece of the stream is.
#pragma once

#include "mpi/io/posix.h"
#include "mpi/object/datatype.h"

namespace pomona {

// Calls visit(offset, length) for the blocks that hold bytes [from, to) of a layout's packed
// stream, in stream order, until one call returns false. Returns false then.
template <class Visit>
bool each_block(const Layout& layout, MPI_Count base, MPI_Count from, MPI_Count to, Visit& visit) {
    base += layout.origin;
    if (from >= to) return true;
    switch (layout.form) {
    case Layout::Form::block: return visit(base + from, to - from);
    case Layout::Form::loop: {
        MPI_Count one = layout.child->size;
        for (MPI_Count i = from / one; i * one < to; ++i)
            if (!each_block(*layout.child, base + i * layout.stride,
                            std::max<MPI_Count>(from - i * one, 0), std::min(to - i * one, one),
                            visit))
                return false;
        return true;
    }
    case Layout::Form::runs: {
        const auto& runs = *layout.runs;
        for (size_t i = find_position(runs, from); runs[i].position < to; ++i) {
            MPI_Count first = std::max(from, runs[i].position),
                      last = std::min(to, runs[i + 1].position);
            if (!visit(base + runs[i].offset + first - runs[i].position, last - first))
                return false;
            if (last == to) break;
        }
        return true;
    }
    case Layout::Form::sequence: {
        const auto& parts = *layout.parts;
        for (size_t i = find_position(parts, from); parts[i].position < to; ++i) {
            MPI_Count at = parts[i].position, size = parts[i].layout.size;
            if (!each_block(parts[i].layout, base, std::max<MPI_Count>(from - at, 0),
                            std::min(to - at, size), visit))
                return false;
            if (at + size >= to) break;
        }
        return true;
    }
    }
    return true;
}

class View {
public:
    // The view that a file has after its opening: bytes.
    View();
    // Checks what the standard asks of etype and filetype; `writable`: parts may not overlap.
    static IoError make(MPI_Offset displacement, Datatype& etype, Datatype& filetype,
                        const std::string& datarep, bool writable, View& out);

    MPI_Offset displacement() const { return displacement_; }
    Datatype& etype() const { return *etype_; }
    Datatype& filetype() const { return *filetype_; }
    const std::string& datarep() const { return datarep_; }
    // Files hold big-endian data of standard sizes.
    bool external() const { return external_; }
    // Bytes of one element of a type in the stream, and of an etype.
    MPI_Count stream_size(const Datatype& type) const;
    MPI_Count etype_size() const { return etype_size_; }
    // The extent of a type as it lies in the file.
    MPI_Count file_extent(Datatype& type) const;
    // Bytes that one filetype adds to the stream; 0: the view is empty.
    MPI_Count filetype_size() const { return layout_.size; }
    // Offsets grow with positions.
    bool ordered() const { return ordered_; }
    // The stream is one segment of the file.
    bool contiguous() const { return contiguous_; }
    // The mean length of what lies in one piece.
    MPI_Count mean_block() const { return mean_block_; }

    // Whether [position, position + length) is in the view and its offsets fit 64 bits.
    bool covers(MPI_Offset position, MPI_Offset length) const;
    // The offset of the stream's byte `position`.
    MPI_Offset locate(MPI_Offset position) const;
    // The first position whose offset is not below `offset`; the view must not be empty.
    MPI_Offset first_at(MPI_Offset offset) const;

    // Calls visit(offset, length) for the segments of [position, position + length), those that
    // touch in one piece, until it returns false.
    template <class Visit>
    void each_segment(MPI_Offset position, MPI_Offset length, Visit visit) const {
        if (length == 0) return;
        if (contiguous_) {
            visit(locate(position), length);
            return;
        }
        MPI_Offset start = 0, size = 0;
        bool going = true;
        auto merge = [&](MPI_Offset offset, MPI_Offset bytes) {
            if (size && start + size == offset) return size += bytes, true;
            if (size) going = visit(start, size);
            start = offset;
            size = bytes;
            return going;
        };
        MPI_Offset first = position % layout_.size;
        for (MPI_Offset base = displacement_ + position / layout_.size * extent_;
             length > 0 && going; base += extent_) {
            MPI_Offset last = std::min(layout_.size, first + length);
            each_block(layout_, base, first, last, merge);
            length -= last - first;
            first = 0;
        }
        if (going) visit(start, size);
    }

private:
    MPI_Offset displacement_ = 0;
    Ref<Datatype> etype_, filetype_;
    std::string datarep_ = "native";
    bool external_ = false;
    Layout layout_;
    MPI_Count extent_ = 1;
    MPI_Count etype_size_ = 1;
    MPI_Count mean_block_ = 0;
    bool ordered_ = true;
    bool contiguous_ = true;
};

}  // namespace pomona
