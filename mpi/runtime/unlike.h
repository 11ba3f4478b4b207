// mpi/runtime/unlike.h: jobs whose machines have different systems: what their processes tell each
// other of their basic types' formats (mpi/object/formats.h), and the refusal of types that they do
// not have alike.
#pragma once

#include "btl/base/params.h"
#include "btl/base/result.h"
#include "mpi/object/formats.h"
#include "pmix/wireup/wireup.h"

#include <map>
#include <mutex>
#include <string>

namespace pomona {

class Communicator;
class Datatype;
class Process;

// What each process of the job has, those of its node too (a Mac runs programs of two processors)
// and those that are spawned later. Each publishes its own at the start and asks for others' when a
// type that differs between systems is first used with them, which in most jobs is never.
class JobFormats {
public:
    // Publishes, and marks the types. Others find it at once with our mpirun, else after a fence.
    Status begin(Wireup& wireup, const Params& params);
    bool begun() const { return begun_; }
    // By its rank in the job. Waits for one of our mpirun's that is not in MPI yet.
    Formats of(const Process& process, int rank);

private:
    Formats ask(const Process& process, int rank) const;

    bool begun_ = false;
    Formats own_;
    std::mutex mutex_;  // what follows
    std::map<int, Formats> known_;
};

// Why a datatype that is not plain cannot go between this process and `peer` (whom a rank names in
// point to point), or -1: among all members; "" where it can.
std::string unlike_format(const Communicator& comm, const Datatype& type, int peer = -1);

}  // namespace pomona
