// pmix/services.h: what mpirun does for ranks that run already: it starts more of them, brings
// those together that meet at a port, and keeps published names (MPI 5.0, chapter 11.7 on).
// Idea: a request is one frame of the job's socket and is answered at once. Who waits for a partner
// asks again (met), so that it can poll its messages meanwhile.
#pragma once

#include "btl/base/bytes.h"
#include "btl/base/result.h"
#include "pmix/job_key.h"
#include "pmix/program.h"

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>

namespace pomona {

enum class Service : uint8_t {
    spawn = 1,   // number of programs u32, each: count u32, directory, host, words u32,
                 // words;
                 // answer: first rank i32
    open_port,   // port
    close_port,  // port
    meet,        // port, side u8 (0 accepts, 1 connects); answer: ticket u64
    met,         // ticket u64; answer: partner i32 (-1: none yet), number of the meeting u64
    publish,     // name, port
    unpublish,   // name
    find_name,   // name; answer: port
    leave,       // ticket u64: waits no longer; answer: as of met
    job_key,     // answer: 32 bytes that the ranks of this job alone know
    count_
};

// Why a service was refused, for people.
const char* refusal_of(Service service);

std::vector<std::byte> write_spawn(const std::vector<Program>& programs);

class Services {
public:
    // Starts a world for `rank`; its first rank.
    std::function<Result<int>(int rank, std::vector<Program> programs)> on_spawn;
    // Made anew for each job.
    JobKey key{};

    // The answer to a request of `rank`: a Code u8 and the service's words.
    Writer answer(int rank, Reader& request);
    static Writer spawn_answer(Result<int> first);
    // It has ended, and waits at no port any more.
    void forget(int rank);
    // It has failed: the ports it opened are closed, but those at which another one accepts now,
    // and the names that lead there are free again.
    void close_ports_of(int rank);

private:
    struct Waiting {
        int rank;
        uint64_t ticket;
    };
    struct Meeting {
        int partner = -1;
        uint64_t number = 0;
    };
    Code serve(int rank, Service service, Reader& request, Writer& out);
    Code spawn(int rank, Reader& request, Writer& out);
    Code meet(int rank, Reader& request, Writer& out);
    Code met(Reader& request, Writer& out, bool leaves);
    Code close_port(const std::string& port);

    std::map<std::string, int> ports_;  // and who opened them
    std::map<std::string, std::string> names_;
    std::map<std::pair<std::string, int>, std::deque<Waiting>> waiting_;  // by port and side
    std::map<uint64_t, Meeting> meetings_;                                // by ticket
    std::set<uint64_t> turned_away_;  // tickets for ports that were closed
    uint64_t tickets_ = 0;
    uint64_t meetings_made_ = 0;
};

}  // namespace pomona
