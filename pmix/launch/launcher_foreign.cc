// pmix/launch/launcher_foreign.cc: mpirun's look at programs whose MPI library is not ours
// (foreign.h).
// Idea: such a program fails in nothing, so each way to know of it is used: the file of a process
// that has never connected, the memory of such processes and of what they have started, the search
// for the library (bait.h), and what is printed. Looked at here, not on other hosts: all ranks of a
// job mostly run the same program.
#include "pmix/launch/foreign.h"
#include "pmix/launch/launcher.h"

#include "btl/base/format.h"
#include "btl/base/messages.h"
#include "pmix/launch/spawn.h"

#include <algorithm>

namespace pomona {

namespace {

// After the start, one after the other, and the last again and again: imports take a while, short
// programs end soon, and a script may have much to do before.
constexpr double kLooks[] = {0.1, 0.15, 0.25, 0.5, 1, 3, 10};
constexpr int kPatientLooks = 6;
// Of looks because of a search: a script may start thousands of programs.
constexpr int kSearches = 100;

}  // namespace

void Launcher::say_another_mpi(const Process& process, const std::string& how,
                               const std::string& other) {
    if (std::exchange(told_of_another_mpi_, true)) return;
    say(format(messages::another_mpi, process.name, how, other, size_));
}

std::string Launcher::how_loaded(const Process& process) {
    if (process.other_program.empty()) return "has loaded";
    return format("has started {}, which has loaded", process.other_program);
}

void Launcher::watch_for_another_mpi() {
    if (size_ < 2) return;
    if (bait_.watch(local_.agent.directory())) {
        bait_event_.reset(event_new(
            base_, bait_.descriptor(), EV_READ | EV_PERSIST,
            [](evutil_socket_t, short, void* self) {
                static_cast<Launcher*>(self)->note_searches();
            },
            this));
        event_add(bait_event_.get(), nullptr);
    }
    look_again();
}

void Launcher::look_again() {
    if (told_of_another_mpi_) return;
    look_timer_ = timer([](int, short, void* self) {
        auto* launcher = static_cast<Launcher*>(self);
        launcher->look_into_memory();
        launcher->look_again();
    });
    int last = static_cast<int>(std::size(kLooks)) - 1;
    double wait = kLooks[std::min(looks_++, last)];
    timeval delay{static_cast<time_t>(wait), static_cast<suseconds_t>(wait * 1e6) % 1'000'000};
    event_add(look_timer_.get(), &delay);
}

// It may be about to connect through PMIx, so nothing is said before it has ended or has had some
// time.
void Launcher::look_into_memory() {
    for (Process& process : processes_) {
        bool before = !process.other_mpi.empty();
        bool now = look_into_memory(process);
        if (before && now && looks_ >= kPatientLooks)
            return say_another_mpi(process, how_loaded(process), process.other_mpi);
    }
}

// Whether it is there now. What a process has started may be over at the next look, and counts.
bool Launcher::look_into_memory(Process& process) {
    bool silent = control_->phase(process.rank) == ControlServer::Phase::outside;
    if (!silent) process.other_mpi.clear();
    if (!process.running || !silent || process.pid < 0 || size_ < 2) return false;
    if (!node_of(process).host->here()) return false;
    SeenMpi seen = mpi_in(process.pid);
    other_launcher_ = other_launcher_ || seen.has_launcher;
    if (seen.ours) process.other_mpi.clear();
    if (seen.library.empty()) return false;
    process.other_mpi = seen.library;
    process.other_program = seen.program;
    return true;
}

// Somebody looks for another MPI library, and begins to run only when it has it: mostly there is
// time to see who it is.
void Launcher::note_searches() {
    std::vector<std::string> names = bait_.taken();
    if (names.empty() || told_of_another_mpi_) return;
    searched_ = names.front();
    if (searches_++ < kSearches)
        for (Process& process : processes_) look_into_memory(process);
}

// A process that prints another library's error messages may be gone before it is looked at.
void Launcher::listen(Process& process, std::string_view bytes) {
    if (size_ < 2 || !process.other_words.empty()) return;
    if (control_->phase(process.rank) != ControlServer::Phase::outside) return;
    process.other_words = foreign_mpi_saying(bytes);
}

// Each process of such a program is rank 0 of 1, and may end well: nobody else says a word. It is
// not the job that was asked for, so scripts shall see it too.
void Launcher::look_for_another_mpi(const Process& process) {
    auto outside = [this](const Process& each) {
        return control_->phase(each.rank) == ControlServer::Phase::outside;
    };
    if (!outside(process) || size_ < 2) return;
    note_searches();
    std::string linked;
    if (!process.other_mpi.empty()) {
        say_another_mpi(process, how_loaded(process), process.other_mpi);
    } else if (!process.other_words.empty()) {
        say_another_mpi(process, "ends with the words of", process.other_words);
    } else if (told_of_another_mpi_) {
        return;
    } else if (linked = foreign_mpi_of(find_program(process.name, "", common_)); !linked.empty()) {
        say_another_mpi(process, "is linked to", linked);
    } else if (!searched_.empty() && !other_launcher_ && node_of(process).host->here() &&
               std::all_of(processes_.begin(), processes_.end(), outside)) {
        // Who it was is unknown; nobody in this job has our library.
        say_another_mpi(process, "has started a program that looks for", searched_);
    } else {
        return;
    }
    if (exit_code_ == 0 && !exit_code_known_) exit_code_ = 1;
}

}  // namespace pomona
