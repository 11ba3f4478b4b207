// report.h: rows of results, and their three forms: an aligned table, JSON, a progress bar.
// Idea: a case only makes Rows; every output is written from the same Rows, on rank 0. Nothing
// here knows MPI, so the unit tests run it alone.
#pragma once

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "options.h"
#include "stats.h"

namespace pomona::bench {

// One line of a table. Times in microseconds, bandwidths in GB/s (1e9 bytes per second); what a
// case does not measure stays negative and is shown as a dash, and left out of the JSON.
struct Row {
    std::string name;  // the case
    size_t bytes = 0;
    bool sized = true;  // false: the case has no message size
    Summary time_us;
    double algorithm_gbs = -1;  // bytes / p50
    double bus_gbs = -1;        // algorithm bandwidth x the data each link must carry per byte
    bool verified = false;
    std::vector<std::pair<std::string, double>> extra;  // e.g. {"Mmsg/s", 7.1}
};

struct Setting {
    std::string library, mpi_version, command, type, op;
    std::vector<std::string> hosts;
    int ranks = 1;
    double timer_ns = 0;
};

class Table {
public:
    explicit Table(FILE* out) : out_(out) {}
    void title(const std::string& text);
    void row(const Row& row);

private:
    void header(const Row& row);
    FILE* out_;
    std::string columns_;  // what the header printed last had
    bool header_due_ = true;
};

// On stdout, as the table is: two streams that a launcher forwards would overtake each other.
class Progress {
public:
    Progress(size_t steps, bool shown) : steps_(steps), shown_(shown) {}
    void step(const std::string& what);
    void clear();

private:
    size_t steps_, done_ = 0;
    bool shown_;
    bool drawn_ = false;
};

std::string show_number(double value);
std::string to_json(const Setting& setting, const Options& options, const std::vector<Row>& rows);
bool write_file(const std::string& path, const std::string& text);

}  // namespace pomona::bench
