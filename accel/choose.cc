// accel/choose.cc: trying, timing and choosing modules.
// Idea: a module is used only if it gives the portable kernel's bits: ranks with and without a GPU
// must agree. It must be 5 % faster than the portable kernel to be taken at a size.
#include "accel/choose.h"

#include "btl/base/random.h"

#include <algorithm>
#include <cstring>
#include <memory>

namespace pomona {
namespace {

constexpr const char* module_names[module_count] = {"portable", "vdsp", "metal"};
constexpr size_t bytes_min = 4096, bytes_max = size_t{64} << 20;

// What the pairs are made of: complex numbers are two components.
struct FloatShape {
    size_t size = 0;
    uint64_t sign = 0, exponent = 0;
};
FloatShape float_shape(ElementType type) {
    switch (type) {
    case ElementType::f16:
    case ElementType::complex_f16: return {2, 0x8000, 0x7c00};
    case ElementType::bf16: return {2, 0x8000, 0x7f80};
    case ElementType::f32:
    case ElementType::complex_f32: return {4, uint64_t{1} << 31, 0x7f800000};
    case ElementType::f64:
    case ElementType::complex_f64: return {8, uint64_t{1} << 63, 0x7ffull << 52};
    default: return {};
    }
}

uint64_t get_word(const std::vector<char>& bytes, size_t index, size_t size) {
    uint64_t word = 0;
    std::memcpy(&word, &bytes[index * size], size);
    return word;
}

// Random bits; of floats every eighth subnormal, zero or infinite.
std::vector<char> sample(size_t bytes, const FloatShape& shape, Random& random) {
    std::vector<char> values(bytes + 8);
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = random.next();
        std::memcpy(&values[i], &word, 8);
    }
    for (size_t i = 0; shape.size && i < bytes / shape.size; ++i) {
        uint64_t word = get_word(values, i, shape.size);
        switch (random.below(24)) {
        case 0: word &= ~shape.exponent; break;
        case 1: word &= shape.sign; break;
        case 2: word = (word & shape.sign) | shape.exponent; break;
        default: continue;
        }
        std::memcpy(&values[i * shape.size], &word, shape.size);
    }
    return values;
}

bool same_values(const std::vector<char>& x, const std::vector<char>& y, size_t bytes,
                 const FloatShape& shape) {
    if (std::memcmp(x.data(), y.data(), bytes) == 0) return true;
    if (!shape.size) return false;
    auto is_nan = [&](uint64_t word) { return (word & ~shape.sign) > shape.exponent; };
    for (size_t i = 0; i < bytes / shape.size; ++i) {
        uint64_t a = get_word(x, i, shape.size), b = get_word(y, i, shape.size);
        if (a != b && !(is_nan(a) && is_nan(b))) return false;
    }
    return true;
}

// Worth timing: what a module offers, and what people reduce.
bool is_common(ReduceOp op, ElementType type) {
    bool arithmetic = op == ReduceOp::sum || op == ReduceOp::max;
    return arithmetic &&
           (type == ElementType::f32 || type == ElementType::f64 || type == ElementType::f16 ||
            type == ElementType::bf16 || type == ElementType::i32);
}

Module fastest(const ChoicePoint& point) {
    Module best = Module::portable;
    Nanoseconds limit = point.ns[0] - point.ns[0] / 20;
    for (int m = 1; m < module_count; ++m) {
        if (point.ns[static_cast<size_t>(m)] == 0 || point.ns[static_cast<size_t>(m)] >= limit)
            continue;
        best = static_cast<Module>(m);
        limit = point.ns[static_cast<size_t>(m)];
    }
    return best;
}

Choice measure_one(ReduceOp op, ElementType type, const std::vector<Candidate>& candidates,
                   const KernelTimer& timer) {
    Choice choice{op, type, {}, {}};
    const ReduceKernel* portable = find_kernel(op, type, best_isa());
    std::vector<std::pair<Module, const ReduceKernel*>> kernels{{Module::portable, portable}};
    for (const Candidate& candidate : candidates) {
        const ReduceKernel* kernel = candidate.find(op, type);
        if (!kernel) continue;
        bool same = same_results(op, type, *portable, *kernel);
        choice.differs[static_cast<size_t>(candidate.module)] = !same;
        if (same) kernels.push_back({candidate.module, kernel});
    }
    for (size_t bytes = bytes_min; bytes <= bytes_max; bytes *= 4) {
        ChoicePoint point;
        point.bytes = bytes;
        for (auto& [module, kernel] : kernels)
            point.ns[static_cast<size_t>(module)] = std::max<Nanoseconds>(1, timer(*kernel, bytes));
        point.best = fastest(point);
        choice.points.push_back(point);
    }
    // A single size that differs from both its neighbours is noise.
    for (size_t i = 1; i + 1 < choice.points.size(); ++i)
        if (choice.points[i - 1].best == choice.points[i + 1].best)
            choice.points[i].best = choice.points[i - 1].best;
    return choice;
}

}  // namespace

const char* module_name(Module module) {
    return module < Module::count_ ? module_names[static_cast<int>(module)] : "unknown";
}

const std::vector<Candidate>& accel_candidates() {
#if defined(__APPLE__)
    static const std::vector<Candidate> list = {{Module::vdsp, find_vdsp_kernel},
                                                {Module::metal, find_metal_kernel}};
#else
    static const std::vector<Candidate> list;
#endif
    return list;
}

Module Choice::module_for(size_t bytes) const {
    Module module = points.empty() ? Module::portable : points.front().best;
    for (const ChoicePoint& point : points)
        if (point.bytes <= bytes) module = point.best;
    return module;
}

bool same_results(ReduceOp op, ElementType type, const ReduceKernel& one,
                  const ReduceKernel& other) {
    FloatShape shape = float_shape(type);
    Random random(static_cast<uint64_t>(op) * 64 + static_cast<uint64_t>(type));
    for (size_t count : {1, 7, 64, 4099}) {
        size_t bytes = count * one.element_size;
        std::vector<char> a = sample(bytes, shape, random), b = sample(bytes, shape, random);
        std::vector<char> first(bytes), second(bytes);
        one.to(first.data(), a.data(), b.data(), count);
        other.to(second.data(), a.data(), b.data(), count);
        if (!same_values(first, second, bytes, shape)) return false;
        std::vector<char> onto = b;
        onto.resize(bytes);
        other.into(onto.data(), a.data(), count);
        if (!same_values(first, onto, bytes, shape)) return false;
    }
    return true;
}

// The best of several calls, at least three and two milliseconds: disturbance only adds time.
KernelTimer real_timer(Clock& clock) {
    struct Arrays {
        std::unique_ptr<char[]> at[3];
    };
    auto arrays = std::make_shared<Arrays>();
    for (auto& array : arrays->at) array = std::make_unique<char[]>(bytes_max);  // zeroed: touched
    return [&clock, arrays](const ReduceKernel& kernel, size_t bytes) {
        Nanoseconds best = 0, begin = clock.now();
        for (int call = 0; call < 3 || clock.now() - begin < 2'000'000; ++call) {
            Nanoseconds before = clock.now();
            kernel.to(arrays->at[0].get(), arrays->at[1].get(), arrays->at[2].get(),
                      bytes / kernel.element_size);
            Nanoseconds took = clock.now() - before;
            best = call == 0 ? took : std::min(best, took);
        }
        return best;
    };
}

Choices measure_choices(const std::vector<Candidate>& candidates, const KernelTimer& timer) {
    Choices choices{machine_key(), {}};
    for (int op = 0; op < op_count; ++op)
        for (int t = 0; t < type_count; ++t) {
            auto operation = static_cast<ReduceOp>(op);
            auto type = static_cast<ElementType>(t);
            bool offered = is_common(operation, type);
            for (const Candidate& candidate : candidates)
                offered |= candidate.find(operation, type) != nullptr;
            if (offered) choices.rows.push_back(measure_one(operation, type, candidates, timer));
        }
    return choices;
}

}  // namespace pomona
