// mpi/trace/merge.h: one trace of the files of all ranks, as JSON for Perfetto and chrome://tracing.
// Idea: the n-th message from a rank to another with the same communicator and tag is the n-th that
// is received there (MPI 5.0, 3.5), so sends and receives find each other afterwards, and nothing
// is added to messages. From both ends follows who waited for whom.
// Format: "Trace Event Format", Chromium project: complete events (X), flow events (s, f), metadata
// (M), and events that begin and do not end (B): calls that had not returned.
#pragma once

#include <string>
#include <vector>

namespace pomona::trace {

struct MergeResult {
    bool good = false;                 // the trace has been written
    std::vector<std::string> remarks;  // what is missing in it, or why there is none
};
// Of the files in parts_folder(file), which are removed afterwards.
MergeResult merge(const std::string& file);

}  // namespace pomona::trace
