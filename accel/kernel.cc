// accel/kernel.cc: the table of kernels for this CPU, and facts of operations and types.
// Idea: a form's table is filled by the lesser forms first, then by its own; each form's table is
// built when first asked for, so a rank holds one.
#include "accel/kernel.h"

#include "accel/table.h"

#include <cstring>

namespace pomona {

std::atomic<const KernelTable*> installed_kernels{nullptr};

namespace {

struct TypeFacts {
    const char* name;
    size_t size;
    TypeFamily family;
};
constexpr TypeFacts type_facts[type_count] = {
#define X(name, type, family) {#name, sizeof(type), TypeFamily::family},
    POMONA_ELEMENT_TYPES(X)
#undef X
};
constexpr const char* op_names[op_count] = {"sum",    "prod",   "min",     "max",  "band",
                                            "bor",    "bxor",   "land",    "lor",  "lxor",
                                            "minloc", "maxloc", "replace", "no_op"};

const TypeFacts& facts(ElementType type) { return type_facts[static_cast<int>(type)]; }

// Each form with those it builds on, least first.
template <Isa isa> KernelTable build_table() {
    KernelTable table;
    fill_portable(table);
    if constexpr (isa >= Isa::avx2 && isa <= Isa::avx512_fp16) fill_avx2(table);
    if constexpr (isa >= Isa::avx512 && isa <= Isa::avx512_fp16) fill_avx512(table);
    if constexpr (isa == Isa::avx512_fp16) fill_avx512_fp16(table);
    if constexpr (isa >= Isa::neon_fp16) fill_neon_fp16(table);
    if constexpr (isa == Isa::neon_bf16) fill_neon_bf16(table);
    for (int type = 0; type < type_count; ++type)
        for (int op = 0; op < op_count; ++op)
            table.kernels[op][type].element_size = type_facts[type].size;
    return table;
}

template <Isa isa> const KernelTable& table_of() {
    static const KernelTable table = build_table<isa>();
    return table;
}

const KernelTable& table_of(Isa isa) {
    switch (isa) {
    case Isa::avx2: return table_of<Isa::avx2>();
    case Isa::avx512: return table_of<Isa::avx512>();
    case Isa::avx512_fp16: return table_of<Isa::avx512_fp16>();
    case Isa::neon_fp16: return table_of<Isa::neon_fp16>();
    case Isa::neon_bf16: return table_of<Isa::neon_bf16>();
    default: return table_of<Isa::portable>();
    }
}

const ReduceKernel* find_in(const KernelTable& table, ReduceOp op, ElementType type) {
    if (op >= ReduceOp::count_ || type >= ElementType::count_) return nullptr;
    const ReduceKernel& kernel = table.kernels[static_cast<int>(op)][static_cast<int>(type)];
    return kernel.to ? &kernel : nullptr;
}

// Bytes of the running result that reduce_many keeps in the first-level cache.
constexpr size_t fold_bytes = 8192;

}  // namespace

const char* op_name(ReduceOp op) {
    return op < ReduceOp::count_ ? op_names[static_cast<int>(op)] : "unknown";
}
const char* type_name(ElementType type) {
    return type < ElementType::count_ ? facts(type).name : "unknown";
}
size_t element_size(ElementType type) { return facts(type).size; }
TypeFamily type_family(ElementType type) { return facts(type).family; }

bool is_allowed(ReduceOp op, ElementType type) {
    TypeFamily family = type_family(type);
    switch (op) {
    case ReduceOp::sum:
    case ReduceOp::prod:
        return family == TypeFamily::integer || family == TypeFamily::floating ||
               family == TypeFamily::complex;
    case ReduceOp::min:
    case ReduceOp::max: return family == TypeFamily::integer || family == TypeFamily::floating;
    case ReduceOp::band:
    case ReduceOp::bor:
    case ReduceOp::bxor: return family == TypeFamily::integer || family == TypeFamily::byte;
    case ReduceOp::land:
    case ReduceOp::lor:
    case ReduceOp::lxor: return family == TypeFamily::integer || family == TypeFamily::logical;
    case ReduceOp::minloc:
    case ReduceOp::maxloc: return family == TypeFamily::pair;
    case ReduceOp::replace:
    case ReduceOp::no_op: return true;
    case ReduceOp::count_: break;
    }
    return false;
}

const ReduceKernel* find_kernel(ReduceOp op, ElementType type) {
    static const KernelTable& table = table_of(best_isa());
    // acquire: the rules behind an installed table are complete (install_choices releases).
    if (auto* installed = installed_kernels.load(std::memory_order_acquire))
        if (const ReduceKernel* kernel = find_in(*installed, op, type)) return kernel;
    return find_in(table, op, type);
}

const ReduceKernel* find_kernel(ReduceOp op, ElementType type, Isa isa) {
    return isa_available(isa) ? find_in(table_of(isa), op, type) : nullptr;
}

void reduce_many(const ReduceKernel& kernel, void* out, const void* const* in, int n,
                 size_t count) {
    size_t size = kernel.element_size;
    if (n == 1 && out != in[0] && count) std::memcpy(out, in[0], count * size);
    if (n <= 1) return;
    bool clobbers = false;  // the result stands on an array that is read later
    for (int k = 2; k < n; ++k) clobbers |= in[k] == out;
    alignas(64) char scratch[fold_bytes];
    for (size_t start = 0, step = fold_bytes / size; start < count; start += step) {
        size_t length = count - start < step ? count - start : step;
        auto part = [&](int k) { return static_cast<const char*>(in[k]) + start * size; };
        char* place = static_cast<char*>(out) + start * size;
        char* running = clobbers ? scratch : place;
        kernel.to(running, part(0), part(1), length);
        for (int k = 2; k < n; ++k)
            kernel.to(k == n - 1 ? place : running, running, part(k), length);
    }
}

}  // namespace pomona
