// mpi/rma/window_check.cc: see window_check.h.
#include "mpi/rma/window_check.h"

#include "btl/base/format.h"
#include "mpi/check/signature.h"
#include "mpi/object/operation.h"
#include "mpi/runtime/collectives.h"
#include "mpi/runtime/process.h"

#include <algorithm>
#include <cstring>
#include <tuple>

namespace pomona {

// Runs of bytes that a member tells at a fence; what is beyond is not compared.
static constexpr size_t kToldMost = 4096;

struct WindowCheck::Told {
    int32_t origin, target;
    RmaKind kind;
    ReduceOp op;
    char function[22];
    uint64_t begin, end;

    auto key() const { return std::tuple(target, begin, end, origin, kind, op); }
};

WindowCheck::WindowCheck(Window& window)
    : window_(window), checker_(*window.comm().process.checker),
      targets_(static_cast<size_t>(window.comm().size())) {}

WindowCheck::~WindowCheck() {
    for (size_t rank = 0; rank < targets_.size(); ++rank) complete(static_cast<int>(rank), false);
}

RmaError WindowCheck::problem(int error, std::string sentence) {
    return {error, checker_.keep(std::move(sentence))};
}

// ---- the rules

static bool accumulates(RmaKind kind) {
    return kind == RmaKind::accumulate || kind == RmaKind::get_accumulate ||
           kind == RmaKind::compare_swap;
}
static bool computes(RmaKind kind, ReduceOp op) {
    return kind != RmaKind::compare_swap && op != ReduceOp::replace && op != ReduceOp::no_op;
}
static const char* verb(RmaKind kind) {
    return kind == RmaKind::get ? "reads" : accumulates(kind) ? "updates" : "writes";
}
static const char* name_of(ReduceOp op) {
    const char* found = "";
    Operation::each_predefined([&](MPI_Op, Operation& each) {
        if (each.op() && *each.op() == op) found = each.name();
    });
    return found;
}

// A put is complete over there by a flush only; what is got has been read when it is here.
bool WindowCheck::open(const Access& access) const {
    return access.kind != RmaKind::get || checker_.uses(access.memory);
}

// Of one origin: its accumulations are carried out in order, whatever they compute.
std::string WindowCheck::conflict(const RmaAccess& access, const Memory& there) {
    const Target& list = target(access.target);
    auto meets = [&](const BufferUses::Use& use) {
        const Access& other = list.accesses.at(use.owner);
        return open(other) && !(accumulates(access.kind) && accumulates(other.kind));
    };
    const BufferUses::Use* use = list.uses.conflict(there, 0, meets);
    if (!use) return {};
    const Access& other = list.accesses.at(use->owner);
    return format(
        "It {} memory of rank {} (displacement {}, {}) that {} {} in the same epoch; "
        "MPI_Win_flush between them, or two epochs, give them an order",
        verb(access.kind), access.target, access.displacement,
        elements_text(*access.type, access.count), other.function, verb(other.kind));
}

// ---- one operation

RmaError WindowCheck::begin(const std::string& function, const RmaAccess& access,
                            uint64_t& number) {
    Engine::Hold hold(window_.engine());
    if (std::string thread = checker_.wrong_thread(); !thread.empty())
        return problem(MPI_ERR_OTHER, std::move(thread));
    struct Buffer {
        const char* name;
        Memory memory;
    };
    bool gets = access.kind == RmaKind::get;
    std::vector<Buffer> buffers;
    if (access.origin.type)
        buffers.push_back({"origin_addr",
                           {access.origin.buffer, access.origin.count, access.origin.type, false}});
    if (access.compare)
        buffers.push_back({"compare_addr", {access.compare, 1, access.type, false}});
    if (access.result.type)
        buffers.push_back({gets ? "origin_addr" : "result_addr",
                           {access.result.buffer, access.result.count, access.result.type, true}});
    BufferUses own;
    std::vector<Memory> memory;
    for (const auto& [name, each] : buffers) {
        if (own.conflict(each, 0))
            return problem(MPI_ERR_BUFFER,
                           format("origin_addr and {} share memory; they must be apart", name));
        own.add(each, 1);
        std::string sentence = checker_.in_use(each, name);
        if (!sentence.empty()) return problem(MPI_ERR_BUFFER, std::move(sentence));
        memory.push_back(each);
    }

    auto base = static_cast<uint64_t>(access.displacement);
    if (window_.flavor() != MPI_WIN_FLAVOR_DYNAMIC)
        base *= static_cast<uint64_t>(window_.part(access.target).unit);
    Memory there{reinterpret_cast<void*>(base), access.count, access.type, !gets};
    std::string sentence = conflict(access, there);
    if (!sentence.empty()) return problem(MPI_ERR_RMA_CONFLICT, std::move(sentence));

    MPI_Count bytes = access.count * access.type->size();
    uint64_t use =
        checker_.use_by_window(format("{} ({} rank {}, {} byte{})", function, gets ? "from" : "to",
                                      access.target, bytes, bytes == 1 ? "" : "s"),
                               memory);
    if (access.request) access.request->use_memory(use);
    Target& list = target(access.target);
    number = ++made_;
    list.accesses[number] = {function, access.kind, access.op, use, list.uses.add(there, number)};
    return {};
}

void WindowCheck::take_back(int rank, uint64_t number) {
    Engine::Hold hold(window_.engine());
    Target& list = target(rank);
    auto taken = list.accesses.find(number);
    if (taken == list.accesses.end()) return;  // another thread has ended the epoch
    checker_.release(taken->second.memory);
    list.uses.remove(taken->second.there);
    list.accesses.erase(taken);
}

void WindowCheck::complete(int rank, bool local) {
    Engine::Hold hold(window_.engine());
    Target& list = target(rank);
    for (auto each = list.accesses.begin(); each != list.accesses.end();) {
        checker_.release(each->second.memory);
        if (local && each->second.kind != RmaKind::get) {
            ++each;
            continue;
        }
        list.uses.remove(each->second.there);
        each = list.accesses.erase(each);
    }
}

bool WindowCheck::pending() const {
    Engine::Hold hold(window_.engine());
    return std::any_of(targets_.begin(), targets_.end(),
                       [](const Target& each) { return !each.accesses.empty(); });
}

// ---- all members

std::vector<WindowCheck::Told> WindowCheck::tell() const {
    Engine::Hold hold(window_.engine());
    std::vector<Told> told;
    int me = window_.comm().rank();
    for (size_t rank = 0; rank < targets_.size(); ++rank)
        for (const auto& [number, access] : targets_[rank].accesses) {
            const BufferUses::Use& use = access.there->second;
            if (use.begin == use.end || told.size() + use.runs.size() >= kToldMost) continue;
            Told one = {me, static_cast<int32_t>(rank), access.kind, access.op, {}, 0, 0};
            std::strncpy(one.function, access.function.c_str(), sizeof one.function - 1);
            auto add = [&](uintptr_t begin, uintptr_t end) {
                one.begin = begin;
                one.end = end;
                told.push_back(one);
            };
            if (use.runs.empty()) add(use.begin, use.end);
            for (const auto& [begin, end] : use.runs) add(begin, end);
        }
    auto before = [](const Told& a, const Told& b) { return a.key() < b.key(); };
    auto same = [](const Told& a, const Told& b) { return a.key() == b.key(); };
    std::sort(told.begin(), told.end(), before);
    told.erase(std::unique(told.begin(), told.end(), same), told.end());
    return told;
}

// Of two origins: only one operation computes there, or both only read.
template <class Told> static bool disturb(const Told& a, const Told& b) {
    if (a.origin == b.origin || a.target != b.target) return false;
    if (a.kind == RmaKind::get && b.kind == RmaKind::get) return false;
    if (!accumulates(a.kind) || !accumulates(b.kind)) return true;
    return computes(a.kind, a.op) && computes(b.kind, b.op) && a.op != b.op;
}

RmaError WindowCheck::compare() {
    Communicator& comm = window_.comm();
    std::vector<Told> mine = tell();
    auto members = static_cast<size_t>(comm.size());
    uint64_t count = mine.size();
    std::vector<uint64_t> counts(members);
    if (int error = run_allgather(comm, &count, counts.data(), sizeof count))
        return {error, "a member of the window has ended"};
    size_t most = *std::max_element(counts.begin(), counts.end());
    if (most == 0) return {};
    mine.resize(most);
    std::vector<Told> told(members * most), all;
    if (int error = run_allgather(comm, mine.data(), told.data(), most * sizeof(Told)))
        return {error, "a member of the window has ended"};
    for (size_t rank = 0; rank < members; ++rank) {
        auto first = told.begin() + static_cast<ptrdiff_t>(rank * most);
        all.insert(all.end(), first, first + static_cast<ptrdiff_t>(counts[rank]));
    }
    std::sort(all.begin(), all.end(),
              [](const Told& a, const Told& b) { return a.key() < b.key(); });
    for (size_t i = 0; i < all.size(); ++i)
        for (size_t j = i + 1;
             j < all.size() && all[j].target == all[i].target && all[j].begin < all[i].end; ++j) {
            if (!disturb(all[i], all[j])) continue;
            const Told& a = all[i].origin < all[j].origin ? all[i] : all[j];
            const Told& b = &a == &all[i] ? all[j] : all[i];
            auto text = [](const Told& each) {
                std::string by = accumulates(each.kind) && computes(each.kind, each.op)
                                     ? format(" by {}", name_of(each.op))
                                     : "";
                return format("rank {}: {} {}{}", each.origin, each.function, verb(each.kind), by);
            };
            return problem(MPI_ERR_RMA_CONFLICT,
                           format("Members access bytes {} to {} of rank {} in one epoch without "
                                  "an order: {}; {}",
                                  all[j].begin, std::min(all[i].end, all[j].end), a.target, text(a),
                                  text(b)));
        }
    return {};
}

}  // namespace pomona
