// pmix/launch/launcher_spawn.cc: worlds that ranks ask for while the job runs (MPI_Comm_spawn).
// Idea: a spawned world's ranks follow those of the job, and are processes of the job like any
// other: same directory, same socket, and a failure in one ends all. Either all of a world start or
// none. They fill the slots that are free, host by host, or run where the info key "host" says;
// ranks that were there before learn of it when groups are exchanged (Job::later).
#include "pmix/launch/launcher.h"

#include "btl/base/format.h"
#include "btl/base/messages.h"
#include "pmix/wireup/origin.h"

#include <algorithm>
#include <csignal>
#include <memory>
#include <set>
#include <sstream>

namespace pomona {

namespace {
// Whether the host has all programs: another host answers later.
struct Asked {
    size_t left = 0;
    std::string missing;
    bool postponed = false;
    Code code = Code::refused;  // of the answer, once that is known
    int first = -1;
};
}  // namespace

// What is returned is the answer, unless that was postponed.
Result<int> Launcher::spawn_world(int parent, std::vector<Program> programs) {
    if (state_ != State::running) return Error{Code::refused, "The job is ending"};
    int count = 0;
    for (const Program& program : programs) count += program.count;
    if (options_.refuse_oversubscribe && running_ + count > slots_) {
        remark(format(messages::spawn_no_slots, parent, count, running_, slots_));
        return Error{Code::refused, "No slots are left"};
    }
    auto nodes = place_world(parent, programs);
    if (!nodes) return nodes.error();
    std::set<std::pair<size_t, int>> places;  // of each program
    auto node = nodes->begin();
    for (size_t p = 0; p < programs.size(); ++p)
        for (int i = 0; i < programs[p].count; ++i) places.emplace(p, *node++);
    auto asked = std::make_shared<Asked>();
    asked->left = places.size();
    auto answered = [this, asked, parent, programs, nodes = *nodes](const std::string& name,
                                                                    bool found) {
        if (!found) asked->missing = name;
        if (--asked->left > 0) return;
        auto first = start_world(parent, programs, nodes, asked->missing);
        if (asked->postponed) return control_->answer_spawn(parent, std::move(first));
        asked->code = first.ok() ? Code::ok : first.error().code;
        asked->first = first.ok() ? *first : -1;
    };
    for (const auto& [p, where] : places) {
        Host* host = nodes_[static_cast<size_t>(where)].host;
        std::string name = programs[p].command[0];
        if (const std::string& folder = programs[p].directory; !folder.empty())
            name += format(" in folder {}", folder);
        if (several_hosts()) name += format(" (on {})", host->name());
        host->ask_program(programs[p].command[0], programs[p].directory,
                          [answered, name](bool found) { answered(name, found); });
    }
    if (asked->left > 0) {
        asked->postponed = true;
        control_->postpone(parent);
    }
    if (asked->code != Code::ok) return Error{asked->code, "The world cannot be spawned"};
    return asked->first;
}

// The hosts that an info key names, or all; says which name is none, or lost.
Result<std::vector<bool>> Launcher::hosts_named(int parent, const std::string& names) {
    std::vector<bool> out(nodes_.size(), names.empty());
    std::istringstream list(names);
    for (std::string name; std::getline(list, name, ',');) {
        name = without_brackets(name);
        bool found = false;
        for (size_t i = 0; i < nodes_.size(); ++i) {
            const Host& host = *nodes_[i].host;
            const auto& also = nodes_[i].place.also;  // host.name() among them
            bool same = (host.here() && means_this_host(name, host_)) ||
                        std::any_of(also.begin(), also.end(), [&](const std::string& said) {
                            return name == said || name == without_user(said);
                        });
            if (!same) continue;
            out[i] = found = true;
            if (!host.lost()) continue;
            remark(format(messages::spawn_host_lost, parent, name));
            return Error{Code::not_found, "The host is lost"};
        }
        if (found) continue;
        std::string all;
        for (const Node& node : nodes_)
            all += format("{}{}", all.empty() ? "" : ", ", node.host->name());
        remark(format(messages::spawn_host_unknown, parent, name, all));
        return Error{Code::not_found, "There is no such host in the job"};
    }
    for (size_t i = 0; i < nodes_.size(); ++i)
        if (nodes_[i].host->lost()) out[i] = false;
    return out;
}

// The node of each process of a new world, in their order.
Result<std::vector<int>> Launcher::place_world(int parent, const std::vector<Program>& programs) {
    std::vector<PlaceHost> places;
    for (const Node& node : nodes_) places.push_back(node.place);
    std::vector<int> used(nodes_.size(), 0), out;
    for (const Process& process : processes_)
        if (process.running) ++used[static_cast<size_t>(process.node)];
    for (const Program& program : programs) {
        auto allowed = hosts_named(parent, program.host);
        if (!allowed) return allowed.error();
        Placement placement = place_more(program.count, places, used, *allowed);
        if (!placement.mistake.empty()) {
            remark(format("rank {}: {}", parent, placement.mistake));
            return Error{Code::refused, "No slots are left"};
        }
        for (int node : placement.host_of) ++used[static_cast<size_t>(node)];
        out.insert(out.end(), placement.host_of.begin(), placement.host_of.end());
    }
    return out;
}

Result<int> Launcher::start_world(int parent, std::vector<Program> programs,
                                  const std::vector<int>& nodes, const std::string& missing) {
    if (state_ != State::running) return Error{Code::refused, "The job is ending"};
    for (int node : nodes) {
        const Host& host = *nodes_[static_cast<size_t>(node)].host;
        if (!host.lost()) continue;
        remark(format(messages::spawn_host_lost, parent, host.name()));
        return Error{Code::refused, "A host has been lost meanwhile"};
    }
    if (!missing.empty()) {
        remark(format(messages::spawn_no_program, parent, missing));
        return Error{Code::not_found, "There is no such program"};
    }
    int count = 0;
    for (const Program& program : programs) count += program.count;
    int first = control_->add_world(count);
    std::vector<Process*> made;
    std::vector<int> local_ranks(nodes_.size(), 0);
    // As the parent was told by -x, so that parameters are the same on both sides.
    size_t asking = static_cast<size_t>(processes_[static_cast<size_t>(parent)].program);
    Variables exports = options_.programs[asking].exports;
    for (Program& program : programs) {
        program.exports = exports;
        // The parent's own is none of theirs.
        program.exports.emplace_back(kErrhandlerVariable, program.errhandler.empty()
                                                              ? "mpi_errors_are_fatal"
                                                              : program.errhandler);
        for (int i = 0; i < program.count; ++i) {
            Process& process = processes_.emplace_back();
            process.rank = size_++;
            process.program = static_cast<int>(options_.programs.size());
            process.program_rank = i;
            process.node = nodes[static_cast<size_t>(process.rank - first)];
            process.local_rank = local_ranks[static_cast<size_t>(process.node)]++;
            process.first = first;
            process.world_size = count;
            process.parent = parent;
            process.name = program.command[0];
            made.push_back(&process);
        }
        options_.programs.push_back(std::move(program));
    }
    say_where_to_meet(*made[0], meetings_[first]);
    for (Process* process : made) {
        start_one(*process);
        if (state_ != State::running) return Error{Code::io, "A process cannot be started"};
    }
    return first;
}

// What differs from the ranks that were there from the start. RANK and the like count within the
// world; the PMIx server knows nothing of it.
void Launcher::spawned_environment(const Process& process, std::vector<std::string>& out) const {
    int rank = process.rank - process.first, size = process.first + process.world_size;
    int program = 0;  // among those of its world
    for (const Process& each : processes_)
        if (each.first == process.first && each.world_size) {
            program = process.program - each.program;
            break;
        }
    std::erase_if(out, [](const std::string& entry) {
        return entry.starts_with("PMIX_") || entry.starts_with("POMONA_JOB_APP=") ||
               entry.starts_with("RANK=");
    });
    std::vector<int> nodes;
    for (const Process& each : processes_)
        if (each.rank < size) nodes.push_back(each.node);
    out.push_back(format("POMONA_JOB_FIRST={}", process.first));
    out.push_back(format("POMONA_JOB_PARENT={}", process.parent));
    out.push_back(format("POMONA_JOB_APP={}", program));
    out.push_back(format("POMONA_JOB_SIZE={}", size));
    out.push_back(format("POMONA_JOB_UNIVERSE={}", std::max(slots_, size)));
    out.push_back("POMONA_JOB_NODES=" + node_runs(nodes));
    int beside = 0, local = 0;
    for (const Process& each : processes_) {
        if (each.node != process.node) continue;
        beside += each.running || each.first == process.first;
        local += each.world_size && each.first == process.first;
    }
    const PlaceHost& place = nodes_[static_cast<size_t>(process.node)].place;
    out.push_back(format("POMONA_OVERSUBSCRIBED={}", beside > place.processors ? 1 : 0));
    if (auto found = meetings_.find(process.first); found != meetings_.end())
        out.insert(out.end(), found->second.begin(), found->second.end());
    out.push_back(format("RANK={}", rank));
    out.push_back(format("WORLD_SIZE={}", process.world_size));
    out.push_back(format("LOCAL_WORLD_SIZE={}", local));
}

// The parent waits in MPI_Comm_spawn until the children are in MPI_Init.
bool Launcher::left_parent_waiting(const Process& process) const {
    return process.world_size && control_->phase(process.rank) == ControlServer::Phase::outside;
}

}  // namespace pomona
