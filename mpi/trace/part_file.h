// mpi/trace/part_file.h: the file into which one rank writes what it does, as it does it.
// Idea: a header of one page, then chunks; a chunk belongs to one thread, which appends records to
// it. The file is mapped, so what has been written outlives the process, however that ends. Behind
// the last record stands the call in which the thread is, whose `end` is 0; the record that follows
// takes its place. merge.h makes one trace of the files of all ranks. Times are those of the host's
// own steady clock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace pomona::trace {

enum class Kind : uint8_t {
    call,        // a call, and nothing more is known of it
    send,        // a call that sends to `peer`
    receive,     // a call that has received from `peer`
    collective,  // a call in which all ranks of `comm` take part
    wait,        // a call that completes requests
    // Not calls, but what a call has completed, or is to; `begin` and `end` are the call's.
    received,   // a receive posted at `order`
    sent,       // a send started at `order`
    collected,  // a collective operation started at `order`
    // What numbers of communicators mean.
    communicator,  // `comm`; the same on all ranks: `bytes`; its size: `peer`
    name           // of `comm`; 32 letters from `begin` on
};

// Instead of a rank of MPI_COMM_WORLD.
inline constexpr int32_t kNobody = -1, kElsewhere = -2;  // Elsewhere: of another world

struct Record {
    int64_t begin, end;  // nanoseconds
    int64_t order;  // when the message, or the collective operation, was begun; it is its number
    uint64_t bytes;
    uint32_t comm;
    int32_t peer;
    int32_t tag;
    uint16_t function;  // its place in kNames
    Kind kind;
    uint8_t
        repeats;  // of a test that said no: how often it was called one after the other, 255 at most
};
static_assert(sizeof(Record) == 48);

// The clock of a host against that of rank 0's host, at one time.
struct ClockPoint {
    int64_t at;      // of the own clock
    int64_t offset;  // to be added, to get rank 0's
    int64_t error;   // half of the quickest round trip; 0: the same host
};

struct PartHeader {
    static constexpr uint64_t kMagic = 0x31454341'52544d50;
    uint64_t magic, functions;  // a number made of the names of all functions
    uint64_t stamp;             // of the job: files of an earlier one are not used
    int32_t rank, size, process, points;
    ClockPoint clock[2];  // at MPI_Init, and if points is 2 at MPI_Finalize
    uint64_t lost;        // records for which there was no room
    char host[256];
};

struct Chunk {
    static constexpr size_t kBytes = 256 * 1024;
    static constexpr size_t kRecords = (kBytes - 16) / sizeof(Record);
    uint64_t thread;
    // Published by the thread after the record; read by merge() in another process.
    std::atomic<uint64_t> count;
    Record records[kRecords];
};
static_assert(sizeof(Chunk) <= Chunk::kBytes);
inline constexpr size_t kHeaderBytes = 4096;

extern const char* const kNames[];
extern const size_t kNameCount;
uint64_t names_number();

// Of the trace `file`.
std::string parts_folder(const std::string& file);
std::string part_path(const std::string& folder, int rank);

}  // namespace pomona::trace
