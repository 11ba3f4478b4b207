// mpi/object/datatype_layout.cc: builds layouts in their simplest form.
// Every builder merges what touches, turns regular runs into loops and nested loops whose strides
// agree into one, so that two ways to describe the same bytes mostly end in the same layout.
#include "mpi/object/datatype_layout.h"

#include <algorithm>
#include <utility>

namespace pomona {

using Form = Layout::Form;

namespace {

struct Block {
    MPI_Count offset;
    MPI_Count size;
};

// Appends, merging with the block before if they touch.
void append(std::vector<Block>& blocks, MPI_Count offset, MPI_Count size) {
    if (size == 0) return;
    if (!blocks.empty() && blocks.back().offset + blocks.back().size == offset)
        blocks.back().size += size;
    else blocks.push_back({offset, size});
}

// At least two. Differences do not overflow: the true extent has been checked.
bool regular(const std::vector<Block>& blocks) {
    MPI_Count stride = blocks[1].offset - blocks[0].offset;
    for (size_t i = 1; i < blocks.size(); ++i)
        if (blocks[i].size != blocks[0].size || blocks[i].offset - blocks[i - 1].offset != stride)
            return false;
    return true;
}

Layout of_blocks(const std::vector<Block>& blocks) {
    if (blocks.empty()) return Layout::block(0);
    Layout first = Layout::block(blocks[0].size).moved(blocks[0].offset);
    if (blocks.size() == 1) return first;
    if (regular(blocks))
        return first.repeated(static_cast<MPI_Count>(blocks.size()),
                              blocks[1].offset - blocks[0].offset);
    Layout made;
    made.form = Form::runs;
    made.run_length = blocks[0].size;
    std::vector<Layout::Run> runs;
    runs.reserve(blocks.size() + 1);
    for (const Block& each : blocks) {
        runs.push_back({each.offset, made.size});
        made.size += each.size;
        if (each.size != blocks[0].size) made.run_length = 0;
    }
    runs.push_back({0, made.size});
    made.runs = std::make_shared<const std::vector<Layout::Run>>(std::move(runs));
    return made;
}

// Number of blocks, or a large number.
MPI_Count leaves(const Layout& layout) {
    constexpr MPI_Count many = MPI_Count{1} << 40;
    switch (layout.form) {
    case Form::block: return 1;
    case Form::loop:
        return std::min(layout.count, many) > many / leaves(*layout.child)
                   ? many
                   : layout.count * leaves(*layout.child);
    case Form::runs: return static_cast<MPI_Count>(layout.runs->size()) - 1;
    case Form::sequence: break;
    }
    MPI_Count sum = 0;
    for (size_t i = 0; i + 1 < layout.parts->size(); ++i)
        sum = std::min(many, sum + leaves((*layout.parts)[i].layout));
    return sum;
}

void append_all(std::vector<Block>& blocks, const Layout& layout, MPI_Count at) {
    at += layout.origin;
    switch (layout.form) {
    case Form::block: append(blocks, at, layout.size); break;
    case Form::loop:
        for (MPI_Count i = 0; i < layout.count; ++i)
            append_all(blocks, *layout.child, at + i * layout.stride);
        break;
    case Form::runs:
        for (size_t i = 0; i + 1 < layout.runs->size(); ++i) {
            const auto* run = &(*layout.runs)[i];
            append(blocks, at + run->offset, run[1].position - run->position);
        }
        break;
    case Form::sequence:
        for (size_t i = 0; i + 1 < layout.parts->size(); ++i)
            append_all(blocks, (*layout.parts)[i].layout, at);
        break;
    }
}

// Sequences within sequences become one; touching blocks too.
void append_flat(std::vector<Layout>& out, const Layout& layout, MPI_Count at) {
    if (layout.size == 0) return;
    if (layout.form == Form::sequence) {
        for (size_t i = 0; i + 1 < layout.parts->size(); ++i)
            append_flat(out, (*layout.parts)[i].layout, at + layout.origin);
        return;
    }
    Layout moved = layout.moved(at);
    if (!out.empty() && out.back().form == Form::block && moved.form == Form::block &&
        out.back().origin + out.back().size == moved.origin)
        out.back().size += moved.size;
    else out.push_back(std::move(moved));
}

}  // namespace

Layout Layout::block(MPI_Count size) {
    Layout made;
    made.size = size;
    return made;
}

Layout Layout::moved(MPI_Count by) const {
    Layout made = *this;
    made.origin += by;
    return made;
}

Layout Layout::repeated(MPI_Count times, MPI_Count apart) const {
    if (times == 0 || size == 0) return block(0);
    if (times == 1) return *this;
    Layout made;
    made.origin = origin;
    made.size = size * times;
    if (form == Form::block && apart == size) return made;
    made.form = Form::loop;
    made.count = times;
    made.stride = apart;
    MPI_Count own_span;
    if (form == Form::loop && !__builtin_mul_overflow(stride, count, &own_span) &&
        own_span == apart) {
        made.count *= count;
        made.stride = stride;
        made.child = child;
        return made;
    }
    auto inner = std::make_shared<Layout>(*this);
    inner->origin = 0;
    made.child = std::move(inner);
    return made;
}

MPI_Count Layout::locate(MPI_Count position) const {
    MPI_Count at = origin;
    switch (form) {
    case Form::block: return at + position;
    case Form::loop:
        return at + position / child->size * stride + child->locate(position % child->size);
    case Form::runs: {
        const Run& run = (*runs)[find_position(*runs, position)];
        return at + run.offset + position - run.position;
    }
    case Form::sequence: break;
    }
    const LayoutPart& part = (*parts)[find_position(*parts, position)];
    return at + part.layout.locate(position - part.position);
}

Layout Layout::joined(std::vector<Layout> layouts) {
    std::vector<Layout> flat;
    MPI_Count total = 0;
    for (const Layout& each : layouts) append_flat(flat, each, 0);
    for (const Layout& each : flat) total += leaves(each);
    if (flat.empty()) return block(0);
    if (flat.size() == 1) return flat[0];
    // Few small blocks are copied faster as one list than as parts with loops of their own.
    if (total <= 32 || total <= 4 * static_cast<MPI_Count>(flat.size())) {
        std::vector<Block> blocks;
        for (const Layout& each : flat) append_all(blocks, each, 0);
        return of_blocks(blocks);
    }
    Layout made;
    made.form = Form::sequence;
    std::vector<LayoutPart> parts;
    parts.reserve(flat.size() + 1);
    for (Layout& each : flat) {
        MPI_Count position = made.size;
        made.size += each.size;
        parts.push_back({std::move(each), position});
    }
    parts.push_back({block(0), made.size});
    made.parts = std::make_shared<const std::vector<LayoutPart>>(std::move(parts));
    return made;
}

Layout Layout::blocks(MPI_Count count, const MPI_Count* offsets, const MPI_Count* lengths,
                      MPI_Count unit) {
    std::vector<Block> list;
    list.reserve(static_cast<size_t>(count));
    for (MPI_Count i = 0; i < count; ++i)
        append(list, offsets[i], lengths ? lengths[i] * unit : unit);
    return of_blocks(list);
}

}  // namespace pomona
