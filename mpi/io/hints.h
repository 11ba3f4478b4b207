// mpi/io/hints.h: the info keys that files know (MPI 5.0, section 14.2.8, and those that ROMIO made
// common), read from an info object and told by MPI_File_get_info.
// Idea: a hint whose value cannot be used is ignored, as the standard allows; keys that nothing
// here knows are not kept.
#pragma once

#include "mpi/object/info.h"

#include <algorithm>
#include <cstddef>

namespace pomona {

inline constexpr int kAggregatorsMax = 8;  // unless cb_nodes says more

struct Hints {
    enum class When { automatic, always, never };

    // Takes over what `given` says of known keys; null: nothing.
    void take(const Info* given);
    // All keys with the values in use by a file of so many members.
    Ref<Info> told(int members) const;
    int aggregators(int members) const {
        return std::min(cb_nodes ? cb_nodes : kAggregatorsMax, members);
    }

    size_t cb_buffer_size = size_t{16} << 20;     // bytes that an aggregator handles at a time
    int cb_nodes = 0;                             // aggregators; 0: chosen by the number of ranks
    size_t ind_rd_buffer_size = size_t{4} << 20;  // bytes that one sieving read may span
    When collective_read = When::automatic;       // two-phase reads and writes
    When collective_write = When::automatic;
    When sieving_read = When::automatic;
    unsigned permissions = 0666;  // of a file that is created

    std::string filename;

private:
    // Keys that change nothing here, as the user set them.
    Info kept_;
};

}  // namespace pomona
