// pmix/launch/services.cc: see services.h. A part of the launcher; refusal_of and write_spawn serve
// ranks.
#include "pmix/services.h"

namespace pomona {

namespace {
constexpr size_t kNameMax = 4096;       // of ports, names and directories
constexpr size_t kWordMax = 128 << 10;  // of an argument; the system's own limit on Linux
constexpr uint32_t kWordsMax = 100000;
constexpr uint32_t kProgramsMax = 10000;
constexpr uint32_t kProcessesMax = 100000;
// Meetings at ports are numbered from here, those of spawned worlds by their first rank.
constexpr uint64_t kMeetingsFirst = uint64_t{1} << 32;
}  // namespace

Writer Services::answer(int rank, Reader& request) {
    auto service = request.get<Service>();
    Writer words;
    Code code = request.failed() ? Code::malformed : serve(rank, service, request, words);
    Writer out;
    out.put(static_cast<uint8_t>(code));
    if (code == Code::ok) out.put_bytes(words.bytes());
    return out;
}

Writer Services::spawn_answer(Result<int> first) {
    Writer out;
    out.put(static_cast<uint8_t>(first.ok() ? Code::ok : first.error().code));
    if (first.ok()) out.put(static_cast<int32_t>(*first));
    return out;
}

Code Services::serve(int rank, Service service, Reader& request, Writer& out) {
    if (service == Service::spawn) return spawn(rank, request, out);
    if (service == Service::meet) return meet(rank, request, out);
    if (service == Service::met) return met(request, out, false);
    if (service == Service::leave) return met(request, out, true);
    if (service == Service::job_key) {
        out.put_bytes(key);
        return Code::ok;
    }
    std::string name = request.get_text(kNameMax);
    std::string port = service == Service::publish ? request.get_text(kNameMax) : "";
    if (request.failed() || name.empty()) return Code::malformed;
    switch (service) {
    case Service::open_port: return ports_.emplace(name, rank).second ? Code::ok : Code::refused;
    case Service::close_port: return close_port(name);
    case Service::publish: return names_.emplace(name, port).second ? Code::ok : Code::refused;
    case Service::unpublish: return names_.erase(name) ? Code::ok : Code::not_found;
    case Service::find_name: {
        auto found = names_.find(name);
        if (found == names_.end()) return Code::not_found;
        out.put_text(found->second);
        return Code::ok;
    }
    default: return Code::malformed;
    }
}

Code Services::spawn(int rank, Reader& request, Writer& out) {
    std::vector<Program> programs;
    auto number = request.get<uint32_t>();
    if (request.failed() || number == 0 || number > kProgramsMax) return Code::malformed;
    uint64_t processes = 0;
    for (uint32_t i = 0; i < number; ++i) {
        Program program;
        auto count = request.get<uint32_t>();
        processes += count;
        program.directory = request.get_text(kNameMax);
        program.host = request.get_text(kNameMax);
        program.errhandler = request.get_text(kNameMax);
        if (!program.errhandler.empty() && !is_errhandler_name(program.errhandler))
            return Code::malformed;
        auto words = request.get<uint32_t>();
        if (request.failed() || words == 0 || words > kWordsMax || count == 0 ||
            processes > kProcessesMax)
            return Code::malformed;
        program.count = static_cast<int>(count);
        for (uint32_t k = 0; k < words && !request.failed(); ++k)
            program.command.push_back(request.get_text(kWordMax));
        programs.push_back(std::move(program));
    }
    if (request.failed() || !on_spawn) return Code::malformed;
    auto first = on_spawn(rank, std::move(programs));
    if (!first.ok()) return first.error().code;
    out.put(static_cast<int32_t>(*first));
    return Code::ok;
}

Code Services::meet(int rank, Reader& request, Writer& out) {
    std::string port = request.get_text(kNameMax);
    int side = request.get<uint8_t>();
    if (request.failed() || side > 1) return Code::malformed;
    if (!ports_.count(port)) return Code::not_found;
    uint64_t ticket = ++tickets_;
    out.put(ticket);
    auto& partners = waiting_[{port, 1 - side}];
    if (partners.empty()) {
        waiting_[{port, side}].push_back({rank, ticket});
        return Code::ok;
    }
    Waiting partner = partners.front();
    partners.pop_front();
    uint64_t number = kMeetingsFirst + ++meetings_made_;
    meetings_[ticket] = {partner.rank, number};
    meetings_[partner.ticket] = {rank, number};
    return Code::ok;
}

void Services::forget(int rank) {
    for (auto& [place, waiting] : waiting_)
        std::erase_if(waiting, [&](const Waiting& each) { return each.rank == rank; });
}

void Services::close_ports_of(int rank) {
    std::vector<std::string> closed;
    for (const auto& [port, opener] : ports_)
        if (opener == rank && waiting_[{port, 0}].empty()) closed.push_back(port);
    for (const std::string& port : closed) {
        close_port(port);
        std::erase_if(names_, [&](const auto& each) { return each.second == port; });
    }
}

// Who waits there is told when it asks again.
Code Services::close_port(const std::string& port) {
    if (!ports_.erase(port)) return Code::not_found;
    for (int side : {0, 1}) {
        for (const Waiting& each : waiting_[{port, side}]) turned_away_.insert(each.ticket);
        waiting_.erase({port, side});
    }
    return Code::ok;
}

Code Services::met(Reader& request, Writer& out, bool leaves) {
    auto ticket = request.get<uint64_t>();
    if (request.failed()) return Code::malformed;
    if (turned_away_.erase(ticket)) return Code::not_found;
    auto found = meetings_.find(ticket);
    Meeting meeting = found == meetings_.end() ? Meeting{} : found->second;
    if (found != meetings_.end()) meetings_.erase(found);
    else if (leaves)
        for (auto& [place, waiting] : waiting_)
            std::erase_if(waiting, [&](const Waiting& each) { return each.ticket == ticket; });
    out.put(static_cast<int32_t>(meeting.partner));
    out.put(meeting.number);
    return Code::ok;
}

}  // namespace pomona
