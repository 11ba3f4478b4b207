// pmix/wireup/origin.cc: see origin.h.
#include "pmix/wireup/origin.h"

#include "btl/base/format.h"
#include "btl/base/messages.h"
#include "pmix/wireup/by_hand.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

#include <pthread.h>
#include <unistd.h>
#if defined(__linux__)
#include <sched.h>
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace pomona {

std::string_view origin_name(Origin origin) {
    switch (origin) {
    case Origin::mpirun: return "mpirun";
    case Origin::pmix: return "PMIx";
    case Origin::table: return "table";
    case Origin::singleton: break;
    }
    return "singleton";
}

std::optional<std::string_view> variable(const char* const* environment, std::string_view name) {
    for (; environment && *environment; ++environment) {
        std::string_view entry = *environment;
        if (entry.size() > name.size() && entry[name.size()] == '=' && entry.starts_with(name))
            return entry.substr(name.size() + 1);
    }
    return std::nullopt;
}

namespace {
// A whole number in [low, high], or nothing.
std::optional<int> number(std::optional<std::string_view> text, int low, int high) {
    if (!text) return std::nullopt;
    int value = 0;
    auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (error != std::errc{} || end != text->data() + text->size()) return std::nullopt;
    return value < low || value > high ? std::nullopt : std::optional<int>(value);
}

constexpr int kRanksMax = 1 << 24;
}  // namespace

std::string node_runs(const std::vector<int>& node_of) {
    std::string out;
    for (size_t i = 0; i < node_of.size();) {
        size_t end = i;
        while (end < node_of.size() && node_of[end] == node_of[i]) ++end;
        out += format("{}{}x{}", out.empty() ? "" : ",", node_of[i], end - i);
        i = end;
    }
    return out;
}

Result<std::vector<int>> parse_node_runs(std::string_view text, size_t count) {
    const Error malformed{Code::malformed, "POMONA_JOB_NODES does not parse"};
    std::vector<int> out;
    while (!text.empty()) {
        size_t comma = std::min(text.find(','), text.size());
        std::string_view run = text.substr(0, comma);
        text.remove_prefix(std::min(comma + 1, text.size()));
        size_t times = run.find('x');
        if (times == std::string_view::npos) return malformed;
        auto node = number(run.substr(0, times), 0, kRanksMax);
        auto length = number(run.substr(times + 1), 1, kRanksMax);
        if (!node || !length || out.size() + *length > count) return malformed;
        out.insert(out.end(), *length, *node);
    }
    if (out.size() != count) return malformed;
    return out;
}

// FNV-1a, 64 bits.
static uint64_t hash_of(std::string_view text) {
    uint64_t hash = 0xcbf29ce484222325ull;
    for (unsigned char letter : text) hash = (hash ^ letter) * 0x100000001b3ull;
    return hash;
}

uint64_t incarnation_of(const char* const* environment) {
    if (variable(environment, "POMONA_JOB_ID")) return 0;
    uint64_t sum = 0;  // in whatever order they stand
    for (; environment && *environment; ++environment) {
        std::string_view entry = *environment;
        // Where the server listens, and its process number; how often Slurm has started the job
        // again.
        if (entry.starts_with("PMIX_SERVER_URI") || entry.starts_with("SLURM_RESTART_COUNT="))
            sum += hash_of(entry);
    }
    return sum;
}

std::string tag_of(std::string_view id) {
    // Written in base 32: 12 letters hold 60 bits.
    uint64_t hash = hash_of(id);
    std::string out;
    for (int i = 0; i < 12; ++i, hash >>= 5) out += "0123456789abcdefghijklmnopqrstuv"[hash & 31];
    return out;
}

void fill_local(Job& job) {
    job.local_ranks.clear();
    for (int rank = job.first; rank < job.size; ++rank) {
        if (job.node_of[rank] != job.node_of[job.rank]) continue;
        if (rank == job.rank) job.local_rank = static_cast<int>(job.local_ranks.size());
        job.local_ranks.push_back(rank);
    }
    job.local_size = static_cast<int>(job.local_ranks.size());
}

std::string host_name() {
    char name[256] = "";
    if (gethostname(name, sizeof name - 1) != 0 || !name[0]) return "localhost";
    return name;
}

std::string boot_id() {
    char text[64] = "";
#if defined(__APPLE__)
    size_t size = sizeof text - 1;
    sysctlbyname("kern.bootsessionuuid", text, &size, nullptr, 0);
#else
    if (std::FILE* file = std::fopen("/proc/sys/kernel/random/boot_id", "r")) {
        if (std::fscanf(file, "%63s", text) != 1) text[0] = 0;
        std::fclose(file);
    }
#endif
    return text;
}

int exit_code_of(int code) { return code & 255 ? code & 255 : 1; }

int machine_cores() { return std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN))); }

int usable_cores() {
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
    return machine_cores();  // macOS has no affinity; above 1024 CPUs Linux wants a larger set
}

namespace {
// Another launcher started several of us and cannot be asked: each would believe to be alone.
std::string accidental_singleton(const char* const* environment) {
    auto several = [&](std::string_view name) {
        auto value = number(variable(environment, name), 0, kRanksMax);
        return value && *value > 1;
    };
    if (several("PMI_SIZE") || (variable(environment, "PMI_PORT") && several("PMI_UNIVERSE_SIZE")))
        return messages::pmi_launcher;
    if (variable(environment, "SLURM_STEP_ID") && several("SLURM_STEP_NUM_TASKS"))
        return messages::srun_without_pmix_here;
    // Its own store stands at MASTER_PORT.
    if (variable(environment, "TORCHELASTIC_RUN_ID") && several("WORLD_SIZE"))
        return messages::torchrun_too_early;
    return {};
}

// The POMONA_JOB_ variables; false if one is missing or does not parse.
bool read_job(const char* const* environment, Job& job) {
    auto rank = number(variable(environment, "POMONA_JOB_RANK"), 0, kRanksMax);
    auto size = number(variable(environment, "POMONA_JOB_SIZE"), 1, kRanksMax);
    auto directory = variable(environment, "POMONA_JOB_DIR");
    if (!rank || !size || *rank >= *size || !directory) return false;
    auto nodes = parse_node_runs(variable(environment, "POMONA_JOB_NODES").value_or(""), *size);
    if (!nodes.ok()) return false;
    job.rank = *rank;
    job.size = *size;
    job.first = number(variable(environment, "POMONA_JOB_FIRST"), 0, *rank).value_or(0);
    job.parent = number(variable(environment, "POMONA_JOB_PARENT"), 0, job.first).value_or(-1);
    job.node_of = std::move(*nodes);
    job.directory = *directory;
    job.host = std::string(variable(environment, "POMONA_JOB_HOST").value_or("localhost"));
    job.app_number = number(variable(environment, "POMONA_JOB_APP"), 0, kRanksMax).value_or(0);
    job.hosts = number(variable(environment, "POMONA_JOB_HOSTS"), 1, kRanksMax).value_or(1);
    job.universe_size =
        number(variable(environment, "POMONA_JOB_UNIVERSE"), *size, kRanksMax).value_or(*size);
    job.oversubscribed = variable(environment, "POMONA_OVERSUBSCRIBED").value_or("0") == "1";
    fill_local(job);
    return true;
}
}  // namespace

Started find_origin(const char* const* environment) {
    Started out;
    auto id = variable(environment, "POMONA_JOB_ID");
    auto pmix_namespace = variable(environment, "PMIX_NAMESPACE");
    // A foreign namespace within one of our jobs: a rank ran another launcher; it is nearer. Ours
    // begin with the job's name (pmix/launch/pmix_server.h).
    if (id && (!pmix_namespace || pmix_namespace->starts_with(format("{}-", *id)))) {
        out.origin = out.job.origin = Origin::mpirun;
        out.job.id = out.job.tag = *id;
        if (!read_job(environment, out.job)) out.refusal = messages::job_variables_damaged;
        return out;
    }
    if (pmix_namespace) {
        out.origin = out.job.origin = Origin::pmix;
        return out;
    }
    out.refusal = accidental_singleton(environment);
    if (out.refusal.empty()) out.by_hand = read_by_hand(environment, out.refusal);
    out.job.host = host_name();
    out.job.id = format("singleton-{}-{}", out.job.host, getpid());
    out.job.tag = tag_of(out.job.id);
    out.job.node_of = {0};
    fill_local(out.job);
    return out;
}

}  // namespace pomona
