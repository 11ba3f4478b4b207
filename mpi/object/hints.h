// mpi/object/hints.h: the info keys that communicators and windows know (MPI 5.0, sections 7.4.4
// and 12.2.1). MPI_X_get_info tells these; others are ignored, as the standard asks.
#pragma once

#include "mpi/object/info.h"

#include <span>

namespace pomona {

struct Hint {
    const char* key;
    const char* usual;  // without the user's word; "" when it is not told then
};

// Of a communicator: its rules for choosing algorithms, as the parameter `choices`.
inline constexpr const char* kChoicesHint = "pomona_choices";

// "true": whoever probes on it waits for nobody, and reports of waits leave that out.
inline constexpr const char* kQuietHint = "pomona_quiet";

inline constexpr Hint kCommHints[] = {{kChoicesHint, ""},
                                      {kQuietHint, ""},
                                      {"mpi_assert_no_any_tag", ""},
                                      {"mpi_assert_no_any_source", ""},
                                      {"mpi_assert_exact_length", ""},
                                      {"mpi_assert_allow_overtaking", ""},
                                      {"mpi_assert_strict_start_ordering", ""},
                                      {"mpi_minimum_memory_alignment", ""},
                                      {"mpi_assert_memory_alloc_kinds", ""}};

inline constexpr Hint kWinHints[] = {{"no_locks", "false"},
                                     {"accumulate_ordering", "rar,raw,war,waw"},
                                     {"accumulate_ops", "same_op_no_op"},
                                     {"mpi_accumulate_granularity", "0"},
                                     {"same_size", "false"},
                                     {"same_disp_unit", "false"},
                                     {"alloc_shared_noncontig", "false"},
                                     {"mpi_minimum_memory_alignment", ""},
                                     {"mpi_assert_memory_alloc_kinds", ""}};

// What memory all take, whatever was asked for (section 12.4.3): of sessions, and all below them.
inline void tell_memory_kinds(Info& info) { info.set("mpi_memory_alloc_kinds", "mpi,system"); }

// Sets in `own` (made when it is null) the known ones among `given`.
inline void take_hints(std::span<const Hint> known, const Info& given, Ref<Info>& own) {
    for (const Hint& each : known) {
        const std::string* value = given.get(each.key);
        if (!value) continue;
        if (!own) own = Ref(new Info);
        own->set(each.key, *value);
    }
}

}  // namespace pomona
