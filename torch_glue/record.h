// record.h: what this process has called lately, kept in memory, and counts of all it has called.
// Idea: a ring of entries, written when an operation starts and when it ends, for the question
// "what was each rank doing?"; and for each kind of operation a histogram of its times. Python
// turns the former into the file that torch's analyser reads (pomona.dump_record), the latter into
// pomona.metrics().
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

namespace pomona::glue {

struct RecordEntry {
    uint64_t number = 0;
    std::string group;
    std::string title;  // "mpi:all_reduce"
    uint64_t sequence = 0;
    bool message = false;
    int rank = 0, peer = -1;
    std::vector<std::vector<int64_t>> sizes;
    std::vector<at::ScalarType> dtypes;
    int64_t created_ns = 0, ended_ns = 0;  // of the system's clock; ended 0: under way
    int64_t timeout_ms = 0;
    bool failed = false;
};

struct OperationTimes {
    // Bucket b ends at 2^(b / 4) us.
    static constexpr size_t kBuckets = 160;
    uint64_t count = 0, failed = 0, bytes = 0;
    double seconds = 0, waited_seconds = 0;  // waited: a thread of the program was in wait()
    double reducing_seconds = 0;             // this process was adding, multiplying ... for them
    double waiting_seconds = 0;              // not all had come that came before the end
    uint64_t unsettled = 0;                  // of count, of which that is still to be told
    uint64_t unseen = 0;                     // of count, of which that is not known
    std::array<uint64_t, kBuckets> buckets{};
    double quantile_us(double part) const;  // the end of the bucket in which it lies
    // What is left of `seconds`. It may be too short: who waits for some may be adding meanwhile.
    double moving_seconds() const {
        return std::max(seconds - waiting_seconds - reducing_seconds, 0.0);
    }
};

// Of one operation. Waiting: for others that had not come, if that is known; `told_later`: settle()
// or give_up_waiting() will be called for it.
struct OperationTime {
    std::chrono::nanoseconds whole;
    std::optional<std::chrono::nanoseconds> waiting;
    bool told_later = false;
};

class Record {
public:
    static constexpr size_t kEntries = 2000;
    static constexpr size_t kEndedMost = 500;  // groups, and those that entries mention
    static Record& instance();

    uint64_t begin(RecordEntry entry, uint64_t bytes);  // 0 is no entry
    uint64_t latest() const;                            // the latest entry's number
    // Also counts it: its kind is of its title. `bytes` as at its begin. Returns the counts' epoch.
    uint64_t end(uint64_t number, const std::string& title, uint64_t bytes,
                 const OperationTime& time, bool failed);
    void waited(const std::string& title, std::chrono::nanoseconds time);
    // Of an operation that was counted in that epoch: nothing if counts have begun anew since then.
    void settle(const std::string& title, uint64_t epoch, std::chrono::nanoseconds waiting);
    void give_up_waiting(const std::string& title, uint64_t epoch);  // it will not be known

    void know_group(const std::string& name, std::vector<int> ranks);
    void end_group(const std::string& name);   // entries may name it still
    std::vector<RecordEntry> entries() const;  // by age
    std::map<std::string, std::vector<int>> groups() const;
    std::map<std::string, OperationTimes> times(bool reset);  // and counts anew

    // What counts this process's nanoseconds in reductions. Before the first operation.
    void set_reduce_counter(uint64_t (*counter)()) { reduce_counter_ = counter; }

private:
    void share_reducing();  // under mutex_
    mutable std::mutex mutex_;
    std::vector<RecordEntry> entries_;  // a ring
    uint64_t next_ = 1;
    struct KnownGroup {
        std::vector<int> ranks;  // of the latest of that name
        int alive = 0;
    };
    std::map<std::string, KnownGroup> groups_;
    std::deque<std::string> ended_;                // names, one for each group that has ended
    std::map<std::string, OperationTimes> times_;  // by kind: "all_reduce"
    uint64_t epoch_ = 0;                           // how often they have begun anew
    // Reductions are of the kind that is under way, of those that reduce; of the first of several.
    std::map<std::string, int> under_way_;  // kinds that reduce
    uint64_t (*reduce_counter_)() = nullptr;
    uint64_t reduced_ns_ = 0;  // have a kind already
};

// An operation has timed out: Python is asked to write the record, and given some time for it.
void dump_record_at_timeout();
// What to call then.
void set_record_dumper(void (*dumper)());

}  // namespace pomona::glue
