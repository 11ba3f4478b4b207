// collectives.cc: every collective, blocking, non-blocking ("i" in front) and, where the library
// has MPI 4, persistent ("_init" behind), from one table.
//
// The size in the table is what the OSU benchmarks call the size: the whole vector for allreduce,
// bcast, reduce, reduce_scatter(_block), scan and exscan; the block each rank contributes to, or
// gets from, each other for allgather, gather, scatter and alltoall. Bandwidths count the largest
// buffer of a rank: algorithm bandwidth is its bytes over the time, bus bandwidth multiplies that
// by the share every rank's link must carry at least (2(p-1)/p allreduce, (p-1)/p the scattering
// and gathering ones, 1 the others), as nccl-tests define it, so that it compares with a link.
#include <algorithm>
#include <cstring>
#include <memory>

#include "bench.h"
#include "values.h"

namespace pomona::bench {

namespace {

struct Plan {
    int rank, ranks, count;  // count: elements of a block
    const ElementType* type;
    const Operation* op;
    MPI_Comm comm;
    void *send, *recv;
    std::vector<int> counts, offsets;  // v-forms: equal blocks, one after the other
    std::vector<int> byte_offsets;
    std::vector<MPI_Datatype> types;
};

enum class Bus { Whole, Scatter, Allreduce };

using Call = int (*)(Plan&);
using Start = int (*)(Plan&, MPI_Request*);
using Expect = long (*)(const Plan&, size_t index);

struct Collective {
    const char* name;
    bool send_all, recv_all;               // this buffer holds a block per rank (else one block)
    bool vector_size;                      // the size is that of all blocks together
    enum { Sent, OfRoot, InPlace } input;  // OfRoot, InPlace: it stands in the receive buffer
    enum { All, Root, NotFirst, Nothing } result;
    Bus bus;
    Expect expect;
    Call call;
    Start start, init;
};

constexpr int kRoot = 0;

long all_reduced(const Plan& p, size_t i) {
    return reduced(p.op->kind, p.ranks, 0, p.ranks - 1, i);
}
long slice_reduced(const Plan& p, size_t i) {
    return all_reduced(p, size_t(p.rank) * size_t(p.count) + i);
}
long prefix_reduced(const Plan& p, size_t i) { return reduced(p.op->kind, p.ranks, 0, p.rank, i); }
long before_reduced(const Plan& p, size_t i) {
    return reduced(p.op->kind, p.ranks, 0, p.rank - 1, i);
}
long of_root(const Plan& p, size_t i) { return value(p.op->kind, p.ranks, kRoot, i); }
long gathered(const Plan& p, size_t i) {
    return value(p.op->kind, p.ranks, int(i / size_t(p.count)), i % size_t(p.count));
}
long scattered(const Plan& p, size_t i) {
    return value(p.op->kind, p.ranks, kRoot, size_t(p.rank) * size_t(p.count) + i);
}
long exchanged(const Plan& p, size_t i) {
    size_t count = size_t(p.count);
    return value(p.op->kind, p.ranks, int(i / count), size_t(p.rank) * count + i % count);
}

// One line per collective: the same arguments in three forms. The persistent form exists from
// MPI 4.0 on; with older libraries its entry is null and the case is not offered.
#if MPI_VERSION >= 4
#define PERSISTENT(NAME, ...)                                                                      \
    [](Plan& p, MPI_Request* q) { return MPI_##NAME##_init(__VA_ARGS__, MPI_INFO_NULL, q); }
#else
#define PERSISTENT(NAME, ...) nullptr
#endif
#define THREE_FORMS(NAME, INAME, ...)                                                              \
    [](Plan& p) { return MPI_##NAME(__VA_ARGS__); },                                               \
        [](Plan& p, MPI_Request* q) { return MPI_##INAME(__VA_ARGS__, q); },                       \
        PERSISTENT(NAME, __VA_ARGS__)
#define TYPE p.type->mpi
#define OP p.op->mpi

const std::vector<Collective>& table() {
    using C = Collective;
    static const std::vector<Collective> all = {
        {"allreduce", false, false, true, C::Sent, C::All, Bus::Allreduce, all_reduced,
         THREE_FORMS(Allreduce, Iallreduce, p.send, p.recv, p.count, TYPE, OP, p.comm)},
        {"allreduce_in_place", false, false, true, C::InPlace, C::All, Bus::Allreduce, all_reduced,
         THREE_FORMS(Allreduce, Iallreduce, MPI_IN_PLACE, p.recv, p.count, TYPE, OP, p.comm)},
        {"bcast", false, false, true, C::OfRoot, C::All, Bus::Whole, of_root,
         THREE_FORMS(Bcast, Ibcast, p.recv, p.count, TYPE, kRoot, p.comm)},
        {"allgather", false, true, false, C::Sent, C::All, Bus::Scatter, gathered,
         THREE_FORMS(Allgather, Iallgather, p.send, p.count, TYPE, p.recv, p.count, TYPE, p.comm)},
        {"allgatherv", false, true, false, C::Sent, C::All, Bus::Scatter, gathered,
         THREE_FORMS(Allgatherv, Iallgatherv, p.send, p.count, TYPE, p.recv, p.counts.data(),
                     p.offsets.data(), TYPE, p.comm)},
        {"reduce_scatter", true, false, true, C::Sent, C::All, Bus::Scatter, slice_reduced,
         THREE_FORMS(Reduce_scatter, Ireduce_scatter, p.send, p.recv, p.counts.data(), TYPE, OP,
                     p.comm)},
        {"reduce_scatter_block", true, false, true, C::Sent, C::All, Bus::Scatter, slice_reduced,
         THREE_FORMS(Reduce_scatter_block, Ireduce_scatter_block, p.send, p.recv, p.count, TYPE, OP,
                     p.comm)},
        {"reduce", false, false, true, C::Sent, C::Root, Bus::Whole, all_reduced,
         THREE_FORMS(Reduce, Ireduce, p.send, p.recv, p.count, TYPE, OP, kRoot, p.comm)},
        {"alltoall", true, true, false, C::Sent, C::All, Bus::Scatter, exchanged,
         THREE_FORMS(Alltoall, Ialltoall, p.send, p.count, TYPE, p.recv, p.count, TYPE, p.comm)},
        {"alltoallv", true, true, false, C::Sent, C::All, Bus::Scatter, exchanged,
         THREE_FORMS(Alltoallv, Ialltoallv, p.send, p.counts.data(), p.offsets.data(), TYPE, p.recv,
                     p.counts.data(), p.offsets.data(), TYPE, p.comm)},
        {"alltoallw", true, true, false, C::Sent, C::All, Bus::Scatter, exchanged,
         THREE_FORMS(Alltoallw, Ialltoallw, p.send, p.counts.data(), p.byte_offsets.data(),
                     p.types.data(), p.recv, p.counts.data(), p.byte_offsets.data(), p.types.data(),
                     p.comm)},
        {"gather", false, true, false, C::Sent, C::Root, Bus::Scatter, gathered,
         THREE_FORMS(Gather, Igather, p.send, p.count, TYPE, p.recv, p.count, TYPE, kRoot, p.comm)},
        {"gatherv", false, true, false, C::Sent, C::Root, Bus::Scatter, gathered,
         THREE_FORMS(Gatherv, Igatherv, p.send, p.count, TYPE, p.recv, p.counts.data(),
                     p.offsets.data(), TYPE, kRoot, p.comm)},
        {"scatter", true, false, false, C::Sent, C::All, Bus::Scatter, scattered,
         THREE_FORMS(Scatter, Iscatter, p.send, p.count, TYPE, p.recv, p.count, TYPE, kRoot,
                     p.comm)},
        {"scatterv", true, false, false, C::Sent, C::All, Bus::Scatter, scattered,
         THREE_FORMS(Scatterv, Iscatterv, p.send, p.counts.data(), p.offsets.data(), TYPE, p.recv,
                     p.count, TYPE, kRoot, p.comm)},
        {"scan", false, false, true, C::Sent, C::All, Bus::Whole, prefix_reduced,
         THREE_FORMS(Scan, Iscan, p.send, p.recv, p.count, TYPE, OP, p.comm)},
        {"exscan", false, false, true, C::Sent, C::NotFirst, Bus::Whole, before_reduced,
         THREE_FORMS(Exscan, Iexscan, p.send, p.recv, p.count, TYPE, OP, p.comm)},
        {"barrier", false, false, true, C::Sent, C::Nothing, Bus::Whole, of_root,
         [](Plan& p) { return MPI_Barrier(p.comm); },
         [](Plan& p, MPI_Request* q) { return MPI_Ibarrier(p.comm, q); },
         PERSISTENT(Barrier, p.comm)},
    };
    return all;
}

#undef OP
#undef TYPE

// A collective with its buffers for one size.
class Exercise {
public:
    Exercise(Bench& b, const Collective& c, std::string name, size_t bytes)
        : b_(b), c_(c), name_(std::move(name)), bytes_(bytes) {
        p_.type = find_type(b.options.type);
        p_.op = find_operation(b.options.op);
        p_.rank = b.rank, p_.ranks = b.size, p_.comm = b.comm;
        size_t blocks = size_t(b.size), unit = p_.type->bytes;
        bool divided = c.vector_size && c.send_all;
        size_t count = bytes / unit / (divided ? blocks : 1);
        p_.count = c.result == Collective::Nothing ? 0 : std::max(1, int(count));
        send_count_ = size_t(p_.count) * (c.send_all ? blocks : 1);
        recv_count_ = size_t(p_.count) * (c.recv_all ? blocks : 1);
        send_ = std::make_unique<Buffer>(send_count_ * unit);
        recv_ = std::make_unique<Buffer>(recv_count_ * unit);
        p_.send = send_->data(), p_.recv = recv_->data();
        p_.counts.assign(blocks, p_.count);
        p_.types.assign(blocks, p_.type->mpi);
        for (size_t r = 0; r < blocks; ++r) {
            p_.offsets.push_back(int(r) * p_.count);
            p_.byte_offsets.push_back(int(r) * p_.count * int(unit));
        }
        for (size_t i = 0; i < send_count_; ++i)
            store(*p_.type, p_.send, i, value(p_.op->kind, p_.ranks, p_.rank, i));
    }

    Plan& plan() { return p_; }
    size_t bytes() const { return std::max(send_count_, recv_count_) * p_.type->bytes; }

    bool in_place() const { return c_.input == Collective::InPlace; }

    void prepare() {
        if (in_place()) std::memcpy(p_.recv, p_.send, recv_count_ * p_.type->bytes);
        else recv_->poison();
        if (c_.input != Collective::OfRoot || p_.rank != kRoot) return;
        for (size_t i = 0; i < recv_count_; ++i)
            store(*p_.type, p_.recv, i, value(p_.op->kind, p_.ranks, kRoot, i));
    }

    // The same data, as if just computed.
    void write_again() {
        if (in_place()) return prepare();
        bool of_root = c_.input == Collective::OfRoot;
        auto* data = static_cast<char*>(of_root ? p_.recv : p_.send);
        if (of_root && p_.rank != kRoot) return;
        again_.assign(data, data + (of_root ? recv_count_ : send_count_) * p_.type->bytes);
        std::copy(again_.begin(), again_.end(), data);
    }

    void check(const char* when) {
        if (!b_.options.verify) return;
        std::string wrong = has_result() ? first_difference() : "";
        b_.require(wrong.empty(), name_ + " of " + show_size(bytes_) + " (" + p_.type->name + ", " +
                                      p_.op->name + ") " + when + ": " + wrong);
    }

private:
    bool has_result() const {
        switch (c_.result) {
        case Collective::All: return true;
        case Collective::Root: return p_.rank == kRoot;
        case Collective::NotFirst: return p_.rank > 0;
        case Collective::Nothing: return false;
        }
        return false;
    }

    std::string first_difference() const {
        for (size_t i = 0; i < recv_count_; ++i) {
            long expected = c_.expect(p_, i);
            double found = load(*p_.type, p_.recv, i);
            if (!same(*p_.type, found, expected))
                return "element " + std::to_string(i) + " of " + std::to_string(recv_count_) +
                       " is " + std::to_string(found) + ", expected " + std::to_string(expected);
        }
        return "";
    }

    Bench& b_;
    const Collective& c_;
    std::string name_;
    size_t bytes_;
    Plan p_{};
    size_t send_count_, recv_count_;
    std::unique_ptr<Buffer> send_, recv_;
    std::vector<char> again_;
};

double bus_share(Bus bus, int ranks) {
    double p = ranks;
    if (bus == Bus::Allreduce) return 2 * (p - 1) / p;
    return bus == Bus::Scatter ? (p - 1) / p : 1;
}

enum class Form { Blocking, NonBlocking, Persistent };

void measure(Bench& b, const Collective& c, Form form, const std::string& name, size_t bytes) {
    Exercise exercise(b, c, name, bytes);
    Plan& plan = exercise.plan();
    MPI_Request request = MPI_REQUEST_NULL;
    std::function<void()> call;
    if (form == Form::Blocking) call = [&] { c.call(plan); };
    else if (form == Form::NonBlocking)
        call = [&] { c.start(plan, &request), MPI_Wait(&request, MPI_STATUS_IGNORE); };
    else call = [&] { MPI_Start(&request), MPI_Wait(&request, MPI_STATUS_IGNORE); };
    if (form == Form::Persistent) c.init(plan, &request);
    exercise.prepare();
    call();
    exercise.check("before timing");
    exercise.prepare();
    // In place each call takes what the one before has left, unless it is written anew.
    Summary time = b.calls(
        call, [&] { exercise.write_again(); }, exercise.in_place());
    if (exercise.in_place()) exercise.prepare(), call();
    exercise.check("after timing");
    if (form == Form::Persistent) MPI_Request_free(&request);
    Row row{name, bytes, c.result != Collective::Nothing, time, -1, -1, false, {}};
    if (row.sized) {
        row.algorithm_gbs = double(exercise.bytes()) / time.p50 * 1e-3;
        row.bus_gbs = row.algorithm_gbs * bus_share(c.bus, b.size);
    }
    b.add(std::move(row));
}

void run_collective(Bench& b, const Collective& c, Form form, const std::string& name,
                    SizeRange usual) {
    const ElementType* type = find_type(b.options.type);
    bool sized = c.result != Collective::Nothing;
    b.title(name + ": " + std::to_string(b.size) + " ranks" +
            (sized ? ", " + b.options.type + ", " + b.options.op : ""));
    if (!sized) {
        b.step(name);
        return measure(b, c, form, name, 0);
    }
    for (size_t bytes : b.sizes(usual)) {
        size_t least = type->bytes * (c.vector_size && c.send_all ? size_t(b.size) : 1);
        if (bytes < least) continue;
        b.step(name + " of " + show_size(bytes));
        measure(b, c, form, name, bytes);
    }
}

}  // namespace

std::vector<Case> collective_cases() {
    std::vector<Case> out;
    for (const Collective& c : table()) {
        std::string base = c.name;
        SizeRange usual{4, size_t(c.send_all || c.recv_all ? 4 : 16) << 20};
        if (base == "allgather" || base == "reduce_scatter") usual.last = 16u << 20;
        auto add = [&](const std::string& name, const char* family, Form form) {
            out.push_back({name, family, "", 1, usual, [&c, form, name, usual](Bench& b) {
                               run_collective(b, c, form, name, usual);
                           }});
        };
        add(base, "collectives", Form::Blocking);
        add("i" + base, "nonblocking", Form::NonBlocking);
        if (c.init) add(base + "_init", "persistent", Form::Persistent);
    }
    return out;
}

}  // namespace pomona::bench
