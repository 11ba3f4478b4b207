// pmix/launch/launcher_spawn.cc: worlds that ranks ask for while the job runs (MPI_Comm_spawn).
// Idea: a spawned world's ranks follow those of the job, and are processes of the job like any other:
// same directory, same socket, and a failure in one ends all. Either all of a world start or none.
// They run on the job's first host: ranks that were there before reckon with that (Job::node).
#include "pmix/launch/launcher.h"

#include "btl/base/format.h"
#include "pmix/wireup/origin.h"

#include <algorithm>
#include <csignal>
#include <memory>

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
        remark(
            format("rank {} asked for {} processes more; {} run on {} slots, and "
                   "--no-oversubscribe was given",
                   parent, count, running_, slots_));
        return Error{Code::refused, "No slots are left"};
    }
    auto asked = std::make_shared<Asked>();
    asked->left = programs.size();
    auto answered = [this, asked, parent, programs](const std::string& name, bool found) {
        if (!found) asked->missing = name;
        if (--asked->left > 0) return;
        auto first = start_world(parent, programs, asked->missing);
        if (asked->postponed) return control_->answer_spawn(parent, std::move(first));
        asked->code = first.ok() ? Code::ok : first.error().code;
        asked->first = first.ok() ? *first : -1;
    };
    for (const Program& program : programs)
        nodes_[0].host->ask_program(
            program.command[0], program.directory,
            [answered, name = program.command[0]](bool found) { answered(name, found); });
    if (asked->left > 0) {
        asked->postponed = true;
        control_->postpone(parent);
    }
    if (asked->code != Code::ok) return Error{asked->code, "The world cannot be spawned"};
    return asked->first;
}

Result<int> Launcher::start_world(int parent, std::vector<Program> programs,
                                  const std::string& missing) {
    if (state_ != State::running) return Error{Code::refused, "The job is ending"};
    if (!missing.empty()) {
        remark(format("rank {} asked for the program {}, which is not there or cannot be executed",
                      parent, missing));
        return Error{Code::not_found, "There is no such program"};
    }
    int count = 0;
    for (const Program& program : programs) count += program.count;
    int first = control_->add_world(count);
    std::vector<Process*> made;
    // As the parent was told by -x, so that parameters are the same on both sides.
    size_t asking = static_cast<size_t>(processes_[static_cast<size_t>(parent)].program);
    Variables exports = options_.programs[asking].exports;
    for (Program& program : programs) {
        program.exports = exports;
        for (int i = 0; i < program.count; ++i) {
            Process& process = processes_.emplace_back();
            process.rank = size_++;
            process.program = static_cast<int>(options_.programs.size());
            process.program_rank = i;
            process.local_rank = process.rank - first;
            process.first = first;
            process.world_size = count;
            process.parent = parent;
            process.name = program.command[0];
            made.push_back(&process);
        }
        options_.programs.push_back(std::move(program));
    }
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
    out.push_back(format("POMONA_OVERSUBSCRIBED={}",
                         running_ + process.world_size > nodes_[0].place.processors ? 1 : 0));
    out.push_back(format("RANK={}", rank));
    out.push_back(format("WORLD_SIZE={}", process.world_size));
    out.push_back(format("LOCAL_WORLD_SIZE={}", process.world_size));
}

// The parent waits in MPI_Comm_spawn until the children are in MPI_Init.
bool Launcher::left_parent_waiting(const Process& process) const {
    return process.world_size && control_->phase(process.rank) == ControlServer::Phase::outside;
}

}  // namespace pomona
