// pmix/launch/report.cc: the launcher's table of who waits for whom (table.h), when it is asked for or a job
// takes too long.
#include "pmix/launch/launcher.h"

#include "btl/base/format.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <string>

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

// All of it is known already: nobody is asked, and nobody is waited for.
void Launcher::report() const {
    std::vector<TableProcess> processes = table_processes();
    Nanoseconds now = RealClock().now();
    for (const std::string& line : control_->table.lines(processes, now)) say(line);
    if (options_.report_json.empty()) return;
    std::string partial = options_.report_json + ".part";
    std::ofstream file(partial, std::ios::trunc);
    file << control_->table.json(processes, now);
    file.close();
    if (!file || std::rename(partial.c_str(), options_.report_json.c_str()) != 0)
        say(format("the report cannot be written to {}: {}", options_.report_json, os_text(errno)));
}

}  // namespace pomona
