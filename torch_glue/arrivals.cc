// arrivals.cc: see arrivals.h.
#include "torch_glue/arrivals.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "torch_glue/world.h"

namespace pomona::glue {
namespace {

constexpr size_t kStarts = 512;  // that are remembered of a process

// Written by one process. A reader that meets a half-written one sees another name.
struct Start {
    std::atomic<uint64_t> name;  // of a group's collective
    std::atomic<int64_t> at;     // nanoseconds of the steady clock
};
struct Starts {
    std::array<Start, kStarts> all;
    Start& of(uint64_t name) { return all[name % kStarts]; }
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

// Never unmapped: threads may end operations as long as the process lives.
struct Table {
    int rank = 0;                  // in the first group
    Starts* own = nullptr;         // null: this machine's ranks have no memory for it
    std::vector<Starts*> by_rank;  // of the first group; null: shares no memory with this one
};
std::atomic<const Table*> table{nullptr};

// Keys are hashes, so a group's collectives are in a row somewhere. 0 is what fresh memory holds.
uint64_t name_of(uint64_t key, uint64_t sequence) { return std::max<uint64_t>(key + sequence, 1); }

using SharedName = std::array<char, 32>;  // macOS takes no longer ones

// Held, and marked as held, until the name is gone: should this process be killed before that, the
// next job removes it (btl/base/shared_names.h).
void hold([[maybe_unused]] int descriptor) {
#if defined(__linux__)
    constexpr mode_t kHeld = 0600 | S_ISVTX;
    if (flock(descriptor, LOCK_SH | LOCK_NB) == 0) static_cast<void>(fchmod(descriptor, kHeld));
#endif
}

bool resize(int descriptor, size_t bytes) {
    const auto size = static_cast<off_t>(bytes);
#if defined(__linux__)
    return posix_fallocate(descriptor, 0, size) == 0;  // else writing may end the process
#else
    return ftruncate(descriptor, size) == 0;
#endif
}

void* map(int descriptor, size_t bytes) {
    void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    return data == MAP_FAILED ? nullptr : data;
}

// Waits for a collective that `start` begins. MPI error code.
template <class Start> int run(const Start& start) {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status;
    const int error = start(&request);
    return error == MPI_SUCCESS ? mpi().Wait(&request, &status) : error;
}

// One file for the ranks of this machine; null where one of them has not got it.
int share_memory(MPI_Comm local, int rank, int size, Starts** shared) {
    SharedName name{};  // empty: there is none
    const size_t bytes = sizeof(Starts) * static_cast<size_t>(size);
    int made = -1;
    void* data = nullptr;
    if (rank == 0) {
        const auto now = static_cast<unsigned>(count_of(std::chrono::steady_clock::now()) & 0xffff);
        std::snprintf(name.data(), name.size(), "/pomona-g%x.%x", static_cast<unsigned>(getpid()),
                      now);
        made = shm_open(name.data(), O_CREAT | O_EXCL | O_RDWR, 0600);
        if (made >= 0) {
            hold(made);
            if (resize(made, bytes)) data = map(made, bytes);
        }
        if (data == nullptr) {
            if (made >= 0) shm_unlink(name.data());
            name = {};
        }
    }
    int error = run([&](MPI_Request* request) {
        return mpi().Ibcast_c(name.data(), static_cast<MPI_Count>(name.size()), MPI_BYTE, 0, local,
                              request);
    });
    if (error == MPI_SUCCESS && rank != 0 && name[0] != '\0') {
        const int opened = shm_open(name.data(), O_RDWR, 0600);
        struct stat status {};
        if (opened >= 0 && fstat(opened, &status) == 0 && status.st_uid == geteuid() &&
            static_cast<size_t>(status.st_size) >= bytes)
            data = map(opened, bytes);
        if (opened >= 0) close(opened);
    }
    std::vector<char> all(static_cast<size_t>(size), 0);
    const char mine = data != nullptr ? 1 : 0;
    if (error == MPI_SUCCESS) {
        error = run([&](MPI_Request* request) {
            return mpi().Iallgather_c(&mine, 1, MPI_BYTE, all.data(), 1, MPI_BYTE, local, request);
        });
    }
    if (rank == 0 && name[0] != '\0') shm_unlink(name.data());  // all have it
    if (made >= 0) close(made);
    const bool complete = std::all_of(all.begin(), all.end(), [](char one) { return one == 1; });
    if (data != nullptr && (error != MPI_SUCCESS || !complete)) munmap(data, bytes);
    *shared = error == MPI_SUCCESS && complete ? static_cast<Starts*>(data) : nullptr;
    return error;
}

}  // namespace

int share_arrivals(MPI_Comm first_group) {
    // Once, like all ranks: of several machines one may have no memory for it.
    static std::atomic<bool> tried{false};
    if (tried.exchange(true)) return MPI_SUCCESS;
    MPI_Comm local = MPI_COMM_NULL;
    int world_rank = 0, world_size = 1, rank = 0, size = 1;
    mpi().Comm_rank(first_group, &world_rank);
    mpi().Comm_size(first_group, &world_size);
    int error =
        mpi().Comm_split_type(first_group, MPI_COMM_TYPE_SHARED, world_rank, MPI_INFO_NULL, &local);
    if (error != MPI_SUCCESS) return error;
    mpi().Comm_rank(local, &rank);
    mpi().Comm_size(local, &size);
    Starts* shared = nullptr;
    error = share_memory(local, rank, size, &shared);
    std::vector<int> ranks(static_cast<size_t>(size), -1);
    if (error == MPI_SUCCESS) {
        error = run([&](MPI_Request* request) {
            return mpi().Iallgather_c(&world_rank, sizeof(int), MPI_BYTE, ranks.data(), sizeof(int),
                                      MPI_BYTE, local, request);
        });
    }
    free_comm(&local);
    struct Place {
        int machine, shares;  // the machine's lowest rank; whether its ranks have that memory
    };
    const Place own{*std::min_element(ranks.begin(), ranks.end()), shared != nullptr ? 1 : 0};
    std::vector<Place> places(static_cast<size_t>(world_size));
    if (error == MPI_SUCCESS) {
        error = run([&](MPI_Request* request) {
            return mpi().Iallgather_c(&own, sizeof own, MPI_BYTE, places.data(), sizeof own,
                                      MPI_BYTE, first_group, request);
        });
    }
    if (error != MPI_SUCCESS) return error;
    auto* const made = new Table;
    made->by_rank.resize(static_cast<size_t>(world_size), nullptr);
    if (shared != nullptr) {
        made->own = shared + rank;
        for (int i = 0; i < size; ++i)
            made->by_rank[static_cast<size_t>(ranks[static_cast<size_t>(i)])] = shared + i;
    }
    made->rank = world_rank;
    table.store(made);
    // All ranks see alike whether some share no memory.
    const bool together = std::all_of(places.begin(), places.end(), [&](const Place& place) {
        return place.machine == places.front().machine && place.shares == 1;
    });
    if (together) return MPI_SUCCESS;
    std::vector<int> machines(places.size());
    std::transform(places.begin(), places.end(), machines.begin(),
                   [](const Place& place) { return place.machine; });
    return watch_far_arrivals(first_group, std::move(machines));
}

void arrive(uint64_t key, uint64_t sequence, ArrivalTime at) {
    const Table* const known = table.load(std::memory_order_acquire);
    if (known == nullptr) return;
    arrive_far(key, sequence, at);
    if (known->own == nullptr) return;
    const uint64_t name = name_of(key, sequence);
    Start& start = known->own->of(name);
    start.name.store(0, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    start.at.store(count_of(at), std::memory_order_relaxed);
    start.name.store(name, std::memory_order_release);
}

std::optional<LastArrival> last_arrival(const std::vector<int>& members, uint64_t key,
                                        uint64_t sequence, ArrivalTime begun, ArrivalTime ended) {
    const Table* const known = table.load(std::memory_order_acquire);
    if (known == nullptr) return std::nullopt;
    const uint64_t name = name_of(key, sequence);
    const int64_t end = count_of(ended);
    int64_t last = count_of(begun);
    LastArrival result;
    const auto look = [&](int rank) {
        if (rank == known->rank) return;
        Starts* const starts = known->by_rank[static_cast<size_t>(rank)];
        if (starts == nullptr) return result.far.push_back(rank);
        const Start& start = starts->of(name);
        if (start.name.load(std::memory_order_acquire) != name) return;
        const int64_t at = start.at.load(std::memory_order_relaxed);
        std::atomic_thread_fence(std::memory_order_acquire);
        if (start.name.load(std::memory_order_relaxed) == name && at <= end)
            last = std::max(last, at);
    };
    if (members.empty())
        for (int rank = 0; rank < static_cast<int>(known->by_rank.size()); ++rank) look(rank);
    else std::for_each(members.begin(), members.end(), look);
    result.at = begun + std::chrono::nanoseconds(last - count_of(begun));
    return result;
}

}  // namespace pomona::glue
