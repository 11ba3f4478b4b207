// tests/bench_accel/accel_bench.cc: how fast the reduction kernels are, beside the memory's limit.
// Method: Google Benchmark on one thread. `limit/add` is the STREAM add c[i] = a[i] + b[i] on
// doubles as the compiler vectorises it, `limit/copy` is memcpy. Bytes per second count each array
// that is read or written once (three; two for a copy). Names: form/operation/type/use/bytes of an
// array.
//   accel-bench --benchmark_filter='best/.*to/67108864'
#include "accel/kernel.h"

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace pomona {
namespace {

// Pages touched, values small and finite in every type (zero bytes are zero everywhere).
struct Arrays {
    explicit Arrays(size_t bytes) {
        for (auto& pointer : at) {
            void* memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
            std::memset(memory, 0, bytes);
            pointer.reset(static_cast<char*>(memory));
        }
    }
    struct Free {
        void operator()(char* p) const { std::free(p); }
    };
    std::unique_ptr<char, Free> at[3];
};

void count_bytes(benchmark::State& state, size_t bytes) {
    state.SetBytesProcessed(static_cast<int64_t>(bytes) * state.iterations());
}

void run_to(benchmark::State& state, const ReduceKernel* kernel) {
    auto bytes = static_cast<size_t>(state.range(0));
    Arrays arrays(bytes);
    for (auto _ : state) {
        kernel->to(arrays.at[0].get(), arrays.at[1].get(), arrays.at[2].get(),
                   bytes / kernel->element_size);
        benchmark::ClobberMemory();
    }
    count_bytes(state, 3 * bytes);
}

void run_into(benchmark::State& state, const ReduceKernel* kernel) {
    auto bytes = static_cast<size_t>(state.range(0));
    Arrays arrays(bytes);
    for (auto _ : state) {
        kernel->into(arrays.at[0].get(), arrays.at[1].get(), bytes / kernel->element_size);
        benchmark::ClobberMemory();
    }
    count_bytes(state, 3 * bytes);
}

void run_many(benchmark::State& state, const ReduceKernel* kernel, int n) {
    auto bytes = static_cast<size_t>(state.range(0));
    std::vector<Arrays> arrays;
    for (int k = 0; k <= n / 3; ++k) arrays.emplace_back(bytes);
    std::vector<const void*> in;
    for (int k = 0; k < n; ++k) in.push_back(arrays[static_cast<size_t>(k / 3)].at[k % 3].get());
    char* out = arrays.back().at[n % 3].get();
    for (auto _ : state) {
        reduce_many(*kernel, out, in.data(), n, bytes / kernel->element_size);
        benchmark::ClobberMemory();
    }
    count_bytes(state, static_cast<size_t>(n + 1) * bytes);
}

void limit_add(benchmark::State& state) {
    auto bytes = static_cast<size_t>(state.range(0));
    Arrays arrays(bytes);
    auto* __restrict c = reinterpret_cast<double*>(arrays.at[0].get());
    auto* __restrict a = reinterpret_cast<double*>(arrays.at[1].get());
    auto* __restrict b = reinterpret_cast<double*>(arrays.at[2].get());
    for (auto _ : state) {
        for (size_t i = 0; i < bytes / sizeof(double); ++i) c[i] = a[i] + b[i];
        benchmark::ClobberMemory();
    }
    count_bytes(state, 3 * bytes);
}

void limit_copy(benchmark::State& state) {
    auto bytes = static_cast<size_t>(state.range(0));
    Arrays arrays(bytes);
    for (auto _ : state) {
        std::memcpy(arrays.at[0].get(), arrays.at[1].get(), bytes);
        benchmark::ClobberMemory();
    }
    count_bytes(state, 2 * bytes);
}

constexpr int64_t sizes[] = {1 << 10, 16 << 10, 256 << 10, 4 << 20, 64 << 20};

template <class F> void declare(const std::string& name, F&& run) {
    auto* one = benchmark::RegisterBenchmark(name.c_str(), run);
    for (int64_t size : sizes) one->Arg(size);
}

void declare_kernel(const std::string& form, ReduceOp op, ElementType type,
                    const ReduceKernel* kernel) {
    if (!kernel) return;
    std::string name = form + "/" + op_name(op) + "/" + type_name(type);
    declare(name + "/to", [kernel](benchmark::State& state) { run_to(state, kernel); });
    declare(name + "/into", [kernel](benchmark::State& state) { run_into(state, kernel); });
}

void declare_all() {
    declare("limit/add", limit_add);
    declare("limit/copy", limit_copy);
    const ElementType hot[] = {ElementType::f32, ElementType::f64, ElementType::bf16,
                               ElementType::f16, ElementType::i32};
    for (int isa = 0; isa < static_cast<int>(Isa::count_); ++isa)
        for (ElementType type : hot)
            for (auto op : {ReduceOp::sum, ReduceOp::max})
                declare_kernel(isa_name(static_cast<Isa>(isa)), op, type,
                               find_kernel(op, type, static_cast<Isa>(isa)));
    for (int type = 0; type < type_count; ++type)
        for (int op = 0; op < op_count; ++op)
            declare_kernel("best", static_cast<ReduceOp>(op), static_cast<ElementType>(type),
                           find_kernel(static_cast<ReduceOp>(op), static_cast<ElementType>(type)));
    for (ElementType type : hot)
        for (int n : {2, 4, 8}) {
            const ReduceKernel* kernel = find_kernel(ReduceOp::sum, type);
            declare("many/" + std::to_string(n) + "/sum/" + type_name(type),
                    [kernel, n](benchmark::State& state) { run_many(state, kernel, n); });
        }
}

}  // namespace
}  // namespace pomona

int main(int argc, char** argv) {
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
    pomona::declare_all();
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
}
