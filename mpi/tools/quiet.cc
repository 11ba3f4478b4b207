// mpi/tools/quiet.cc: see quiet.h.
#include "mpi/tools/quiet.h"

#include "btl/base/clock.h"
#include "btl/base/format.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

namespace pomona {

namespace {

constexpr double kOthersLeast = 0.2, kOthersShare = 0.025;  // processors, and of each processor
constexpr double kStealMost = 0.02;
// On 16 idle cores 1.13, on two whose load was 5 beside the ranks 1.25 (median of the cases).
constexpr double kSpreadMost = 1.25;

double others_most(int processors) { return kOthersLeast + kOthersShare * processors; }

double seconds_of(const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

// Of all children that have ended and been waited for, and theirs.
double children_seconds() {
    rusage used{};
    getrusage(RUSAGE_CHILDREN, &used);
    return seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
}

double now_seconds() { return 1e-9 * static_cast<double>(RealClock().now()); }

std::optional<ProcessorTimes> times_now() {
    std::FILE* file = std::fopen("/proc/stat", "r");
    if (!file) return {};
    char text[512];
    size_t length = std::fread(text, 1, sizeof text, file);
    std::fclose(file);
    return parse_processor_times({text, length}, static_cast<double>(sysconf(_SC_CLK_TCK)));
}

}  // namespace

std::optional<ProcessorTimes> parse_processor_times(std::string_view text, double ticks) {
    std::string line(text.substr(0, text.find('\n')));
    double user = 0, nice = 0, system = 0, idle = 0, wait = 0, interrupts = 0, soft = 0, steal = 0;
    int found = std::sscanf(line.c_str(), "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &user, &nice,
                            &system, &idle, &wait, &interrupts, &soft, &steal);
    if (found < 4 || !(ticks > 0)) return {};
    double busy = user + nice + system + interrupts + soft, all = busy + idle + wait + steal;
    if (!(all > 0)) return {};
    return ProcessorTimes{busy / ticks, steal / ticks, all / ticks};
}

Disturbance disturbance_between(const ProcessorTimes& before, const ProcessorTimes& after,
                                double children, double seconds, int processors) {
    Disturbance seen{.processors = processors};
    if (!(seconds > 0)) return seen;
    seen.others = std::max(after.busy - before.busy - children, 0.0) / seconds;
    double all = after.all - before.all;
    if (all > 0) seen.steal = std::max(after.steal - before.steal, 0.0) / all;
    return seen;
}

std::string why_busy(const Disturbance& seen) {
    double most = others_most(seen.processors);
    if (seen.others && *seen.others > most)
        return seen.load_average
                   ? format("the load average is {:.1f} on {} processors ({:.2f} is the limit)",
                            *seen.others, seen.processors, most)
                   : format("other programs used {:.2f} of its {} processors ({:.2f} is the limit)",
                            *seen.others, seen.processors, most);
    if (seen.steal > kStealMost)
        return format(
            "its host gave {:.0f} % of its processors' time to others ({:.0f} % is the "
            "limit)",
            100 * seen.steal, 100 * kStealMost);
    if (seen.spread > kSpreadMost)
        return format(
            "a quarter of all calls took {:.2f} times as long as another quarter ({:.2f} is the "
            "limit)",
            seen.spread, kSpreadMost);
    return {};
}

QuietWatch::QuietWatch()
    : times_(times_now()), children_(children_seconds()), start_(now_seconds()) {}

Disturbance QuietWatch::seen() const {
    auto processors = static_cast<int>(std::max(sysconf(_SC_NPROCESSORS_ONLN), 1L));
    auto now = times_now();
    if (times_ && now)
        return disturbance_between(*times_, *now, children_seconds() - children_,
                                   now_seconds() - start_, processors);
    Disturbance seen{.processors = processors};
    double load = 0;
    // It still counts what this process has done itself, if that was some seconds ago.
    if (now_seconds() - start_ < 1 && getloadavg(&load, 1) == 1)
        seen.others = load, seen.load_average = true;
    return seen;
}

Disturbance QuietWatch::look(double seconds) {
    QuietWatch watch;
    usleep(static_cast<useconds_t>(seconds * 1e6));
    return watch.seen();
}

double spread_of(std::vector<double> upper_of_lower) {
    if (upper_of_lower.empty()) return 1;
    auto middle = upper_of_lower.begin() + static_cast<ptrdiff_t>(upper_of_lower.size() / 2);
    std::nth_element(upper_of_lower.begin(), middle, upper_of_lower.end());
    return *middle;
}

}  // namespace pomona
