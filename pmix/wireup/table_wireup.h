// pmix/wireup/table_wireup.h: the wire-up of processes that no launcher of MPI has started, but
// that reach one table of keys and values: torch's store under torchrun, for example.
#pragma once

#include "pmix/wireup/wireup.h"

namespace pomona {

// What the program brings. Called by the thread that starts MPI alone, until it has started.
struct MeetingTable {
    int rank = 0;
    int size = 1;
    double timeout_s = 0;  // how long to wait for the others; 0: as long as get() does
    std::function<Status(const std::string& key, ConstBytes value)> put;
    // Waits until the key is there, or fails.
    std::function<Result<std::vector<std::byte>>(const std::string& key)> get;
    std::function<void()> leave;  // MPI has started here: the table is needed no more; may be empty
};

// Collective over all processes that share the table, which an earlier job may have filled.
Result<std::unique_ptr<Wireup>> start_by_table(MeetingTable table);

}  // namespace pomona
