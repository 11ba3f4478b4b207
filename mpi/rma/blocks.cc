// mpi/rma/blocks.cc: walks a datatype's Layout.
#include "mpi/rma/blocks.h"

namespace pomona {

static void add(std::vector<RmaBlock>& out, uint64_t offset, uint64_t length) {
    if (length == 0) return;
    if (!out.empty() && out.back().offset + out.back().length == offset)
        out.back().length += length;
    else out.push_back({offset, length});
}

static void walk(const Layout& layout, uint64_t at, std::vector<RmaBlock>& out) {
    at += static_cast<uint64_t>(layout.origin);
    switch (layout.form) {
    case Layout::Form::block: return add(out, at, static_cast<uint64_t>(layout.size));
    case Layout::Form::loop:
        for (MPI_Count i = 0; i < layout.count; ++i)
            walk(*layout.child, at + static_cast<uint64_t>(i * layout.stride), out);
        return;
    case Layout::Form::runs: {
        const auto& runs = *layout.runs;
        for (size_t i = 0; i + 1 < runs.size(); ++i)
            add(out, at + static_cast<uint64_t>(runs[i].offset),
                static_cast<uint64_t>(runs[i + 1].position - runs[i].position));
        return;
    }
    case Layout::Form::sequence:
        for (size_t i = 0; i + 1 < layout.parts->size(); ++i)
            walk((*layout.parts)[i].layout, at, out);
        return;
    }
}

void flatten(const Datatype& type, MPI_Count count, uint64_t base, std::vector<RmaBlock>& out) {
    out.clear();
    if (count == 0 || type.size() == 0) return;
    if (type.contiguous(count)) {
        out.push_back({base + static_cast<uint64_t>(type.true_lb()),
                       static_cast<uint64_t>(count) * static_cast<uint64_t>(type.size())});
        return;
    }
    for (MPI_Count i = 0; i < count; ++i)
        walk(type.layout(), base + static_cast<uint64_t>(i * type.extent()), out);
}

void flatten_gapped(const Datatype& type, MPI_Count count, const Datatype& basic, uint64_t base,
                    std::vector<RmaBlock>& out) {
    std::vector<RmaBlock> pieces;
    flatten(type, count, base, pieces);
    out.clear();
    auto size = static_cast<uint64_t>(basic.size());
    auto extent = static_cast<uint64_t>(basic.extent());
    uint64_t position = 0;  // in the packed stream; an element begins at each multiple of its size
    for (const RmaBlock& piece : pieces) {
        uint64_t skip = (size - position % size) % size;
        for (uint64_t at = skip; at < piece.length;) {
            add(out, piece.offset + at, extent);
            at += size;
        }
        position += piece.length;
    }
}

}  // namespace pomona
