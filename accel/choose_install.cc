// accel/choose_install.cc: choices put to work: kernels that look at the size and pass on.
// Idea: one such function per (operation, type) that a module may serve, made by a template, since
// a ReduceFunction has no context. find_kernel gives them once they are installed; nothing above
// accel/ knows.
#include "accel/choose.h"
#include "accel/table.h"

#include <mutex>
#include <utility>

namespace pomona {

namespace {

constexpr int point_count_max = 16;

// For one (operation, type): from[i] bytes on, kernel[i] serves.
struct Rule {
    int count = 0;
    size_t from[point_count_max];
    const ReduceKernel* kernel[point_count_max];

    const ReduceKernel& of(size_t bytes) const {
        int i = count - 1;
        while (i > 0 && from[i] > bytes) --i;
        return *kernel[i];
    }
};
Rule rules[op_count * type_count];

constexpr bool may_be_served(ReduceOp op, ElementType type) {
    bool integer = type >= ElementType::i8 && type <= ElementType::u64;
    bool real = type >= ElementType::f16 && type <= ElementType::f64;
    bool complex = type >= ElementType::complex_f16 && type <= ElementType::complex_f64;
    switch (op) {
    case ReduceOp::sum: return integer || real || complex;
    case ReduceOp::prod:
    case ReduceOp::min:
    case ReduceOp::max: return integer || real;
    case ReduceOp::band:
    case ReduceOp::bor:
    case ReduceOp::bxor: return integer || type == ElementType::byte;
    default: return false;
    }
}

template <int index> void to(void* out, const void* a, const void* b, size_t count) {
    const Rule& rule = rules[index];
    rule.of(count * rule.kernel[0]->element_size).to(out, a, b, count);
}
template <int index> void into(void* inout, const void* in, size_t count) {
    const Rule& rule = rules[index];
    rule.of(count * rule.kernel[0]->element_size).into(inout, in, count);
}

template <int index> Status begin(void* out, const void* a, const void* b, size_t count,
                                  ReduceDone done, void* context) {
    const Rule& rule = rules[index];
    const ReduceKernel& kernel = rule.of(count * rule.kernel[0]->element_size);
    if (!kernel.begin) return Error{Code::unsupported, "At this size nothing but the CPU serves"};
    return kernel.begin(out, a, b, count, done, context);
}

template <int index> void enter(KernelTable& table) {
    constexpr auto op = static_cast<ReduceOp>(index / type_count);
    constexpr auto type = static_cast<ElementType>(index % type_count);
    if constexpr (may_be_served(op, type)) {
        const Rule& rule = rules[index];
        if (rule.count == 0) return;
        ReduceKernel kernel{into<index>, to<index>, "chosen by size", element_size(type)};
        for (int i = 0; i < rule.count; ++i)
            if (rule.kernel[i]->begin) kernel.begin = begin<index>;
        table.kernels[index / type_count][index % type_count] = kernel;
    }
}

template <int... indices>
void enter_all(KernelTable& table, std::integer_sequence<int, indices...>) {
    int each[] = {(enter<indices>(table), 0)...};
    static_cast<void>(each);
}

const ReduceKernel* kernel_of(const std::vector<Candidate>& candidates, Module module, ReduceOp op,
                              ElementType type) {
    const ReduceKernel* found = nullptr;
    for (const Candidate& candidate : candidates)
        if (candidate.module == module) found = candidate.find(op, type);
    return found ? found : find_kernel(op, type, best_isa());
}

void append(Rule& rule, size_t from, const ReduceKernel* kernel) {
    if (rule.count > 0 && rule.kernel[rule.count - 1] == kernel) return;
    if (rule.count == point_count_max) return;
    rule.from[rule.count] = from;
    rule.kernel[rule.count++] = kernel;
}

void follow(const Choices& choices, const std::vector<Candidate>& candidates) {
    for (const Choice& row : choices.rows) {
        Rule& rule = rules[static_cast<int>(row.op) * type_count + static_cast<int>(row.type)];
        rule.count = 0;
        for (const ChoicePoint& point : row.points)
            append(rule, point.bytes, kernel_of(candidates, point.best, row.op, row.type));
        // Served by the portable kernel at every size: find_kernel gives that one itself.
        bool portable =
            rule.count == 1 && rule.kernel[0] == find_kernel(row.op, row.type, best_isa());
        if (portable) rule.count = 0;
    }
}

void force(Module module, const std::vector<Candidate>& candidates) {
    for (const Candidate& candidate : candidates)
        for (int index = 0; candidate.module == module && index < op_count * type_count; ++index) {
            const ReduceKernel* kernel =
                candidate.find(static_cast<ReduceOp>(index / type_count),
                               static_cast<ElementType>(index % type_count));
            if (kernel) append(rules[index], 0, kernel);
        }
}

}  // namespace

void install_choices(const Choices& choices, const std::vector<Candidate>& candidates,
                     std::string_view mode) {
    uninstall_choices();
    if (mode == "auto") follow(choices, candidates);
    else if (mode == "vdsp") force(Module::vdsp, candidates);
    else if (mode == "metal") force(Module::metal, candidates);
    static KernelTable table;
    table = KernelTable{};
    enter_all(table, std::make_integer_sequence<int, op_count * type_count>());
    // Publishes the table and the rules; pairs with find_kernel's acquire.
    installed_kernels.store(&table, std::memory_order_release);
}

void uninstall_choices() {
    installed_kernels.store(nullptr, std::memory_order_release);  // pairs as above
    for (Rule& rule : rules) rule.count = 0;
}

Status start_accel(std::string_view mode, const char* const* environment) {
    const std::vector<Candidate>& candidates = accel_candidates();
    bool known = mode == "auto" || mode == "portable" || mode == "vdsp" || mode == "metal";
    if (!known) return Error{Code::invalid_argument, "accel must be auto, portable, vdsp or metal"};
    if (candidates.empty() || mode == "portable") return {};
    static std::once_flag once;  // ranks that are threads of one program share the kernels
    std::call_once(once, [&] {
        Choices choices;
        if (mode == "auto") {
            Result<Choices> loaded = load_choices(accel_cache_path(environment));
            if (!loaded) return;  // not measured yet: the portable kernels serve
            choices = std::move(loaded).value();
        }
        install_choices(choices, candidates, mode);
    });
    return {};
}

}  // namespace pomona
