// mpi/runtime/extensions.h: state that single files of mpi/abi keep in the process.
// Idea: extension<Keyvals>(process) makes the state at its first use; the type names its slot.
#pragma once

#include "mpi/runtime/process.h"

namespace pomona {

enum class Slot {
    error_codes,
    keyvals,
    handle_numbers,
    file_defaults,
    fortran,
    tools,
    parent,
    count_
};
static_assert(static_cast<size_t>(Slot::count_) <= 16);

template <class T> T& extension(Process& process) {
    std::lock_guard guard(process.object_mutex);
    auto& slot = process.extensions[static_cast<size_t>(T::slot)];
    if (!slot) slot = std::make_unique<T>();
    return static_cast<T&>(*slot);
}

}  // namespace pomona
