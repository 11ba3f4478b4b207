// mpi/trace/recorder.h: what one rank does, into its file (part_file.h).
// Idea: each thread has a chunk of the mapped file and appends to it without a lock. A call costs
// two looks at the clock and one record, which is written when it begins, and again when it ends.
// Nothing is recorded before MPI_Init and after MPI_Finalize.
#pragma once

#include "mpi/trace/part_file.h"

#include <atomic>
#include <string>

#include <time.h>

namespace pomona::trace {

enum class Function : uint16_t;  // generated: functions.h

inline int64_t now() {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// Set after MPI_Init, when there is a file; read by every call. Publishes the recorder's state.
extern std::atomic<bool> recording;
inline bool is_recording() { return recording.load(std::memory_order_acquire); }

// Makes the file; a mistake as text, or "".
// `far`: not where rank 0 gathers the files.
std::string open_part(const std::string& folder, int rank, int size, bool far);
PartHeader& part_header();
const std::string& part_file();  // "" when there is none
// No more is recorded; the file is complete.
void close_part();

void append(const Record& record);
// The call in which this thread is from now on, until the next append(); of calls in calls the
// inner one. And that it is in none.
void show_open(const Record& record);
void show_none();
// The last record of this thread, if it can be added to: of calls in vain one after the other.
Record* last_record();

// What is known of a call while it runs.
class Call {
public:
    Call(Function function, Kind kind) {
        record_.begin = now();
        record_.order = record_.begin;
        record_.bytes = 0;
        record_.comm = 0;
        record_.peer = kNobody;
        record_.tag = 0;
        record_.function = static_cast<uint16_t>(function);
        record_.kind = kind;
        record_.repeats = 0;
    }
    Record& record() { return record_; }
    // Should it never return, this is what is known of it.
    void open() { open(record_, record_.kind); }
    static void open(Record known, Kind kind) {
        known.kind = kind;
        known.end = 0;
        show_open(known);
    }
    void end() {
        record_.end = now();
        append(record_);
    }

private:
    Record record_;
};

}  // namespace pomona::trace
