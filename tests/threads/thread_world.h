// tests/threads/thread_world.h: runs an MPI program whose ranks are threads of this process.
// Idea: each rank has its own Process (mpi/runtime/process.h) over real shared memory or TCP; what
// a launcher would do (addresses, fences) is a board in memory. So the thread sanitizer sees both
// ends of every message, and a rank's own threads besides.
#pragma once

#include "mpi/abi/current.h"
#include "mpi/include/mpi.h"
#include "mpi/include/mpix.h"

#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace pomona {

struct ThreadJob {
    int ranks = 2;
    std::string transport = "shm";  // or tcp
    int level = MPI_THREAD_SINGLE;
    std::vector<std::string> environment;  // POMONA_NAME=value, for every rank
};

// The forms every program is run in.
struct ThreadForm {
    const char* name;
    ThreadJob job;
};
std::vector<ThreadForm> thread_forms();
inline std::string form_name(const ThreadForm& form) { return form.name; }

// Runs `program(rank)` between MPI_Init and MPI_Finalize, on every rank at once.
void run_threads(const ThreadJob& job, const std::function<void(int)>& program);

// A further thread of the calling rank; join it before the rank ends.
std::thread more_of_this_rank(std::function<void()> function);

uint64_t threads_seed();  // POMONA_SEED repeats a run

}  // namespace pomona
