// mpi/abi/tool.h: what the files of the tool interface share (MPI 5.0, chapter 15).
// Idea: control variables are the rows of params.def, performance variables those of counters.def;
// categories are their prefixes (shm_, tcp_) and a general rest. Nothing is written twice.
#pragma once

#include "mpi/abi/guard.h"
#include "mpi/runtime/extensions.h"

#include <set>
#include <string_view>

// Handles of the tool interface are addresses of these.
struct MPI_ABI_T_cvar_handle {
    int index;
};
struct MPI_ABI_T_pvar_handle {
    int index;
    uint64_t start;  // the counter when it was last reset for this handle
};
struct MPI_ABI_T_pvar_session {
    std::set<MPI_T_pvar_handle> handles;
};
struct MPI_ABI_T_enum {
    const char* name;
    int count;
    const char* items[2];
};

namespace pomona {

struct Tools final : Process::Extension {
    static constexpr Slot slot = Slot::tools;
    std::mutex mutex;
    int users = 0;  // MPI_T_init_thread minus MPI_T_finalize
    std::set<MPI_T_cvar_handle> cvars;
    std::set<MPI_T_pvar_session> sessions;
};
inline Tools& tools() { return extension<Tools>(process()); }

inline int cvar_count() { return static_cast<int>(param_table().size()); }
inline int pvar_count() { return static_cast<int>(counter_table().size()); }

enum class Category { general, shm, tcp, count_ };
Category category_of(std::string_view variable);

// Writes `text` as the standard asks: at most *length characters with the final 0; *length becomes
// what the whole text needs.
void give_text(std::string_view text, char* out, int* length);

// The common beginning of the functions of this interface; it has error codes, not error handlers.
#define TOOLS_LOCKED()                                                                             \
    Tools& state = tools();                                                                        \
    std::lock_guard tools_guard(state.mutex);                                                      \
    if (state.users == 0) return MPI_T_ERR_NOT_INITIALIZED

}  // namespace pomona
