// mpi/object/datatype_create.cc: the constructors of derived datatypes, but for arrays.
// Each computes the bounds, stops if they overflow, then builds the layout by the same steps.
#include "mpi/object/datatype_create.h"

#include "btl/base/check.h"

#include <map>
#include <mutex>

namespace pomona {

using Made = Datatype::Made;

Error datatype_overflow() {
    return {Code::invalid_argument,
            "The datatype's size, bounds or extent do not fit into 64 bits"};
}

// ---- DatatypeMaker

Bounds DatatypeMaker::bounds_of(const Datatype& type) {
    // Unmarked bounds are those of the basic types; padding is added once, for the whole.
    bool marked = type.explicit_bounds_;
    return {.lb = marked ? type.lb_ : type.true_lb_,
            .ub = marked ? type.ub_ : type.true_ub_,
            .true_lb = type.true_lb_,
            .true_ub = type.true_ub_,
            .size = type.size_,
            .marked = marked};
}

DatatypeMaker& DatatypeMaker::call(int combiner, std::vector<MPI_Count> arguments) {
    type->made_by_.combiner = combiner;
    type->made_by_.derived = true;
    type->made_by_.arguments = std::move(arguments);
    return *this;
}

DatatypeMaker& DatatypeMaker::of(Datatype& old, bool used) {
    auto& types = type->made_by_.types;
    types.push_back(Ref<Datatype>::share(&old));
    if (!used || old.size_ == 0) return *this;
    // alignment_ is 1 until the first used type has come.
    bool first = type->basics_ == 0;
    type->basics_ = 1;  // finish() computes the number
    type->uniform_ = first || type->uniform_ == old.uniform() ? old.uniform() : nullptr;
    type->alignment_ = std::max(type->alignment_, old.alignment_);
    type->varies_ |= old.varies_;
    return *this;
}

Made DatatypeMaker::finish(Bounds bounds, Layout layout) {
    bounds.pad(type->alignment_);
    if (!bounds.valid()) return datatype_overflow();
    check(bounds.size == layout.size, bounds.size, layout.size);
    Datatype& made = *type;
    made.size_ = bounds.size;
    made.lb_ = bounds.lb;
    made.ub_ = bounds.ub;
    made.true_lb_ = bounds.true_lb;
    made.true_ub_ = bounds.true_ub;
    made.explicit_bounds_ = bounds.marked;
    made.layout_ = std::move(layout);
    made.one_block_ = made.layout_.form == Layout::Form::block;
    made.contiguous_ = made.size_ == 0 || (made.one_block_ && made.size_ == made.extent());
    if (made.size_ == 0) made.uniform_ = nullptr;
    made.basics_ = 0;
    const auto& call = made.made_by_;
    for (size_t k = 0; k < call.types.size() && made.size_ > 0; ++k) {
        const Datatype& old = *call.types[k];
        bool structure = call.combiner == MPI_COMBINER_STRUCT;
        MPI_Count times = structure ? call.arguments[1 + k] : made.size_ / old.size_;
        made.basics_ += times * old.basics_;
    }
    for (const Ref<Datatype>& old : call.types) made.levels_ = std::max(made.levels_, old->levels_);
    if (!made.wrapped()) ++made.levels_;
    if (made.levels_ > Datatype::kLevelsMax)
        return Error{Code::unsupported, "The datatype is nested deeper than 2000 levels"};
    return std::move(type);
}

// ---- one old type at regular places

static Made regular(int combiner, std::vector<MPI_Count> arguments, Datatype& old, MPI_Count count,
                    MPI_Count block, MPI_Count stride_bytes) {
    DatatypeMaker maker;
    maker.call(combiner, std::move(arguments)).of(old);
    if (count == 0) block = 0;  // its length does not matter then
    Bounds bounds = DatatypeMaker::bounds_of(old);
    bounds.repeat(block, old.extent());
    bounds.repeat(count, stride_bytes);
    if (!bounds.valid()) return datatype_overflow();
    return maker.finish(bounds,
                        old.layout().repeated(block, old.extent()).repeated(count, stride_bytes));
}

Made Datatype::contiguous(MPI_Count count, Datatype& old) {
    return regular(MPI_COMBINER_CONTIGUOUS, {count}, old, 1, count, 0);
}

Made Datatype::vector(MPI_Count count, MPI_Count block, MPI_Count stride, Datatype& old) {
    Bounds arithmetic;
    MPI_Count stride_bytes = arithmetic.product(stride, old.extent());
    // A stride that is never used may be anything.
    if (arithmetic.overflow && count > 1 && block > 0) return datatype_overflow();
    return regular(MPI_COMBINER_VECTOR, {count, block, stride}, old, count, block, stride_bytes);
}

Made Datatype::hvector(MPI_Count count, MPI_Count block, MPI_Count stride_bytes, Datatype& old) {
    return regular(MPI_COMBINER_HVECTOR, {count, block, stride_bytes}, old, count, block,
                   stride_bytes);
}

// ---- one old type at irregular places

// blocks[i] elements at offsets[i] bytes; one entry in `blocks`: the same for all.
static Made irregular(DatatypeMaker& maker, Datatype& old, Counts blocks, Counts offsets) {
    maker.of(old);
    Bounds bounds;
    auto block = [&](size_t i) { return blocks.size() == 1 ? blocks[0] : blocks[i]; };
    for (size_t i = 0; i < offsets.size(); ++i) {
        Bounds one = DatatypeMaker::bounds_of(old);
        one.repeat(block(i), old.extent());
        one.move(offsets[i]);
        bounds.join(one);
    }
    if (!bounds.valid()) return datatype_overflow();
    if (old.contiguous() && old.true_lb() == 0) {
        auto count = static_cast<MPI_Count>(offsets.size());
        bool same = blocks.size() == 1;
        return maker.finish(bounds,
                            Layout::blocks(count, offsets.data(), same ? nullptr : blocks.data(),
                                           same ? blocks[0] * old.size() : old.size()));
    }
    std::vector<Layout> parts;
    parts.reserve(offsets.size());
    for (size_t i = 0; i < offsets.size(); ++i)
        if (block(i) > 0 && old.size() > 0)
            parts.push_back(old.layout().repeated(block(i), old.extent()).moved(offsets[i]));
    return maker.finish(bounds, Layout::joined(std::move(parts)));
}

static std::vector<MPI_Count> listed(std::initializer_list<MPI_Count> first, Counts second,
                                     Counts third = {}) {
    std::vector<MPI_Count> list(first);
    list.insert(list.end(), second.begin(), second.end());
    list.insert(list.end(), third.begin(), third.end());
    return list;
}

static Result<std::vector<MPI_Count>> in_bytes(Counts offsets, Counts blocks, Datatype& old) {
    Bounds arithmetic;
    std::vector<MPI_Count> bytes(offsets.size());
    for (size_t i = 0; i < offsets.size(); ++i)
        if ((blocks.size() == 1 ? blocks[0] : blocks[i]) > 0)
            bytes[i] = arithmetic.product(offsets[i], old.extent());
    if (arithmetic.overflow) return datatype_overflow();
    return bytes;
}

Made Datatype::indexed(Counts blocks, Counts offsets, Datatype& old) {
    auto bytes = TRY(in_bytes(offsets, blocks, old));
    DatatypeMaker maker;
    auto count = static_cast<MPI_Count>(offsets.size());
    maker.call(MPI_COMBINER_INDEXED, listed({count}, blocks, offsets));
    return irregular(maker, old, blocks, bytes);
}

Made Datatype::hindexed(Counts blocks, Counts offsets_bytes, Datatype& old) {
    DatatypeMaker maker;
    auto count = static_cast<MPI_Count>(offsets_bytes.size());
    maker.call(MPI_COMBINER_HINDEXED, listed({count}, blocks, offsets_bytes));
    return irregular(maker, old, blocks, offsets_bytes);
}

Made Datatype::indexed_block(MPI_Count block, Counts offsets, Datatype& old) {
    auto bytes = TRY(in_bytes(offsets, Counts(&block, 1), old));
    DatatypeMaker maker;
    auto count = static_cast<MPI_Count>(offsets.size());
    maker.call(MPI_COMBINER_INDEXED_BLOCK, listed({count, block}, offsets));
    return irregular(maker, old, Counts(&block, 1), bytes);
}

Made Datatype::hindexed_block(MPI_Count block, Counts offsets_bytes, Datatype& old) {
    DatatypeMaker maker;
    auto count = static_cast<MPI_Count>(offsets_bytes.size());
    maker.call(MPI_COMBINER_HINDEXED_BLOCK, listed({count, block}, offsets_bytes));
    return irregular(maker, old, Counts(&block, 1), offsets_bytes);
}

// ---- several old types

Made Datatype::structure(Counts blocks, Counts offsets_bytes, std::span<Datatype* const> types) {
    DatatypeMaker maker;
    auto count = static_cast<MPI_Count>(types.size());
    maker.call(MPI_COMBINER_STRUCT, listed({count}, blocks, offsets_bytes));
    Bounds bounds;
    for (size_t i = 0; i < types.size(); ++i) {
        maker.of(*types[i], blocks[i] > 0);
        Bounds one = DatatypeMaker::bounds_of(*types[i]);
        one.repeat(blocks[i], types[i]->extent());
        one.move(offsets_bytes[i]);
        bounds.join(one);
    }
    if (!bounds.valid()) return datatype_overflow();
    std::vector<Layout> parts;
    parts.reserve(types.size());
    for (size_t i = 0; i < types.size(); ++i)
        if (blocks[i] > 0 && types[i]->size() > 0)
            parts.push_back(
                types[i]->layout().repeated(blocks[i], types[i]->extent()).moved(offsets_bytes[i]));
    return maker.finish(bounds, Layout::joined(std::move(parts)));
}

// ---- the same bytes again

Made Datatype::resized(Datatype& old, MPI_Count lb, MPI_Count extent) {
    DatatypeMaker maker;
    maker.call(MPI_COMBINER_RESIZED, {lb, extent}).of(old);
    Bounds bounds = DatatypeMaker::bounds_of(old);
    bounds.set(lb, extent);
    return maker.finish(bounds, old.layout());
}

Made Datatype::duplicate(Datatype& old) {
    DatatypeMaker maker;
    maker.call(MPI_COMBINER_DUP, {}).of(old);
    auto made = maker.finish(DatatypeMaker::bounds_of(old), old.layout());
    if (made.ok() && old.committed) (*made)->commit();
    return made;
}

Datatype& Datatype::fortran90(int combiner, std::vector<MPI_Count> arguments, Datatype& basic) {
    static std::mutex mutex;
    static auto& known = *new std::map<std::pair<int, std::vector<MPI_Count>>, Datatype*>;
    std::lock_guard guard(mutex);
    Datatype*& slot = known[{combiner, arguments}];
    if (slot) return *slot;
    auto made = duplicate(basic);
    check(made.ok());
    slot = made->detach();
    slot->made_by_ = {.combiner = combiner,
                      .derived = false,
                      .large = false,
                      .arguments = std::move(arguments),
                      .types = {}};
    slot->element_ = basic.element_;
    slot->basics_ = 1;
    slot->permanent = true;
    slot->commit();
    return *slot;
}

Ref<Datatype> Datatype::clone(Datatype& old) {
    if (old.permanent) return Ref<Datatype>::share(&old);
    auto made = duplicate(old);
    check(made.ok());
    (*made)->made_by_ = old.made_by_;
    return std::move(made).value();
}

}  // namespace pomona
