// btl/shm/shm.h: frames between ranks of one machine through shared memory.
// Idea: every rank owns a segment with one inbound ring per local peer; a sender maps the
// receiver's segment and writes. Rings cost no memory until they are used: pages are touched late.
#pragma once

#include "btl/base/counters.h"
#include "btl/base/fingerprint.h"
#include "btl/base/params.h"
#include "btl/transport.h"

#include <functional>

namespace pomona {

class Sleeper;

struct ShmOptions {
    std::string job_tag;         // part of every segment's name: "/pomona-<tag>-<rank>"
    std::string directory;       // where the doorbells stand: "<directory>/bell-<rank>"
    int index = 0;               // own place among the local ranks
    std::vector<int> ranks;      // job ranks of the local ranks, by index
    Sleeper* sleeper = nullptr;  // borrowed; null: woken by the doorbell
    uint64_t incarnation = 0;    // tells apart the runs of a job that have the same tag
    // What the ranks of a job must have alike; without facts nothing is compared. Who finds a peer
    // that has others calls on_difference, and never reaches it.
    Fingerprint settings{};
    std::function<void(int peer, const Fingerprint& theirs)> on_difference{};
};

// The path of a rank's doorbell socket in the job's directory.
std::string doorbell_path(const std::string& directory, int rank);

// The file in the job's directory by which others see whether a rank lives (btl/shm/life_file.h).
std::string life_path(const std::string& directory, int rank);

Result<std::unique_ptr<Transport>> make_shm_transport(const Params& params, Counters& counters,
                                                      ShmOptions options);

}  // namespace pomona
