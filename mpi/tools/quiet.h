// mpi/tools/quiet.h: was the machine quiet while something was measured?
// Idea: what all processors did (/proc/stat) less what this process's children did is others' work;
// a virtual machine's host says what it took away (steal); and repeats of one measurement that lie
// far apart show what neither tells. Where the system has no such figures, the load average has to
// do.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pomona {

// Seconds of all processors together, since the system's start.
struct ProcessorTimes {
    double busy = 0, steal = 0, all = 0;
};
// Of the text of /proc/stat; `ticks` of it are a second. Empty where it says nothing.
std::optional<ProcessorTimes> parse_processor_times(std::string_view text, double ticks);

struct Disturbance {
    int processors = 1;
    std::optional<double> others{};  // processors that other programs used, on average
    double steal = 0;                // part of all processors' time that the host took
    double spread = 1;               // how many times longer the upper quarter of calls took
    bool load_average = false;       // `others` is that, for want of better
};
// Why figures measured meanwhile are not to be kept; "" where nothing speaks against it.
std::string why_busy(const Disturbance& seen);

// Of one time and a later one, between which this process's children worked for `children` seconds.
Disturbance disturbance_between(const ProcessorTimes& before, const ProcessorTimes& after,
                                double children, double seconds, int processors);

class QuietWatch {
public:
    QuietWatch();  // from here on
    Disturbance seen() const;
    // Stays for so long and says what others did; for a look before measuring.
    static Disturbance look(double seconds);

private:
    std::optional<ProcessorTimes> times_;
    double children_ = 0, start_ = 0;
};

// The median of how many times longer each case's upper quarter of calls took than its lower.
double spread_of(std::vector<double> upper_of_lower);

}  // namespace pomona
