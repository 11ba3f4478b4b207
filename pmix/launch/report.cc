// pmix/launch/report.cc: the launcher's table of who waits for whom (table.h), when it is asked for
// or a job takes too long.
#include "pmix/launch/launcher.h"

#include "btl/base/format.h"
#include "pmix/job_directory.h"

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <string>

#include <unistd.h>

namespace pomona {

std::vector<TableProcess> Launcher::table_processes() const {
    using State = TableProcess::State;
    std::vector<TableProcess> out;
    for (const Process& process : processes_) {
        State state = State::running;
        if (!process.running) state = State::ended;
        else if (control_->phase(process.rank) == ControlServer::Phase::outside)
            state = State::before;
        else if (control_->phase(process.rank) == ControlServer::Phase::finalized)
            state = State::finalized;
        else if (control_->waits_in_fence(process.rank)) state = State::starting;
        out.push_back({process.rank, process.pid, host_of(process), state});
    }
    return out;
}

void Launcher::write_table(const std::string& path) const {
    std::string partial = path + ".part";
    std::ofstream file(partial, std::ios::trunc);
    file << control_->table.json(table_processes(), RealClock().now());
    file.close();
    if (!file || std::rename(partial.c_str(), path.c_str()) != 0)
        say(format("the report cannot be written to {}: {}", path, os_text(errno)));
}

// All of it is known already: nobody is asked, and nobody is waited for.
void Launcher::report() const {
    for (const std::string& line : control_->table.lines(table_processes(), RealClock().now()))
        say(line);
    if (!options_.report_json.empty()) write_table(options_.report_json);
}

// `pomona top` (job_directory.h): it alone is told, and the ranks hear nothing of it.
bool Launcher::answer_top() const {
    const std::string& directory = local_.agent.directory();
    if (directory.empty() || unlink(format("{}/{}", directory, kTableWanted).c_str()) != 0)
        return false;
    write_table(format("{}/{}", directory, kTableWritten));
    return true;
}

}  // namespace pomona
