// onesided.cc: accesses of rank 0 to rank 1's window, in which rank 1 takes no part, and two kinds
// of epochs in which both do.
//
// put, get, accumulate               one access and MPI_Win_flush
// fetch-and-op, compare-and-swap     the same of one 64-bit integer
// lock                               MPI_Win_lock, exclusive, a put of 8 bytes, MPI_Win_unlock
// put-bandwidth, get-bandwidth       a window of accesses, each to its own place, and one flush
// fence                              ranks 0 and 1 put to each other between two fences
// pscw                               MPI_Win_post, start, put, complete, wait, both ways
// The memory is the library's own (MPI_Win_allocate); rank 1 waits in a barrier meanwhile. Windows
// of accesses are cut to 16 MiB.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "bench.h"
#include "values.h"

namespace pomona::bench {

namespace {

// `bytes` of every rank, for all others. Collective.
class Exposed {
public:
    Exposed(Bench& b, size_t bytes) : b_(b) {
        MPI_Win_allocate(MPI_Aint(std::max<size_t>(bytes, 1)), 1, MPI_INFO_NULL, b.comm, &memory_,
                         &win_);
        std::memset(memory_, 0, bytes);
        MPI_Win_fence(0, win_);
        MPI_Win_fence(MPI_MODE_NOSUCCEED, win_);
    }
    ~Exposed() { MPI_Win_free(&win_); }
    Exposed(const Exposed&) = delete;
    Exposed& operator=(const Exposed&) = delete;

    MPI_Win win() const { return win_; }
    unsigned char* memory() const { return memory_; }

    // Rank 0's accesses, each with its end; microseconds a call.
    template <class Access> Summary timed(Access access) {
        bool active = b_.rank == 0;
        if (active) MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win_);
        Summary time = b_.batches(active, [&] {
            access();
            MPI_Win_flush(1, win_);
        });
        if (active) MPI_Win_unlock(1, win_);
        return time;
    }
    // One access by rank 0 between fences, for a check.
    template <class Access> void once(Access access) {
        MPI_Win_fence(MPI_MODE_NOPRECEDE, win_);
        if (b_.rank == 0) access();
        MPI_Win_fence(MPI_MODE_NOSUCCEED, win_);
    }

private:
    Bench& b_;
    unsigned char* memory_ = nullptr;
    MPI_Win win_ = MPI_WIN_NULL;
};

std::string of_size(const std::string& name, size_t bytes) {
    return name + " of " + show_size(bytes);
}

// `count` accesses of `n` bytes, each to its own place.
struct Moves {
    bool put;
    int count, n;
    size_t bytes() const { return size_t(count) * size_t(n); }
    void run(Buffer& local, MPI_Win win) const {
        for (int i = 0; i < count; ++i) {
            size_t place = size_t(i) * size_t(n);
            unsigned char* here = local.data() + place;
            if (put) MPI_Put(here, n, MPI_BYTE, 1, MPI_Aint(place), n, MPI_BYTE, win);
            else MPI_Get(here, n, MPI_BYTE, 1, MPI_Aint(place), n, MPI_BYTE, win);
        }
    }
};

// What rank 1 has, after rank 0 has put it, or rank 0, after it has got it.
void check_moved(Bench& b, const char* name, const Moves& moves, Exposed& exposed, Buffer& local,
                 unsigned seed) {
    if (!b.options.verify) return;
    Buffer there(moves.bytes());
    if (moves.put) local.fill(seed), there.poison();
    else local.poison(), there.fill(seed);
    if (b.rank == 1) std::memcpy(exposed.memory(), there.data(), moves.bytes());
    exposed.once([&] { moves.run(local, exposed.win()); });
    std::memcpy(there.data(), exposed.memory(), moves.bytes());
    std::string wrong;
    if (b.rank == 1 && moves.put) wrong = there.differs(seed, moves.bytes());
    if (b.rank == 0 && !moves.put) wrong = local.differs(seed, moves.bytes());
    b.require(wrong.empty(), of_size(name, size_t(moves.n)) + ": " + wrong);
}

void move(Bench& b, const char* name, const char* what, bool put, bool windows) {
    b.title(std::string(name) + ": " + what);
    for (size_t bytes : b.sizes({1, 4u << 20})) {
        if (bytes == 0) continue;
        b.step(of_size(name, bytes));
        size_t fit = std::max<size_t>(1, kInFlightMax / bytes);
        int count = windows ? int(std::min<size_t>(size_t(b.options.window), fit)) : 1;
        const Moves moves{put, count, int(bytes)};
        Exposed exposed(b, moves.bytes());
        Buffer local(moves.bytes());
        check_moved(b, name, moves, exposed, local, 3);
        Summary time = exposed.timed([&] { moves.run(local, exposed.win()); });
        check_moved(b, name, moves, exposed, local, 11);
        Row row{name, bytes, true, time, double(moves.bytes()) / time.p50 * 1e-3, -1, false, {}};
        if (windows) row.extra.emplace_back("window", count);
        b.add(std::move(row));
    }
}

void accumulate(Bench& b) {
    const ElementType& type = *find_type(b.options.type);
    const Operation& op = *find_operation(b.options.op);
    b.title(std::string("accumulate: rank 0 to rank 1's window, with the flush; ") + type.name +
            ", " + op.name);
    for (size_t bytes : b.sizes({4, 1u << 20})) {
        size_t count = bytes / type.bytes;
        if (count == 0) continue;
        b.step(of_size("accumulate", bytes));
        Exposed exposed(b, bytes);
        Buffer local(bytes);
        auto fill = [&] {
            for (size_t i = 0; i < count; ++i) {
                store(type, local.data(), i, value(op.kind, 2, 0, i));
                if (b.rank == 1) store(type, exposed.memory(), i, value(op.kind, 2, 1, i));
            }
        };
        auto add = [&] {
            MPI_Accumulate(local.data(), int(count), type.mpi, 1, 0, int(count), type.mpi, op.mpi,
                           exposed.win());
        };
        auto check = [&] {
            if (!b.options.verify) return;
            fill();
            exposed.once(add);
            std::string wrong;
            for (size_t i = 0; b.rank == 1 && wrong.empty() && i < count; ++i)
                if (!same(type, load(type, exposed.memory(), i), reduced(op.kind, 2, 0, 1, i)))
                    wrong = "element " + std::to_string(i) + " is wrong";
            b.require(wrong.empty(), of_size("accumulate", bytes) + ": " + wrong);
        };
        fill();
        check();
        Summary time = exposed.timed(add);
        check();
        b.add(Row{"accumulate", bytes, true, time, double(bytes) / time.p50 * 1e-3, -1, false, {}});
    }
}

// One 64-bit integer of rank 1; `access` changes 37 into 42 and finds 37.
template <class Access>
void atomics(Bench& b, const char* name, const std::string& title, Access access) {
    b.title(title);
    b.step(name);
    Exposed exposed(b, sizeof(int64_t));
    int64_t found = 0, held = 37;
    if (b.rank == 1) std::memcpy(exposed.memory(), &held, sizeof held);
    exposed.once([&] { access(exposed.win(), found); });
    std::memcpy(&held, exposed.memory(), sizeof held);
    bool good = b.rank == 0 ? found == 37 : b.rank != 1 || held == 42;
    if (b.options.verify)
        b.require(good, std::string(name) + ": found " + std::to_string(found) + ", left " +
                            std::to_string(held) + ", expected 37 and 42");
    Summary time = exposed.timed([&] { access(exposed.win(), found); });
    b.add(Row{name, sizeof(int64_t), false, time, -1, -1, false, {}});
}

void fetch_and_op(Bench& b) {
    int64_t five = 5;
    atomics(b, "fetch-and-op", "fetch-and-op: rank 0 adds to an integer of rank 1, with the flush",
            [&](MPI_Win win, int64_t& found) {
                MPI_Fetch_and_op(&five, &found, MPI_INT64_T, 1, 0, MPI_SUM, win);
            });
}

void compare_and_swap(Bench& b) {
    int64_t before = 37, after = 42;
    atomics(b, "compare-and-swap", "compare-and-swap: of an integer of rank 1, with the flush",
            [&](MPI_Win win, int64_t& found) {
                MPI_Compare_and_swap(&after, &before, &found, MPI_INT64_T, 1, 0, win);
            });
}

void lock(Bench& b) {
    b.title("lock: rank 0 locks rank 1's window, puts 8 bytes and unlocks it");
    b.step("lock");
    Exposed exposed(b, sizeof(int64_t));
    int64_t value = 37, held = 0;
    Summary time = b.batches(b.rank == 0, [&] {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, exposed.win());
        MPI_Put(&value, sizeof value, MPI_BYTE, 1, 0, sizeof value, MPI_BYTE, exposed.win());
        MPI_Win_unlock(1, exposed.win());
    });
    MPI_Win_fence(MPI_MODE_NOSUCCEED, exposed.win());
    std::memcpy(&held, exposed.memory(), sizeof held);
    if (b.options.verify)
        b.require(b.rank != 1 || held == 37,
                  "lock: left " + std::to_string(held) + ", expected 37");
    b.add(Row{"lock", sizeof(int64_t), false, time, -1, -1, false, {}});
}

// Ranks 0 and 1 put to each other; `epoch` is called by all, and puts by the function it is given.
template <class Epoch> void both_put(Bench& b, const char* name, Epoch epoch) {
    for (size_t bytes : b.sizes({1, 4u << 20})) {
        if (bytes == 0) continue;
        b.step(of_size(name, bytes));
        Exposed exposed(b, bytes);
        Buffer local(bytes), there(bytes);
        local.fill(unsigned(b.rank) + 5);
        int n = int(bytes);
        auto put = [&] {
            MPI_Put(local.data(), n, MPI_BYTE, 1 - b.rank, 0, n, MPI_BYTE, exposed.win());
        };
        Summary time = b.batches(true, [&] { epoch(exposed.win(), put); });
        MPI_Win_fence(MPI_MODE_NOSUCCEED, exposed.win());
        std::memcpy(there.data(), exposed.memory(), bytes);
        std::string wrong;
        if (b.rank < 2 && b.options.verify) wrong = there.differs(unsigned(1 - b.rank) + 5, bytes);
        b.require(wrong.empty(), of_size(name, bytes) + ": " + wrong);
        b.add(Row{name, bytes, true, time, double(bytes) / time.p50 * 1e-3, -1, false, {}});
    }
}

void fence(Bench& b) {
    b.title("fence: ranks 0 and 1 put to each other, with the fence of all");
    both_put(b, "fence", [&](MPI_Win win, auto put) {
        MPI_Win_fence(0, win);
        if (b.rank < 2) put();
        MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    });
}

void pscw(Bench& b) {
    b.title("pscw: ranks 0 and 1 post, start, put, complete and wait");
    int peer = 1 - b.rank;
    MPI_Group all, other = MPI_GROUP_EMPTY;
    MPI_Comm_group(b.comm, &all);
    if (b.rank < 2) MPI_Group_incl(all, 1, &peer, &other);
    both_put(b, "pscw", [&](MPI_Win win, auto put) {
        if (b.rank >= 2) return;
        MPI_Win_post(other, 0, win);
        MPI_Win_start(other, 0, win);
        put();
        MPI_Win_complete(win);
        MPI_Win_wait(win);
    });
    if (b.rank < 2) MPI_Group_free(&other);
    MPI_Group_free(&all);
}

}  // namespace

std::vector<Case> one_sided_cases() {
    const SizeRange usual = {1, 4u << 20};
    return {
        {"put", "one-sided", "rank 0 writes to rank 1's window", 2, usual,
         [](Bench& b) {
             move(b, "put", "rank 0 writes to rank 1's window, with the flush", true, false);
         }},
        {"get", "one-sided", "rank 0 reads rank 1's window", 2, usual,
         [](Bench& b) {
             move(b, "get", "rank 0 reads rank 1's window, with the flush", false, false);
         }},
        {"accumulate", "one-sided", "rank 0 adds to rank 1's window", 2, {4, 1u << 20}, accumulate},
        {"fetch-and-op", "one-sided", "of one 64-bit integer", 2, {}, fetch_and_op},
        {"compare-and-swap", "one-sided", "of one 64-bit integer", 2, {}, compare_and_swap},
        {"lock", "one-sided", "an exclusive lock, a put and the unlock", 2, {}, lock},
        {"put-bandwidth", "one-sided", "windows of writes", 2, usual,
         [](Bench& b) {
             move(b, "put-bandwidth", "writes to rank 1; times are of a window", true, true);
         }},
        {"get-bandwidth", "one-sided", "windows of reads", 2, usual,
         [](Bench& b) {
             move(b, "get-bandwidth", "reads from rank 1; times are of a window", false, true);
         }},
        {"fence", "one-sided", "both put to each other between fences", 2, usual, fence},
        {"pscw", "one-sided", "both post, start, put, complete and wait", 2, usual, pscw},
    };
}

}  // namespace pomona::bench
