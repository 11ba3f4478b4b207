// accel/metal_table.cc: the GPU as a form of the table of kernels: functions that wait for it, and
// one that does not.
// Idea: one function per (operation, type), made by a template, since a ReduceFunction has no
// context.
#include "accel/metal.h"
#include "accel/modules.h"
#include "accel/table.h"
#include "btl/base/check.h"

#include <utility>

namespace pomona {
namespace {

Metal* device() {
    // Never destroyed: a thread may still reduce while the program's statics go.
    static Metal* opened = [] {
        auto metal = Metal::open();
        return metal ? std::move(metal).value().release() : nullptr;
    }();
    return opened;
}

MetalReduction reduction_of(ReduceOp op, ElementType type, void* out, const void* a, const void* b,
                            size_t count) {
    return {op, type, {out}, {const_cast<void*>(a)}, {const_cast<void*>(b)}, count, nullptr, 0};
}

template <ReduceOp op, ElementType type>
void to(void* out, const void* a, const void* b, size_t count) {
    Status status = device()->run(reduction_of(op, type, out, a, b, count));
    if (status) return;
    // A GPU that failed midway may have overwritten an operand: no result is better than a wrong
    // one.
    bool intact = status.error().code == Code::unsupported || (out != a && out != b);
    check(intact, count);
    find_kernel(op, type, best_isa())->to(out, a, b, count);
}

template <ReduceOp op, ElementType type> void into(void* inout, const void* in, size_t count) {
    to<op, type>(inout, in, inout, count);
}

template <ReduceOp op, ElementType type> Status begin(void* out, const void* a, const void* b,
                                                      size_t count, ReduceDone done,
                                                      void* context) {
    return device()->start(reduction_of(op, type, out, a, b, count), done, context);
}

template <int index> void enter(KernelTable& table) {
    constexpr auto op = static_cast<ReduceOp>(index / type_count);
    constexpr auto type = static_cast<ElementType>(index % type_count);
    if (!Metal::supports(op, type)) return;
    table.kernels[index / type_count][index % type_count] = {into<op, type>, to<op, type>, "metal",
                                                             element_size(type), begin<op, type>};
}

template <int... indices> KernelTable make_table(std::integer_sequence<int, indices...>) {
    KernelTable table;
    int each[] = {(enter<indices>(table), 0)...};  // clang folds at most 256 expressions
    static_cast<void>(each);
    return table;
}

}  // namespace

const ReduceKernel* find_metal_kernel(ReduceOp op, ElementType type) {
    static const KernelTable table =
        make_table(std::make_integer_sequence<int, op_count * type_count>());
    if (op >= ReduceOp::count_ || type >= ElementType::count_) return nullptr;
    const ReduceKernel& kernel = table.kernels[static_cast<int>(op)][static_cast<int>(type)];
    return kernel.to && device() ? &kernel : nullptr;
}

}  // namespace pomona
