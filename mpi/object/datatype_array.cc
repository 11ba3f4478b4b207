// mpi/object/datatype_array.cc: parts of arrays: MPI_Type_create_subarray and _darray.
// Idea: from the fastest dimension to the slowest, the layout so far is repeated along the
// dimension at its stride, for the piece or pieces that are chosen there. The result spans the
// whole array.
#include "mpi/object/datatype_create.h"

namespace pomona {

using Made = Datatype::Made;

namespace {

// What is chosen so far, and how far apart its copies lie in the dimension to come.
struct Chosen {
    Bounds bounds;
    Layout layout;
    MPI_Count stride;

    explicit Chosen(const Datatype& old)
        : bounds(DatatypeMaker::bounds_of(old)), layout(old.layout()), stride(old.extent()) {}

    // `blocks` blocks of `length` from `start` on, `step` apart, then one of `rest`; all in
    // elements of a dimension that has `whole`.
    bool choose(MPI_Count start, MPI_Count length, MPI_Count blocks, MPI_Count step, MPI_Count rest,
                MPI_Count whole) {
        Bounds one = bounds, last = bounds;
        MPI_Count from = one.product(start, stride), apart = one.product(step, stride);
        MPI_Count last_from = one.sum(from, one.product(apart, blocks));
        one.repeat(length, stride);
        one.repeat(blocks, apart);
        one.move(from);
        if (rest > 0) {
            last.repeat(rest, stride);
            last.move(last_from);
            one.join(last);
        }
        MPI_Count next_stride = one.product(stride, whole);
        if (!one.valid()) return false;
        Layout piece = layout.repeated(length, stride).repeated(blocks, apart).moved(from);
        if (rest > 0)
            piece = Layout::joined({piece, layout.repeated(rest, stride).moved(last_from)});
        bounds = one;
        layout = std::move(piece);
        stride = next_stride;
        return true;
    }
};

// The dimension that is the step-th fastest.
size_t dimension(int order, size_t dimensions, size_t step) {
    return order == MPI_ORDER_C ? dimensions - 1 - step : step;
}

}  // namespace

Made Datatype::subarray(Counts sizes, Counts subsizes, Counts starts, int order, Datatype& old) {
    DatatypeMaker maker;
    std::vector<MPI_Count> arguments{static_cast<MPI_Count>(sizes.size())};
    for (Counts each : {sizes, subsizes, starts})
        arguments.insert(arguments.end(), each.begin(), each.end());
    arguments.push_back(order);
    maker.call(MPI_COMBINER_SUBARRAY, std::move(arguments)).of(old);
    Chosen chosen(old);
    for (size_t step = 0; step < sizes.size(); ++step) {
        size_t d = dimension(order, sizes.size(), step);
        if (!chosen.choose(starts[d], subsizes[d], 1, 0, 0, sizes[d])) return datatype_overflow();
    }
    chosen.bounds.set(0, chosen.stride);
    return maker.finish(chosen.bounds, chosen.layout);
}

// The process's place in the grid is in row-major order, whatever the array's order.
Made Datatype::darray(const Distribution& to, Datatype& old) {
    size_t dimensions = to.global_sizes.size();
    DatatypeMaker maker;
    std::vector<MPI_Count> arguments{to.size, to.rank, static_cast<MPI_Count>(dimensions)};
    arguments.insert(arguments.end(), to.global_sizes.begin(), to.global_sizes.end());
    for (auto each : {to.kinds, to.arguments, to.process_sizes})
        arguments.insert(arguments.end(), each.begin(), each.end());
    arguments.push_back(to.order);
    maker.call(MPI_COMBINER_DARRAY, std::move(arguments)).of(old);

    std::vector<MPI_Count> place(dimensions);
    MPI_Count rank = to.rank;
    for (size_t d = dimensions; d-- > 0; rank /= to.process_sizes[d])
        place[d] = rank % to.process_sizes[d];

    Chosen chosen(old);
    for (size_t step = 0; step < dimensions; ++step) {
        size_t d = dimension(to.order, dimensions, step);
        MPI_Count whole = to.global_sizes[d], processes = to.process_sizes[d];
        MPI_Count length = to.arguments[d];
        if (to.kinds[d] == MPI_DISTRIBUTE_NONE) length = whole;
        else if (to.arguments[d] == MPI_DISTRIBUTE_DFLT_DARG)
            length = to.kinds[d] == MPI_DISTRIBUTE_BLOCK ? (whole + processes - 1) / processes : 1;
        // Block is cyclic with one round.
        MPI_Count start = place[d] * length, round = processes * length;
        MPI_Count own = std::max<MPI_Count>(0, whole - start);
        MPI_Count blocks = own / round, rest = std::min(length, own % round);
        if (rest == length) ++blocks, rest = 0;
        if (!chosen.choose(start, length, blocks, round, rest, whole)) return datatype_overflow();
    }
    chosen.bounds.set(0, chosen.stride);
    return maker.finish(chosen.bounds, chosen.layout);
}

}  // namespace pomona
