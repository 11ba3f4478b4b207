// mpi/io/view.cc: checks filetypes and answers questions about a view.
#include "mpi/io/view.h"

#include "btl/base/format.h"
#include "mpi/io/external.h"
#include "mpi/object/datatype_external.h"

namespace pomona {

namespace {

// What the rules for filetypes need to know of a layout. Blocks are taken as Layout has them.
struct Shape {
    MPI_Count first = 0, last_start = 0, end = 0;  // of the first block, of the last one, of all
    MPI_Count blocks = 0;
    bool rising = true;    // no block starts before the one ahead of it
    bool disjoint = true;  // and none before that one's end

    void follow(const Shape& next) {
        if (next.blocks == 0) return;
        if (blocks == 0) {
            *this = next;
            return;
        }
        rising = rising && next.rising && next.first >= last_start;
        disjoint = disjoint && next.disjoint && next.first >= end;
        last_start = next.last_start;
        end = std::max(end, next.end);
        blocks += next.blocks;
    }
    Shape moved(MPI_Count by) const {
        Shape made = *this;
        made.first += by;
        made.last_start += by;
        made.end += by;
        return made;
    }
};

Shape shape_of(const Layout& layout) {
    Shape all;
    switch (layout.form) {
    case Layout::Form::block:
        if (layout.size > 0) all = {0, 0, layout.size, 1};
        break;
    case Layout::Form::loop: {
        // All steps relate alike, so two tell of all.
        Shape one = shape_of(*layout.child);
        all = one;
        if (layout.count > 1) all.follow(one.moved(layout.stride));
        if (layout.count > 2) {
            all.last_start = one.last_start + (layout.count - 1) * layout.stride;
            all.end = std::max(one.end, one.end + (layout.count - 1) * layout.stride);
            all.blocks = one.blocks * layout.count;
        }
        break;
    }
    case Layout::Form::runs:
        for (size_t i = 0; i + 1 < layout.runs->size(); ++i) {
            const auto& run = (*layout.runs)[i];
            MPI_Count length = (*layout.runs)[i + 1].position - run.position;
            all.follow({run.offset, run.offset, run.offset + length, 1});
        }
        break;
    case Layout::Form::sequence:
        for (const LayoutPart& part : *layout.parts) all.follow(shape_of(part.layout));
        break;
    }
    return all.moved(layout.origin);
}

IoError wrong_type(const char* sentence) { return {MPI_ERR_TYPE, sentence}; }

}  // namespace

View::View() {
    auto& byte = Datatype::of(MPI_BYTE);
    etype_ = filetype_ = Ref<Datatype>::share(&byte);
    layout_ = byte.layout();
    mean_block_ = 1;
}

IoError View::make(MPI_Offset displacement, Datatype& etype, Datatype& filetype,
                   const std::string& datarep, bool writable, View& out) {
    if (displacement < 0)
        return {MPI_ERR_DISP, format("disp is {}; it must not be negative", displacement)};
    bool external = datarep == "external32";
    if (datarep != "native" && datarep != "internal" && !external)
        return {MPI_ERR_UNSUPPORTED_DATAREP,
                format("datarep is \"{}\"; Pomona has \"native\", \"internal\" and \"external32\"",
                       datarep)};
    if (etype.size() == 0) return wrong_type("etype has no data");
    Ref<Datatype> stored = Ref<Datatype>::share(&filetype);
    if (external) {
        auto made = external_form(filetype);
        if (!made.ok()) return {MPI_ERR_TYPE, made.error().what};
        stored = std::move(made).value();
    }
    const Layout& layout = stored->layout();
    MPI_Count etype_size = external ? external_size(etype) : etype.size();
    if (layout.size % etype_size != 0)
        return wrong_type("filetype does not consist of whole etypes");
    Shape shape = shape_of(layout);
    if (layout.size > 0) {
        if (shape.first < 0) return wrong_type("filetype has negative displacements");
        if (!shape.rising) return wrong_type("filetype has displacements that decrease");
        if (writable && !shape.disjoint)
            return wrong_type(
                "filetype overlaps itself; such files can be opened with "
                "MPI_MODE_RDONLY only");
        if (stored->extent() <= 0) return wrong_type("filetype has no extent");
    }
    out = View();
    out.displacement_ = displacement;
    out.etype_ = Ref<Datatype>::share(&etype);
    out.filetype_ = Ref<Datatype>::share(&filetype);
    out.datarep_ = datarep;
    out.layout_ = layout;
    out.external_ = external;
    out.extent_ = stored->extent();
    out.etype_size_ = etype_size;
    out.mean_block_ = shape.blocks ? layout.size / shape.blocks : 0;
    out.contiguous_ = stored->contiguous() && layout.size > 0;
    out.ordered_ = shape.disjoint && shape.end - shape.first <= out.extent_;
    return {};
}

MPI_Count View::stream_size(const Datatype& type) const {
    return external_ ? external_size(type) : type.size();
}

MPI_Count View::file_extent(Datatype& type) const {
    if (!external_) return type.extent();
    auto made = external_form(type);
    return made.ok() ? (*made)->extent() : type.extent();
}

bool View::covers(MPI_Offset position, MPI_Offset length) const {
    if (length == 0) return true;
    if (layout_.size == 0) return false;
    MPI_Offset last, tile_start;
    if (__builtin_add_overflow(position, length, &last)) return false;
    // One tile more than needed bounds every offset in the last one.
    if (__builtin_mul_overflow(last / layout_.size + 2, extent_, &tile_start)) return false;
    return !__builtin_add_overflow(tile_start, displacement_ + layout_.origin, &tile_start);
}

MPI_Offset View::locate(MPI_Offset position) const {
    if (layout_.size == 0) return displacement_;
    return displacement_ + position / layout_.size * extent_ +
           layout_.locate(position % layout_.size);
}

// Binary search: first for the tile, then within it. Positions stay far below overflow, as tiles
// before `offset` have offsets below it.
MPI_Offset View::first_at(MPI_Offset offset) const {
    MPI_Offset relative = offset - displacement_ - layout_.locate(0);
    if (relative <= 0) return 0;
    if (contiguous_) return relative;
    // The tile before may reach into this one's extent, but none earlier.
    MPI_Offset tile = relative / extent_;
    if (tile > 0) --tile;
    MPI_Offset low = tile * layout_.size, high = (tile + 3) * layout_.size;
    while (low < high) {
        MPI_Offset middle = low + (high - low) / 2;
        if (locate(middle) >= offset) high = middle;
        else low = middle + 1;
    }
    return low;
}

}  // namespace pomona
