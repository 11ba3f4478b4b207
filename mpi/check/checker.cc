// mpi/check/checker.cc: see checker.h.
#include "mpi/check/checker.h"

#include "btl/base/format.h"
#include "btl/base/messages.h"
#include "mpi/check/checked_request.h"
#include "mpi/runtime/process.h"

#include <map>
#include <thread>

namespace pomona {

Checker::Checker(Process& process) : collectives(process), process_(process) {
    Datatype::watch_all();
}

const char* Checker::keep(std::string sentence) {
    std::lock_guard guard(mutex_);
    return sentences_.insert(std::move(sentence)).first->c_str();
}

void Checker::end_job(const std::string& why) { process_.abort(1, why); }

// ---- messages

std::string Checker::in_use(const Call& call) {
    Engine::Hold hold(process_.engine);
    bool receives = call.kind == Kind::receive;
    return conflict_text({call.data.buffer, call.data.count, call.data.type, receives}, "buf", 0);
}

P2pRequest* Checker::prepare(const Call& call) {
    auto* request = new CheckedRequest(*this, call);
    request->begin();
    return request;
}

P2pRequest* Checker::start(const Call& call) {
    Engine::Hold hold(process_.engine);
    auto* request = new CheckedRequest(*this, call);
    if (call.persistent) return request;
    request->begin();
    process_.engine.start(*request);
    return request;
}

P2pRequest* Checker::start_matched(const Call& call, Message* message) {
    Engine::Hold hold(process_.engine);
    auto* request = new CheckedRequest(*this, call);
    request->begin();
    process_.engine.start_matched(*request, message);
    return request;
}

// ---- memory

std::string Checker::conflict_text(const Memory& memory, const char* name, uint64_t owner) {
    const BufferUses::Use* other = uses_.conflict(memory, owner);
    if (!other) return {};
    auto found = owners_.find(other->owner);
    std::string by = found == owners_.end() ? "another operation" : found->second.text;
    return format("{} is {} while {} {} the same memory and is not complete", name,
                  memory.written ? "written" : "read", by, other->written ? "writes" : "reads");
}

std::string Checker::in_use(const CollectiveCall& call) {
    BufferUses own;
    for (const Memory& each : call.memory) {
        std::string problem = conflict_text(each, "its buffer", 0);
        if (!problem.empty()) return problem;
        if (own.conflict(each, 0)) return messages::buffers_overlap;
        own.add(each, 1);
    }
    return {};
}

// Level MPI_THREAD_SERIALIZED allows all threads, one after the other; who meets whom is not seen.
std::string Checker::wrong_thread() const {
    bool one =
        process_.thread_level == MPI_THREAD_SINGLE || process_.thread_level == MPI_THREAD_FUNNELED;
    if (!one || std::this_thread::get_id() == process_.main_thread) return {};
    return format(messages::thread_not_allowed, process_.thread_level == MPI_THREAD_SINGLE
                                                    ? "MPI_THREAD_SINGLE"
                                                    : "MPI_THREAD_FUNNELED");
}

uint64_t Checker::add(Owner owner, const std::vector<Memory>& memory) {
    uint64_t number = ++owners_made_;
    for (const Memory& each : memory) owner.entries.push_back(uses_.add(each, number));
    owners_[number] = std::move(owner);
    return number;
}

uint64_t Checker::use(const std::string& function, const std::vector<Memory>& memory) {
    return add(Owner{function, {}, true}, memory);
}

uint64_t Checker::use_by_window(const std::string& text, const std::vector<Memory>& memory) {
    return add(Owner{text, {}, false}, memory);
}

void Checker::release(uint64_t owner) {
    auto found = owners_.find(owner);
    if (found == owners_.end()) return;
    for (BufferUses::Entry each : found->second.entries) uses_.remove(each);
    owners_.erase(found);
}

bool Checker::compares(const Communicator& comm) {
    const Process& process = comm.process;
    return process.checker && !process.leaving && !comm.ends_collectives() &&
           (comm.size() > 1 || comm.is_inter());
}

// ---- handles

void Checker::handed_out(const Object* object, std::string function) {
    if (!object || object->builtin_handle) return;
    std::lock_guard guard(mutex_);
    Handle& handle = handles_[object];
    handle.kind = object->kind;
    handle.functions.push_back(std::move(function));
}

void Checker::given_back(const Object* object) {
    std::lock_guard guard(mutex_);
    auto found = handles_.find(object);
    if (found == handles_.end()) return;
    found->second.functions.pop_back();
    if (found->second.functions.empty()) handles_.erase(found);
}

bool Checker::holds(const Object* object) {
    std::lock_guard guard(mutex_);
    return handles_.contains(object) || requests_.contains(object);
}

void Checker::add_request(const CheckedRequest* request) {
    std::lock_guard guard(mutex_);
    requests_[request] = request;
}

void Checker::remove_request(const CheckedRequest* request) {
    std::lock_guard guard(mutex_);
    requests_.erase(request);
}

namespace {
struct Noun {
    pomona::Kind kind;
    const char *one, *many;
};
constexpr Noun kNouns[] = {{Kind::communicator, "communicator", "communicators"},
                           {Kind::datatype, "datatype", "datatypes"},
                           {Kind::group, "group", "groups"},
                           {Kind::operation, "operation", "operations"},
                           {Kind::info, "info object", "info objects"},
                           {Kind::errhandler, "error handler", "error handlers"},
                           {Kind::window, "window", "windows"},
                           {Kind::file, "file", "files"},
                           {Kind::session, "session", "sessions"}};

// "3 requests: MPI_Irecv (from rank 1, tag 5, 8 bytes) 2 times, MPI_Isend (...)"
std::string line_of(const Noun& noun, const std::map<std::string, int>& from) {
    constexpr int most = 8;
    int total = 0, named = 0;
    std::string list;
    for (const auto& [text, times] : from) {
        total += times;
        if (++named > most) continue;
        list += (named > 1 ? ", " : "") + (text.empty() ? "an unknown function" : text);
        if (times > 1) list += format(" {} times", times);
    }
    if (named > most) list += format(" and {} more", named - most);
    return format("{} {} not freed, from {}", total, total == 1 ? noun.one : noun.many, list);
}
}  // namespace

std::string Checker::keyvals_line(const std::map<std::string, int>& from) {
    return from.empty() ? "" : line_of({{}, "keyval", "keyvals"}, from);
}

std::vector<std::string> Checker::left() {
    std::vector<std::string> lines;
    std::map<std::string, int> requests;
    {
        Engine::Hold hold(process_.engine);
        for (const auto& [object, each] : requests_)
            if (each->held_by_user() && !each->parent) ++requests[each->text()];
        for (const auto& [number, owner] : owners_)
            if (owner.collective) ++requests[owner.text];
    }
    if (!requests.empty()) lines.push_back(line_of({{}, "request", "requests"}, requests));
    std::lock_guard guard(mutex_);
    for (const Noun& noun : kNouns) {
        std::map<std::string, int> from;
        for (const auto& [object, handle] : handles_)
            for (const std::string& function : handle.functions)
                if (handle.kind == noun.kind) ++from[function];
        if (!from.empty()) lines.push_back(line_of(noun, from));
    }
    return lines;
}

}  // namespace pomona
