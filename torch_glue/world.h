// world.h: MPI as the glue uses it: start, end, error texts and completion callbacks.
// Idea: free of torch headers, so it compiles in a second and knows no tensor. Everything stands on
// mpi.h; the two things MPI lacks (callbacks, 16-bit floats) come from Pomona's mpix.h when the
// library under us exports them, else from a small stand-in, so that the same extension runs on any
// library of the MPI-5.0 standard ABI and can be compared on them.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "torch_glue/library.h"

namespace pomona::glue {

// Starts MPI with MPI_THREAD_MULTIPLE unless it runs already, and waits for the other processes for
// so long at most (0: no limit); it may then be called again. Empty string, or what went wrong.
std::string start_mpi(double timeout_seconds = 0);
// How start_mpi() finds the other processes where no launcher of MPI has started them. The same.
std::string wire_up_by(const MPIX_Wireup& wireup);
// Whether C's exit handlers are told the exit code. Not on macOS: there Python tells whether the
// program has failed. POMONA_TEST_NO_EXIT_STATUS makes it so elsewhere, for tests.
bool exit_status_known();

bool mpi_running();  // between MPI_Init and MPI_Finalize, in the process that called them
// A child that fork() made after MPI had started: it has copies of MPI's state and none of its
// threads, and must not call MPI.
bool in_forked_child();

struct WorldInfo {
    int rank = 0;
    int size = 1;
    std::string library;  // first line of MPI_Get_library_version
};
WorldInfo world_info();
bool has_mpix();  // callbacks and 16-bit floats come from the library itself

// How messages reach a rank of the world: MPIX_Link_paths' lines. Empty with another library.
std::string paths_to(int rank);

// Place among the ranks of this machine. Collective over the world.
struct LocalInfo {
    int rank = 0;
    int size = 1;
};
LocalInfo local_info();

std::string error_text(int code);
// The ranks of `comm` that this process knows to have died, in their order; and whether an error
// says that some have.
std::vector<int> dead_ranks(MPI_Comm comm);
bool is_death(int code);
// What a rank hears whose collective does not fit the others' calls.
bool is_mismatch(int code);
uint32_t hash_name(const std::string& name);               // the same on every rank and machine
std::string list_ranks(const std::vector<int>& ranks);     // "rank 1", "ranks 1, 3", or empty
std::string seconds_text(std::chrono::milliseconds time);  // "2 s", "1500 ms"

// Sends `bytes` of rank 0's `data` to all of MPI_COMM_WORLD (blocking; used once, at start).
int broadcast_bytes(void* data, int bytes);

// MPIX_Request_on_completion, or the stand-in: a thread that tests requests.
void on_completion(MPI_Request* request, MPIX_Completion_function* function, void* context);

// 16-bit floats. With mpix both are reducible with the predefined operations; without it they are
// two-byte types, and `Float16Ops` must be made with combine functions of the caller.
MPI_Datatype bfloat16_type();
MPI_Datatype float16_type();

// End of the process. MPI_Finalize is called by a C exit handler, only if we started MPI, the exit
// status is 0 and no operation was given up: MPI_Finalize would wait for peers that wait for us.
void give_up_finalize(const char* why, uint64_t owner = 0, uint64_t work = 0);  // 0: for good
// What `owner` had given up for is over all the same: its group was revoked, a later meeting was
// one of all ranks; or one of its works has ended late.
void take_back_finalize(uint64_t owner);
void take_back_finalize(uint64_t owner, uint64_t work);
const char* finalize_given_up();

// How long the end of a group, and of the process, waits for operations that are not complete.
inline constexpr std::chrono::seconds kLeaveGrace{5};

// `timeout` from now; the longest that datetime.timedelta can say is longer than the clock.
inline std::chrono::steady_clock::time_point deadline_in(std::chrono::milliseconds timeout) {
    constexpr std::chrono::hours kLongest{24 * 365 * 100};
    return std::chrono::steady_clock::now() +
           std::min<std::chrono::milliseconds>(timeout, kLongest);
}

// Unfinished operations that a completion callback will end; the exit handler waits for them.
void operation_started();
void operation_ended();

MPI_Comm world_aside();  // MPI_COMM_WORLD for the glue's own words

// The communicator of the first group: the whole world, ordered by c10d's rank. Subgroups come from
// it. Collective over the world. MPI error code.
int make_world_comm(int group_rank, MPI_Comm* comm);
// Members only; `ranks` count in `parent`. The tag tells apart groups made at the same time.
int make_sub_comm(MPI_Comm parent, const std::vector<int>& ranks, const std::string& name,
                  MPI_Comm* comm);
int copy_comm(MPI_Comm comm, MPI_Comm* copy);  // collective; errors come back as for the others
void free_comm(MPI_Comm* comm);

// One of the library's counters (docs/counters.md), by its name. 0 of another library, and before
// MPI has started.
uint64_t library_counter(const char* name);

// Largest tag the library takes.
int tag_max();

}  // namespace pomona::glue
