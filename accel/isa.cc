// accel/isa.cc: which instruction sets this CPU has. The one place that asks the system for it:
// CPUID through the compiler on x86, sysctl on macOS, the auxiliary vector on Linux for Arm.
#include "accel/kernel.h"

#if defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace pomona {
namespace {

#if defined(__x86_64__)

// AVX512_FP16: CPUID leaf 7, EDX bit 23; g++ 12 and clang 14 disagree on its name for
// __builtin_cpu_supports. The system saves its registers if it does so for AVX-512.
bool has_avx512_fp16() {
    unsigned a = 7, b, c = 0, d;
    __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    return (d >> 23) & 1;
}
// F16C: leaf 1, ECX bit 29.
bool has_f16c() {
    unsigned a = 1, b, c = 0, d;
    __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    return (c >> 29) & 1;
}
bool cpu_has(Isa isa) {
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2") && has_f16c();
    bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    switch (isa) {
    case Isa::portable: return true;
    case Isa::avx2: return avx2;
    case Isa::avx512: return avx512;
    case Isa::avx512_fp16: return avx512 && has_avx512_fp16();
    default: return false;
    }
}

#elif defined(__aarch64__)

#if defined(__APPLE__)
bool system_says(const char* name) {
    int value = 0;
    size_t size = sizeof value;
    return sysctlbyname(name, &value, &size, nullptr, 0) == 0 && value != 0;
}
bool has_fp16() { return system_says("hw.optional.arm.FEAT_FP16"); }
bool has_bf16() { return system_says("hw.optional.arm.FEAT_BF16"); }
#else
// Bits of the kernel's arch/arm64/include/uapi/asm/hwcap.h.
bool has_fp16() { return (getauxval(AT_HWCAP) >> 10) & 1; }   // HWCAP_ASIMDHP
bool has_bf16() { return (getauxval(AT_HWCAP2) >> 14) & 1; }  // HWCAP2_BF16
#endif
bool cpu_has(Isa isa) {
    switch (isa) {
    case Isa::portable: return true;
    case Isa::neon_fp16: return has_fp16();
    case Isa::neon_bf16: return has_fp16() && has_bf16();
    default: return false;
    }
}

#else

bool cpu_has(Isa isa) { return isa == Isa::portable; }

#endif

constexpr int isa_count = static_cast<int>(Isa::count_);

}  // namespace

const char* isa_name(Isa isa) {
    static constexpr const char* names[isa_count] = {"portable",    "avx2",      "avx512",
                                                     "avx512_fp16", "neon_fp16", "neon_bf16"};
    return isa < Isa::count_ ? names[static_cast<int>(isa)] : "unknown";
}

bool isa_available(Isa isa) { return cpu_has(isa); }

Isa best_isa() {
    for (int i = isa_count - 1; i > 0; --i)
        if (cpu_has(static_cast<Isa>(i))) return static_cast<Isa>(i);
    return Isa::portable;
}

}  // namespace pomona
