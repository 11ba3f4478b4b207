// options.h: what the user asked for, and how sizes such as "64K" are read and written.
// Idea: one plain struct filled once by main.cc; the cases only read it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace pomona::bench {

struct Options {
    std::vector<std::string> cases;
    std::string sizes;      // "min:max" or one size; empty: each case's own range
    int step = 2;           // each size is this many times the one before
    int ranks = 2;          // only used when mpi-bench launches itself
    int repeat = 0;         // samples per size; 0: as many as fit into `seconds`
    double seconds = 0.25;  // time per case and size
    int window = 64;        // messages in flight: bandwidth and message-rate
    std::string type = "float", op = "sum";
    std::string json, plot;
    bool verify = true;
    bool fresh = false;         // collectives: data is written before each call
    bool back_to_back = false;  // collectives: no barrier between calls
    bool quiet = false;
};

struct SizeRange {
    size_t first = 0, last = 0;
};

std::optional<size_t> parse_size(const std::string& text);
std::optional<SizeRange> parse_range(const std::string& text);
std::vector<size_t> sizes_of(SizeRange range, int step);
std::string show_size(size_t bytes);

}  // namespace pomona::bench
