// machine.cc: Linux and macOS forms of the few things mpi-bench asks the system for.
#include "machine.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#if defined(__APPLE__)
#include <mach-o/dyld.h>
#include <mach/mach.h>
#include <sys/sysctl.h>
#else
#include <sched.h>
#endif

namespace pomona::bench {

static double (*given_clock)() = nullptr;

void set_clock(double (*clock)()) { given_clock = clock; }

bool is_simulated() { return std::getenv("POMONA_SIMULATION") != nullptr; }

double now_us() {
    if (given_clock) return given_clock();
#if defined(__APPLE__)
    return double(clock_gettime_nsec_np(CLOCK_UPTIME_RAW)) * 1e-3;
#else
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return double(t.tv_sec) * 1e6 + double(t.tv_nsec) * 1e-3;
#endif
}

double timer_cost_ns() {
    double best = 1e9;
    for (int round = 0; round < 20; ++round) {
        const int calls = 1000;
        double start = now_us(), last = start;
        for (int i = 0; i < calls; ++i) last = now_us();
        best = std::min(best, (last - start) * 1e3 / calls);
    }
    return best;
}

double cpu_time_us() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    auto us = [](const timeval& t) { return double(t.tv_sec) * 1e6 + double(t.tv_usec); };
    return us(usage.ru_utime) + us(usage.ru_stime);
}

#if defined(__APPLE__)

static std::string sysctl_text(const char* name) {
    char text[256] = "";
    size_t size = sizeof text - 1;
    return sysctlbyname(name, text, &size, nullptr, 0) == 0 ? text : "";
}

static std::string cpu_name() { return sysctl_text("machdep.cpu.brand_string"); }

static double memory_gib() {
    uint64_t bytes = 0;
    size_t size = sizeof bytes;
    sysctlbyname("hw.memsize", &bytes, &size, nullptr, 0);
    return double(bytes) / (1 << 30);
}

double resident_mib() {
    mach_task_basic_info info{};
    mach_msg_type_number_t count = MACH_TASK_BASIC_INFO_COUNT;
    auto* out = reinterpret_cast<task_info_t>(&info);
    if (task_info(mach_task_self(), MACH_TASK_BASIC_INFO, out, &count) != KERN_SUCCESS) return -1;
    return double(info.resident_size) / (1 << 20);
}

double proportional_mib() { return -1; }

bool pin_to_core(int) { return false; }

std::string program_path() {
    char path[4096];
    uint32_t size = sizeof path;
    return _NSGetExecutablePath(path, &size) == 0 ? path : "";
}

#else

// The number after `key` in a /proc file made of "Key:   value kB" lines; < 0 if not there.
static double proc_value(const char* file, const char* key) {
    FILE* in = std::fopen(file, "r");
    if (!in) return -1;
    char line[512];
    double value = -1;
    size_t length = std::strlen(key);
    while (value < 0 && std::fgets(line, sizeof line, in))
        if (std::strncmp(line, key, length) == 0) std::sscanf(line + length, ": %lf", &value);
    std::fclose(in);
    return value;
}

static std::string cpu_name() {
    FILE* in = std::fopen("/proc/cpuinfo", "r");
    if (!in) return "unknown";
    char line[512];
    std::string name = "unknown";
    while (std::fgets(line, sizeof line, in)) {
        char* colon = std::strchr(line, ':');
        if (std::strncmp(line, "model name", 10) != 0 || !colon) continue;
        name = colon + 2;
        name.erase(name.find_last_not_of("\n") + 1);
        break;
    }
    std::fclose(in);
    return name;
}

static double memory_gib() {
    return double(sysconf(_SC_PHYS_PAGES)) * double(sysconf(_SC_PAGESIZE)) / (1 << 30);
}

double resident_mib() { return proc_value("/proc/self/status", "VmRSS") / 1024; }

double proportional_mib() {
    double kib = proc_value("/proc/self/smaps_rollup", "Pss");
    return kib < 0 ? -1 : kib / 1024;
}

bool pin_to_core(int core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(size_t(core), &set);
    return sched_setaffinity(0, sizeof set, &set) == 0;
}

std::string program_path() {
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    return length > 0 ? std::string(path, size_t(length)) : "";
}

#endif

Machine describe_machine() {
    Machine out;
    out.cpu = cpu_name();
    out.cores = int(sysconf(_SC_NPROCESSORS_ONLN));
    out.memory_gib = memory_gib();
    utsname names{};
    uname(&names);
    out.system = std::string(names.sysname) + " " + names.release + " " + names.machine;
#if defined(__clang__)
    out.compiler = "clang " __clang_version__;
#else
    out.compiler = "gcc " __VERSION__;
#endif
    return out;
}

}  // namespace pomona::bench
