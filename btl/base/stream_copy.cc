// btl/base/stream_copy.cc: copies past the caches (stream_copy.h).
#include "btl/base/stream_copy.h"

#include <cstdint>
#include <cstdio>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace pomona {

#if defined(__x86_64__)
void stream_copy(void* to, const void* from, size_t bytes) {
    auto* target = static_cast<char*>(to);
    auto* source = static_cast<const char*>(from);
    constexpr size_t line = 64;
    // Whole lines: parts of one would be read and written by themselves.
    size_t head = -reinterpret_cast<uintptr_t>(target) & (line - 1);
    if (bytes < head + line) return void(std::memcpy(target, source, bytes));
    std::memcpy(target, source, head);
    target += head, source += head, bytes -= head;
    for (; bytes >= line; target += line, source += line, bytes -= line) {
        auto* in = reinterpret_cast<const __m128i*>(source);
        auto* out = reinterpret_cast<__m128i*>(target);
        __m128i a = _mm_loadu_si128(in), b = _mm_loadu_si128(in + 1);
        __m128i c = _mm_loadu_si128(in + 2), d = _mm_loadu_si128(in + 3);
        _mm_stream_si128(out, a), _mm_stream_si128(out + 1, b);
        _mm_stream_si128(out + 2, c), _mm_stream_si128(out + 3, d);
    }
    _mm_sfence();  // such stores are in no order otherwise
    std::memcpy(target, source, bytes);
}
#else
void stream_copy(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }
#endif

static size_t look_up() {
    if (!kStreamCopy) return 0;
    std::FILE* file = std::fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "re");
    if (!file) return 0;
    unsigned long long size = 0;
    char unit = 0;
    int found = std::fscanf(file, "%llu%c", &size, &unit);
    std::fclose(file);
    if (found < 1) return 0;
    return static_cast<size_t>(size) << (unit == 'K' ? 10 : unit == 'M' ? 20 : 0);
}

size_t third_level_cache() {
    static const size_t bytes = look_up();
    return bytes;
}

}  // namespace pomona
