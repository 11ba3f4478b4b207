// mpi/check/buffers.h: which memory operations under way read and write (MPI 5.0, sections 3.7.2,
// 6.12).
// Idea: each operation's memory is one entry by its first byte. A new operation looks at those that
// begin in front of its end and reach into it; only where two meet in their outer bounds, and one
// has gaps, are their bytes compared run by run. Two that only read may share memory.
#pragma once

#include "mpi/object/datatype.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace pomona {

// `count` elements of `type` at `buffer`.
struct Memory {
    const void* buffer = nullptr;
    MPI_Count count = 0;
    const Datatype* type = nullptr;
    bool written = false;
};

class BufferUses {
public:
    struct Use {
        uintptr_t begin, end;  // its outer bounds
        bool written;
        // Runs of bytes in ascending order; empty: all of the bounds.
        std::vector<std::pair<uintptr_t, uintptr_t>> runs;
        uint64_t owner;  // of the operation
    };
    using Entry = std::multimap<uintptr_t, Use>::iterator;

    // What uses a byte of it already, other than `owner`; null: nothing does. With `counts`: only
    // such.
    using Counts = std::function<bool(const Use&)>;
    const Use* conflict(const Memory& memory, uint64_t owner, const Counts& counts = {}) const;
    Entry add(const Memory& memory, uint64_t owner);
    void remove(Entry entry);

private:
    static Use use_of(const Memory& memory, uint64_t owner);

    std::multimap<uintptr_t, Use> uses_;
    uintptr_t longest_ = 0;  // any that has ever been here
};

}  // namespace pomona
