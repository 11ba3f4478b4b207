// mpi/rma/window.cc: making and freeing windows, and their memory (MPI 5.0, section 12.2).
#include "mpi/rma/window.h"

#include "btl/base/messages.h"
#include "mpi/object/contexts.h"
#include "mpi/rma/window_check.h"
#include "mpi/runtime/collectives.h"
#include "mpi/runtime/consensus.h"
#include "mpi/runtime/life.h"
#include "mpi/runtime/process.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <sys/statvfs.h>
#include <unistd.h>

namespace pomona {

// ---- memory

// Whether the system has room for so much shared memory: going beyond ends a program by a signal
// where memory is first touched. macOS has no such file system and no such limit.
static bool shared_memory_has_room(size_t bytes) {
#if defined(__APPLE__)
    (void)bytes;
    return true;
#else
    struct statvfs state;
    if (statvfs("/dev/shm", &state) != 0) return true;
    return bytes / state.f_frsize < state.f_bavail - state.f_bavail / 8;
#endif
}

static size_t round_up(size_t value, size_t to) { return (value + to - 1) / to * to; }

// A page: most buffers that programs copy from begin with one, and a copy to a place that lies a
// little further within its page waits for its own stores (4K aliasing, Intel 64 and IA-32
// Architectures Optimization Reference Manual).
static constexpr size_t kPartAlignment = 4096;

// Of accumulations, and of epochs.
SharedLock* Window::shared_lock(int rank) {
    return reinterpret_cast<SharedLock*>(segment_.data()) + rank;
}

bool Window::process_has_ended(int member) const {
    auto place = static_cast<size_t>(member);
    return has_ended(processes_[place], life_of(comm_->process, comm_->group->members()[place]));
}

using SegmentName = std::array<char, 32>;  // at most 31 characters, for macOS

// The communicator's context does not name the segment: the groups of one split share it, and they
// may run on one machine. The maker's rank in the job and its count do. The count may begin again,
// since a name stands only until all members have opened the segment.
static SegmentName new_segment_name(Process& process) {
    uint64_t count = process.next_use(hash_text(7, "segment of a window"));
    SegmentName name = {};
    std::snprintf(name.data(), name.size(), "/pomona-%s-w%x.%x", process.job().tag.c_str(),
                  static_cast<unsigned>(process.job().rank), static_cast<unsigned>(count & 0xffff));
    return name;
}

// What `owner` looks at of another member: how often it has posted to `owner`, and completed.
std::atomic<uint32_t>& Window::count_of(Count which, int owner, int from) const {
    auto members = static_cast<size_t>(comm_->size());
    std::byte* words =
        segment_.data() + (sizeof(SharedLock) + EpochLock::bytes(comm_->size())) * members;
    size_t place = (static_cast<size_t>(owner) * 2 + which) * members + static_cast<size_t>(from);
    return reinterpret_cast<std::atomic<uint32_t>*>(words)[place];
}

// One segment for all: locks of both kinds, counts of posts and completes, then the parts by rank.
int Window::share_memory(bool contiguous, const char** reason) {
    size_t counts = 2 * sizeof(std::atomic<uint32_t>) * parts_.size();
    size_t locks = sizeof(SharedLock) + EpochLock::bytes(comm_->size());
    size_t total = round_up((locks + counts) * parts_.size(), kPartAlignment);
    std::vector<size_t> offsets;
    for (const Part& each : parts_) {
        offsets.push_back(total);
        total += static_cast<size_t>(each.size);
        if (!contiguous) total = round_up(total, kPartAlignment);
    }
    SegmentName name = {};  // empty: there is none
    if (comm_->rank() == 0 && shared_memory_has_room(total)) {
        name = new_segment_name(comm_->process);
        auto created = Segment::create(name.data(), total, comm_->process.job().directory);
        if (created.ok()) segment_ = std::move(*created);
        else name[0] = '\0';
    }
    if (int error = run_bcast(*comm_, name.data(), name.size(), 0)) return error;
    if (name[0] != '\0' && comm_->rank() != 0) {
        auto opened = Segment::open(name.data());
        if (opened.ok() && opened->size() >= total) segment_ = std::move(*opened);
    }
    // The number 0: it has not mapped the segment.
    ProcessName own = segment_.data() ? ProcessName::own() : ProcessName();
    processes_.resize(parts_.size());
    if (int error = run_allgather(*comm_, &own, processes_.data(), sizeof own)) return error;
    if (!std::all_of(processes_.begin(), processes_.end(),
                     [](const ProcessName& each) { return each.number != 0; })) {
        segment_ = {};
        *reason = messages::shm_window;
        return MPI_ERR_NO_MEM;
    }
    segment_.unlink();  // all have it: nothing is left behind, however they end
    std::byte* lock = segment_.data() + sizeof(SharedLock) * parts_.size();
    for (size_t i = 0; i < parts_.size(); ++i, lock += EpochLock::bytes(comm_->size())) {
        parts_[i].direct = segment_.data() + offsets[i];
        locks_.push_back(lock);
    }
    base_ = parts_[static_cast<size_t>(comm_->rank())].direct;
    shared_ = true;
    return MPI_SUCCESS;
}

// Communicators need the strips of boards more.
static constexpr int kStripsMost = kBoardStrips / 2;

// What members tell each other first.
struct Window::Told {
    int64_t size, unit;
    uint64_t address;  // 0: nobody may read it
    int64_t strip;     // of a board, with the lock; -1: there is none
    ProcessName process;
};

// Asking the system for it takes as long as half of a window's making.
static ProcessName own_name() {
    thread_local ProcessName known;
    if (known.number != getpid()) known = ProcessName::own();  // a forked child has another
    return known;
}

// For locks of a window whose memory is not shared, if that may be: memory that is mapped already,
// since a segment for each window would take longer than many windows live.
int Window::claim_locks() {
    auto most = comm_->process.params.shm_board;
    if (static_cast<uint64_t>(comm_->size()) > most) return -1;
    Engine::Hold hold(engine());
    return engine().boards.claim_memory(EpochLock::bytes(comm_->size()), kStripsMost);
}

// Whether this process sees the locks of all.
bool Window::find_locks(const std::vector<Told>& all) {
    Engine::Hold hold(engine());
    for (size_t i = 0; i < all.size(); ++i) {
        auto member = static_cast<int>(i);
        std::byte* lock = all[i].strip < 0
                              ? nullptr
                              : engine().boards.memory(job_rank(member), member == comm_->rank(),
                                                       static_cast<int>(all[i].strip));
        if (!lock) return false;
        locks_.push_back(lock);
        processes_.push_back(all[i].process);
    }
    return true;
}

// They are used if all members see all of them. A barrier, too.
int Window::agree_on_locks(bool found) {
    std::vector<char> all(parts_.size());
    char own = found;
    if (int error = run_allgather(*comm_, &own, all.data(), sizeof own)) return error;
    if (std::find(all.begin(), all.end(), 0) == all.end()) return MPI_SUCCESS;
    locks_.clear();
    Engine::Hold hold(engine());
    if (strip_ >= 0) engine().boards.disclaim(std::exchange(strip_, -1));
    return MPI_SUCCESS;
}

static bool on_one_node(const Communicator& comm) {
    const Job& job = comm.process.job();
    const auto& members = comm.group->members();
    return std::all_of(members.begin(), members.end(),
                       [&](int member) { return job.node(member) == job.node(job.rank); });
}

int Window::make_memory(const Options& options, const char** reason) {
    bool one_node = on_one_node(*comm_);
    switch (flavor_) {
    case MPI_WIN_FLAVOR_CREATE: base_ = options.base; break;
    case MPI_WIN_FLAVOR_DYNAMIC: return MPI_SUCCESS;
    case MPI_WIN_FLAVOR_SHARED:
        if (!one_node) {
            *reason =
                "the members are on several nodes; split the communicator by "
                "MPI_COMM_TYPE_SHARED first";
            return MPI_ERR_RMA_SHARED;
        }
        if (int error = share_memory(options.contiguous, reason)) return error;
        break;
    case MPI_WIN_FLAVOR_ALLOCATE: {
        if (one_node && comm_->size() > 1 && comm_->process.params.rma_shared) {
            int error = share_memory(false, reason);
            if (error == MPI_SUCCESS) break;
            if (error != MPI_ERR_NO_MEM) return error;
        }
        own_memory_.reset(new (std::nothrow) std::byte[size_ + kPartAlignment]());
        int failed = !own_memory_;
        std::vector<int> all(parts_.size());
        if (int error = run_allgather(*comm_, &failed, all.data(), sizeof failed)) return error;
        if (std::find(all.begin(), all.end(), 1) != all.end()) {
            *reason = "there is not enough memory";
            return MPI_ERR_NO_MEM;
        }
        auto address = reinterpret_cast<uintptr_t>(own_memory_.get());
        base_ = reinterpret_cast<void*>(round_up(address, kPartAlignment));
        break;
    }
    }
    memory_ = static_cast<std::byte*>(base_);
    parts_[static_cast<size_t>(comm_->rank())].direct = memory_;
    return MPI_SUCCESS;
}

// ---- making and freeing

Window::Window(Ref<Communicator> comm)
    : Object(Kind::window), comm_(std::move(comm)), engine_(comm_->process.engine) {}

Window* Window::make(Ref<Communicator> comm, const Options& options, RmaError& why) {
    auto* window = new Window(std::move(comm));
    window->flavor_ = options.flavor;
    window->size_ = static_cast<size_t>(options.size);
    window->attribute_size = options.size;
    window->attribute_unit = static_cast<int>(options.unit);
    window->attribute_flavor = options.flavor;
    Communicator& own = *window->comm_;
    auto members = static_cast<size_t>(own.size());
    bool by_messages = !own.process.params.rma_shared || !on_one_node(own);
    bool shares_locks = !by_messages && (options.flavor == MPI_WIN_FLAVOR_CREATE ||
                                         options.flavor == MPI_WIN_FLAVOR_DYNAMIC);
    Told mine = {options.size, options.unit, 0, -1, {}};
    if (shares_locks) {
        if (options.flavor == MPI_WIN_FLAVOR_CREATE)
            mine.address = reinterpret_cast<uintptr_t>(options.base);
        mine.strip = window->strip_ = window->claim_locks();
        mine.process = own_name();
    }
    std::vector<Told> all(members);
    int error = run_allgather(own, &mine, all.data(), sizeof mine);
    window->parts_.resize(members);
    window->targets_.resize(members);
    for (size_t i = 0; i < members; ++i) {
        Part& part = window->parts_[i];
        part.size = all[i].size, part.unit = all[i].unit, part.address = all[i].address;
    }
    if (error) why = {error, why_unfinished(error)};
    else if (int code = window->make_memory(options, &why.reason)) why.error = code;
    if (own.process.checker) window->check = std::make_unique<WindowCheck>(*window);
    if (!why) {
        window->open_channels();
        error = shares_locks ? window->agree_on_locks(window->find_locks(all)) : run_barrier(own);
        if (error) why = {error, why_unfinished(error)};
    }
    if (!why) return window;
    window->close_channels();
    window->release();
    return nullptr;
}

RmaError Window::free() {
    if (locked_all_ || started_ || posted_ ||
        std::any_of(targets_.begin(), targets_.end(),
                    [](const Target& each) { return each.lock != Lock::none; }))
        return {MPI_ERR_RMA_SYNC, "an epoch is still open"};
    RmaError result = flush_everything();
    // Nobody sends a command after this.
    int error = run_barrier(*comm_);
    // Messages that say what it has seen by itself meanwhile may be on their way still.
    if (!error && locks_are_shared()) {
        auto& sent = epoch_lock(comm_->rank()).wakes();
        engine().wait_until([&] { return wakes_ == sent.load(std::memory_order_acquire); });
    }
    if (error) {
        if (!result) result = {error, why_unfinished(error)};
        // Others may go on for a while: nothing here answers them any more.
        Engine::Hold hold(engine());
        comm_->process.agreements->revoke(*comm_);
    }
    engine().wait_until([&] { return replies_ == 0; });
    close_channels();
    Engine::Hold hold(engine());
    if (!error && strip_ >= 0) engine().boards.disclaim(strip_);  // else others may use it yet
    return result;
}

Window::~Window() {
    check.reset();
    Engine::Hold hold(engine());
    for (Operation* each : idle_operations_) delete each;
    comm_ = {};
}

RmaError Window::attach(void* base, MPI_Aint size) {
    if (flavor_ != MPI_WIN_FLAVOR_DYNAMIC)
        return {MPI_ERR_RMA_FLAVOR, "memory is attached to dynamic windows only"};
    if (size == 0) return {};
    Engine::Hold hold(engine());
    auto address = reinterpret_cast<uintptr_t>(base);
    auto after = attached_.lower_bound(address);
    bool overlaps = after != attached_.end() && after->first - address < static_cast<size_t>(size);
    if (after != attached_.begin()) {
        auto before = std::prev(after);
        overlaps |= address - before->first < before->second;
    }
    if (overlaps) return {MPI_ERR_RMA_ATTACH, "the memory overlaps what is attached already"};
    attached_[address] = static_cast<size_t>(size);
    return {};
}

RmaError Window::detach(const void* base) {
    if (flavor_ != MPI_WIN_FLAVOR_DYNAMIC)
        return {MPI_ERR_RMA_FLAVOR, "memory is detached from dynamic windows only"};
    Engine::Hold hold(engine());
    if (attached_.erase(reinterpret_cast<uintptr_t>(base)) == 0)
        return {MPI_ERR_RMA_ATTACH, "no attached memory begins at base"};
    return {};
}

}  // namespace pomona
