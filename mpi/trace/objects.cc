// mpi/trace/objects.cc: see objects.h.
#include "mpi/trace/objects.h"

#include "mpi/trace/pmpi.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <unordered_map>
#include <utility>

namespace pomona::trace {

namespace {

struct Comms {
    std::mutex mutex;
    std::unordered_map<MPI_Comm, const CommInfo*> known;
    std::unordered_map<uint64_t, uint32_t> made;       // by members: how many
    std::vector<std::unique_ptr<const CommInfo>> all;  // kept: requests may refer to them
    std::atomic<uint32_t> version{1};  // changes when a handle comes to mean something else
};
// Not destroyed: threads may call MPI while the process ends.
Comms& comms() {
    static Comms* const made = new Comms;
    return *made;
}

struct Last {
    MPI_Comm comm = MPI_COMM_NULL;
    uint32_t version = 0;
    const CommInfo* info = nullptr;
};
thread_local Last last;

std::vector<int32_t> world_ranks(MPI_Group group) {
    int size = 0;
    POMONA_PMPI(Group_size)(group, &size);
    std::vector<int> ranks(static_cast<size_t>(size)), out(static_cast<size_t>(size));
    std::iota(ranks.begin(), ranks.end(), 0);
    MPI_Group world = MPI_GROUP_NULL;
    POMONA_PMPI(Comm_group)(MPI_COMM_WORLD, &world);
    POMONA_PMPI(Group_translate_ranks)(group, size, ranks.data(), world, out.data());
    POMONA_PMPI(Group_free)(&world);
    for (int& rank : out)
        if (rank == MPI_UNDEFINED) rank = kElsewhere;
    return {out.begin(), out.end()};
}

std::vector<int32_t> own_members(MPI_Comm comm) {
    MPI_Group group = MPI_GROUP_NULL;
    POMONA_PMPI(Comm_group)(comm, &group);
    auto out = world_ranks(group);
    POMONA_PMPI(Group_free)(&group);
    return out;
}

std::vector<int32_t> remote_members(MPI_Comm comm) {
    MPI_Group group = MPI_GROUP_NULL;
    POMONA_PMPI(Comm_remote_group)(comm, &group);
    auto out = world_ranks(group);
    POMONA_PMPI(Group_free)(&group);
    return out;
}

// FNV-1a.
uint64_t mix(uint64_t hash, int64_t value) {
    for (int i = 0; i < 8; ++i) {
        hash ^= static_cast<uint64_t>(value >> 8 * i) & 255;
        hash *= 0x100000001b3;
    }
    return hash;
}

// Both groups of an intercommunicator must get the same.
uint64_t hash_of(std::vector<int32_t> own, std::vector<int32_t> remote) {
    if (remote < own && !remote.empty()) std::swap(own, remote);
    uint64_t out = 0xcbf29ce484222325;
    for (int32_t rank : own) out = mix(out, rank);
    out = mix(out, -7);
    for (int32_t rank : remote) out = mix(out, rank);
    return out;
}

void write_name(uint32_t number, const char* name) {
    Record record{};
    record.comm = number;
    record.kind = Kind::name;
    std::strncpy(reinterpret_cast<char*>(&record), name, 32);
    append(record);
}

const CommInfo& enter(MPI_Comm comm, const std::vector<int32_t>& own,
                      const std::vector<int32_t>& remote) {
    Comms& c = comms();
    auto info = std::make_unique<CommInfo>();
    info->size = static_cast<int>(own.size());
    info->world = remote.empty() ? own : remote;
    info->peers = static_cast<int>(info->world.size());
    Record record{};
    record.kind = Kind::communicator;
    record.peer = static_cast<int32_t>(own.size() + remote.size());
    std::lock_guard guard(c.mutex);
    uint64_t members = hash_of(own, remote);
    info->number = static_cast<uint32_t>(c.all.size() + 1);
    record.comm = info->number;
    record.bytes = mix(members, c.made[members]++);
    append(record);
    c.known[comm] = info.get();
    c.all.push_back(std::move(info));
    c.version.fetch_add(1, std::memory_order_release);  // pairs with comm_info()
    return *c.all.back();
}

// Requests and messages by handle: open addressing, since each non-blocking call comes here twice.
class Table {
public:
    void put(const void* key, const RequestInfo& info) {
        std::lock_guard guard(mutex_);
        if ((used_ + 1) * 2 > slots_.size()) grow();
        place(key, info);
    }
    bool get(const void* key, RequestInfo& out) {
        std::lock_guard guard(mutex_);
        Slot* found = find(key);
        if (found) out = found->info;
        return found != nullptr;
    }
    bool take(const void* key, RequestInfo& out) {
        std::lock_guard guard(mutex_);
        Slot* found = find(key);
        if (!found) return false;
        out = found->info;
        remove(static_cast<size_t>(found - slots_.data()));
        return true;
    }
    void settle(const void* key, const RequestInfo& info) {
        std::lock_guard guard(mutex_);
        Slot* found = find(key);
        if (!found || found->info.order != info.order) return;
        if (info.persistent) found->info.active = false;
        else remove(static_cast<size_t>(found - slots_.data()));
    }
    template <class Change> void change(const void* key, Change change) {
        std::lock_guard guard(mutex_);
        if (Slot* found = find(key)) change(found->info);
    }

private:
    struct Slot {
        const void* key = nullptr;
        RequestInfo info;
    };
    size_t start(const void* key) const {
        auto bits = reinterpret_cast<uintptr_t>(key);
        return static_cast<size_t>((bits >> 4) * 0x9e3779b97f4a7c15 >> 20) & (slots_.size() - 1);
    }
    Slot* find(const void* key) {
        for (size_t i = start(key);; i = (i + 1) & (slots_.size() - 1)) {
            if (slots_[i].key == key) return &slots_[i];
            if (!slots_[i].key) return nullptr;
        }
    }
    void place(const void* key, const RequestInfo& info) {
        size_t i = start(key);
        while (slots_[i].key && slots_[i].key != key) i = (i + 1) & (slots_.size() - 1);
        if (!slots_[i].key) ++used_;
        slots_[i] = {key, info};
    }
    // Those behind it move up, so that no search ends too early (Knuth, TAOCP 3, 6.4, algorithm R).
    void remove(size_t hole) {
        size_t mask = slots_.size() - 1;
        --used_;
        for (size_t i = (hole + 1) & mask; slots_[i].key; i = (i + 1) & mask) {
            size_t home = start(slots_[i].key);
            if (((i - home) & mask) < ((i - hole) & mask)) continue;
            slots_[hole] = slots_[i];
            hole = i;
        }
        slots_[hole].key = nullptr;
    }
    void grow() {
        std::vector<Slot> old(slots_.size() * 2);
        old.swap(slots_);
        used_ = 0;
        for (const Slot& each : old)
            if (each.key) place(each.key, each.info);
    }

    std::mutex mutex_;
    std::vector<Slot> slots_ = std::vector<Slot>(256);
    size_t used_ = 0;
};

Table& requests() {
    static Table* const made = new Table;
    return *made;
}
Table& messages() {
    static Table* const made = new Table;
    return *made;
}

}  // namespace

const CommInfo& comm_info(MPI_Comm comm) {
    Comms& c = comms();
    uint32_t version = c.version.load(std::memory_order_acquire);  // pairs with enter()
    if (last.comm == comm && last.version == version) return *last.info;
    const CommInfo* found = nullptr;
    {
        std::lock_guard guard(c.mutex);
        auto at = c.known.find(comm);
        if (at != c.known.end()) found = at->second;
    }
    static const CommInfo unknown;  // number 0: a wrong handle, or one made before MPI_Init
    if (!found) return unknown;
    last = {comm, version, found};
    return *found;
}

void add_comm(MPI_Comm comm) {
    if (comm == MPI_COMM_NULL) return;
    int inter = 0;
    POMONA_PMPI(Comm_test_inter)(comm, &inter);
    std::vector<int32_t> remote;
    if (inter) remote = remote_members(comm);
    enter(comm, own_members(comm), remote);
}

void add_comm_like(MPI_Comm comm, MPI_Comm like) {
    if (comm == MPI_COMM_NULL) return;
    int inter = 0;
    POMONA_PMPI(Comm_test_inter)(like, &inter);
    std::vector<int32_t> remote;
    if (inter) remote = remote_members(like);
    enter(comm, own_members(like), remote);
}

void forget_comm(MPI_Comm comm) {
    Comms& c = comms();
    std::lock_guard guard(c.mutex);
    c.known.erase(comm);
    c.version.fetch_add(1, std::memory_order_release);  // pairs with comm_info()
}

void rename_comm(MPI_Comm comm, const char* name) {
    if (uint32_t number = comm_info(comm).number; number && name) write_name(number, name);
}

void add_request(MPI_Request request, const RequestInfo& info) {
    if (request != MPI_REQUEST_NULL) requests().put(request, info);
}

// What is sent is written down here; what is received when it is complete.
void start_request(MPI_Request request, Function function, int64_t now) {
    requests().change(request, [&](RequestInfo& info) {
        info.active = true;
        info.order = now;
        if (info.kind != Kind::send && info.kind != Kind::collective) return;
        Record record{now,
                      trace::now(),
                      now,
                      info.bytes,
                      info.comm ? info.comm->number : 0,
                      info.peer,
                      info.tag,
                      static_cast<uint16_t>(function),
                      info.kind,
                      0};
        append(record);
    });
}

void forget_request(MPI_Request request) {
    RequestInfo ignored;
    requests().take(request, ignored);
}

bool find_request(MPI_Request request, RequestInfo& out) {
    return request != MPI_REQUEST_NULL && requests().get(request, out);
}

void end_request(MPI_Request request, const RequestInfo& info) {
    // Another thread may have got the same handle for an operation of its own.
    requests().settle(request, info);
}

void add_message(MPI_Message message, const RequestInfo& info) {
    if (message != MPI_MESSAGE_NULL && message != MPI_MESSAGE_NO_PROC)
        messages().put(message, info);
}

RequestInfo take_message(MPI_Message message) {
    RequestInfo out;
    messages().take(message, out);
    return out;
}

static Table& windows() {
    static Table* const made = new Table;
    return *made;
}

void add_window(MPI_Win window, MPI_Comm comm) {
    RequestInfo info;
    info.comm = &comm_info(comm);
    windows().put(window, info);
}

void forget_window(MPI_Win window) {
    RequestInfo ignored;
    windows().take(window, ignored);
}

void set_target(Record& record, MPI_Win window, int rank) {
    RequestInfo info;
    if (!windows().get(window, info)) return;
    record.comm = info.comm->number;
    record.peer = info.comm->peer(rank);
}

void set_received(Record& record, const CommInfo& comm, const MPI_Status& status) {
    MPI_Count bytes = 0;
    POMONA_PMPI(Get_count_c)(&status, MPI_BYTE, &bytes);
    record.comm = comm.number;
    record.peer = comm.peer(status.MPI_SOURCE);
    record.tag = status.MPI_TAG;
    record.bytes = bytes > 0 ? static_cast<uint64_t>(bytes) : 0;
}

uint64_t bytes_of(MPI_Count count, MPI_Datatype type) {
    MPI_Count size = 0;
    if (count <= 0) return 0;
    if (POMONA_PMPI(Type_size_c)(type, &size) != MPI_SUCCESS || size < 0) return 0;
    return static_cast<uint64_t>(count) * static_cast<uint64_t>(size);
}

}  // namespace pomona::trace
