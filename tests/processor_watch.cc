// tests/processor_watch.cc: whether this machine's processors compute the same twice. tests/run.sh
// has it run beside the tests: one processor was met whose VCVTPH2PS (float16 to float32) gave one
// lane of eight an earlier vector's value, for seconds at a time, which made tests of float16 fail.
//     processor_watch [SECONDS] [--fault]    a line for each work that differed; code 1 if any did
// On each processor that it may use, for about a fiftieth of its time. Ends after SECONDS, with who
// started it, or by SIGTERM. --fault: one result is changed, to see that it is found.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#if defined(__linux__)
#include <sched.h>
#endif

namespace {

constexpr size_t kLength = 4096;
constexpr int kRepeats = 40;
constexpr std::chrono::milliseconds kPause{250};

std::atomic<bool> ended{false};
std::atomic<bool> differed{false};
std::atomic<int> faults{0};  // still to be made

struct Data {
    std::vector<float> a, b, out;
    std::vector<uint16_t> half, half_out;

    Data() : a(kLength), b(kLength), out(kLength), half(kLength), half_out(kLength) {
        for (size_t i = 0; i < kLength; ++i) {
            a[i] = static_cast<float>(i * 37 % 1000) / 8;
            b[i] = 1 + static_cast<float>(i * 91 % 777) / 16;
            half[i] = static_cast<uint16_t>(0x3c00 + i * 7 % 0x2000);  // 1 to some hundreds
        }
    }
};

void add(Data& d) {
    for (size_t i = 0; i < kLength; ++i) d.out[i] = d.a[i] + d.b[i];
}
void multiply(Data& d) {
    for (size_t i = 0; i < kLength; ++i) d.out[i] = d.a[i] * d.b[i];
}
void divide(Data& d) {
    for (size_t i = 0; i < kLength; ++i) d.out[i] = d.a[i] / d.b[i];
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma,f16c"))) void from_half(Data& d) {
    for (size_t i = 0; i < kLength; i += 8) {
        __m128i raw;
        std::memcpy(&raw, &d.half[i], sizeof raw);
        _mm256_storeu_ps(&d.out[i], _mm256_cvtph_ps(raw));
    }
}
__attribute__((target("avx2,fma,f16c"))) void to_half(Data& d) {
    for (size_t i = 0; i < kLength; i += 8) {
        __m128i raw = _mm256_cvtps_ph(_mm256_loadu_ps(&d.a[i]), _MM_FROUND_TO_NEAREST_INT);
        std::memcpy(&d.half_out[i], &raw, sizeof raw);
    }
}
__attribute__((target("avx2,fma,f16c"))) void widen(Data& d) {
    for (size_t i = 0; i < kLength; i += 8) {
        __m128i raw;
        std::memcpy(&raw, &d.half[i], sizeof raw);
        _mm256_storeu_ps(&d.out[i], _mm256_castsi256_ps(_mm256_cvtepu16_epi32(raw)));
    }
}
__attribute__((target("avx2,fma,f16c"))) void permute(Data& d) {
    const __m256i order = _mm256_setr_epi32(3, 6, 1, 4, 7, 2, 5, 0);
    for (size_t i = 0; i < kLength; i += 8)
        _mm256_storeu_ps(&d.out[i], _mm256_permutevar8x32_ps(_mm256_loadu_ps(&d.a[i]), order));
}
__attribute__((target("avx2,fma,f16c"))) void multiply_add(Data& d) {
    for (size_t i = 0; i < kLength; i += 8) {
        __m256 a = _mm256_loadu_ps(&d.a[i]);
        _mm256_storeu_ps(&d.out[i], _mm256_fmadd_ps(a, _mm256_loadu_ps(&d.b[i]), a));
    }
}
#endif

struct Work {
    const char* name;
    void (*run)(Data&);
};

std::vector<Work> works() {
    std::vector<Work> all{{"sums", add}, {"products", multiply}, {"quotients", divide}};
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        all.insert(all.end(), {{"float16 to float32", from_half},
                               {"float32 to float16", to_half},
                               {"16 bits to 32", widen},
                               {"lanes in another order", permute},
                               {"products added", multiply_add}});
#endif
    return all;
}

std::string places_of(const Data& now, const Data& first) {
    std::string out;
    int shown = 0;
    for (size_t i = 0; i < kLength && shown < 8; ++i) {
        if (std::memcmp(&now.out[i], &first.out[i], 4) == 0 && now.half_out[i] == first.half_out[i])
            continue;
        out += " " + std::to_string(i);
        ++shown;
    }
    return out;
}

void repeat(const Work& work, Data& now, const std::string& where) {
    work.run(now);
    const Data first = now;
    for (int i = 0; i < kRepeats; ++i) {
        work.run(now);
        if (faults.load() > 0 && faults.fetch_sub(1) > 0) now.out[11] += 1;
        std::string places = places_of(now, first);
        if (places.empty()) continue;
        differed = true;
        time_t seconds = time(nullptr);
        tm utc{};
        gmtime_r(&seconds, &utc);
        std::printf("%02d:%02d:%02d %s: %s differ at%s\n", utc.tm_hour, utc.tm_min, utc.tm_sec,
                    where.c_str(), work.name, places.c_str());
        std::fflush(stdout);
        return;
    }
}

void watch(int processor, std::chrono::steady_clock::time_point until) {
    std::string where = "a processor";
#if defined(__linux__)
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(static_cast<size_t>(processor), &only);
    if (sched_setaffinity(0, sizeof only, &only) == 0)
        where = "processor " + std::to_string(processor);
#else
    (void)processor;
#endif
    const pid_t parent = getppid();
    const std::vector<Work> all = works();
    Data data;
    while (!ended && getppid() == parent && std::chrono::steady_clock::now() < until) {
        for (const Work& each : all) repeat(each, data, where);
        std::this_thread::sleep_for(kPause);
    }
}

std::vector<int> processors() {
    std::vector<int> out;
#if defined(__linux__)
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
        for (int i = 0; i < CPU_SETSIZE; ++i)
            if (CPU_ISSET(static_cast<size_t>(i), &allowed)) out.push_back(i);
#endif
    if (out.empty()) out.push_back(0);
    return out;
}

}  // namespace

int main(int count, char** words) {
    double seconds = 1e6;
    for (int i = 1; i < count; ++i) {
        if (std::strcmp(words[i], "--fault") == 0) faults = 1;
        else seconds = std::atof(words[i]);
    }
    std::signal(SIGTERM, [](int) { ended = true; });
    (void)!nice(10);
    auto until = std::chrono::steady_clock::now() +
                 std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
    std::vector<std::thread> threads;
    for (int processor : processors()) threads.emplace_back(watch, processor, until);
    for (std::thread& each : threads) each.join();
    return differed ? 1 : 0;
}
