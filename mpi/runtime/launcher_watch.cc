// mpi/runtime/launcher_watch.cc: from the wire-up's call to Sink::gone.
#include "mpi/runtime/launcher_watch.h"

#include <algorithm>
#include <utility>

namespace pomona {

LauncherWatch::LauncherWatch(Wireup& wireup, Engine& engine, Clock& clock)
    : wireup_(wireup), engine_(engine), clock_(clock) {
    wireup.on_peer_death([this](int rank) {
        std::lock_guard guard(mutex_);
        // Without its launcher a job is ended by the launcher's watchdog, or by its PMIx server.
        if (rank >= 0) heard_.push_back(rank);
    });
}

LauncherWatch::~LauncherWatch() { wireup_.on_peer_death({}); }

int LauncherWatch::look(Sink& sink) {
    Nanoseconds now = clock_.now();
    if (now - looked_ < kLookEach) return 0;
    looked_ = now;
    if (wireup_.watch_fd() >= 0) wireup_.drain();
    if (uint32_t question = wireup_.asked_for_queues())
        wireup_.tell_queues(question, engine_.queues_json());
    {
        std::lock_guard guard(mutex_);
        for (int rank : std::exchange(heard_, {})) words_.push_back({rank, now, false});
    }
    // Once more after the time: a rank that did not poll meanwhile takes in first what has come.
    // Processes of other worlds may not be known here yet.
    std::vector<int> over;
    for (Word& word : words_)
        if (word.rank < engine_.known_peers() && now - word.heard >= kWait &&
            std::exchange(word.taken_in, true))
            over.push_back(word.rank);
    std::erase_if(words_, [&](const Word& word) {
        return std::find(over.begin(), over.end(), word.rank) != over.end();
    });
    for (int rank : over) {
        Error why{Code::peer_gone, "The launcher says that the process has ended", rank};
        // The transport may know nothing of it, where a child has kept the connections: it would go
        // on to take what is sent, and to read and write the memory of operations that have failed.
        if (Endpoint* there = engine_.peer(rank).endpoint) there->abandon(why);
        sink.gone(rank, why);
    }
    return static_cast<int>(over.size());
}

}  // namespace pomona
