// mpi/runtime/transport_named.h: which of a process's transports is the one of a name.
#pragma once

#include "btl/transport.h"

#include <memory>
#include <string_view>
#include <vector>

namespace pomona {

// Null: it has none.
inline Transport* transport_named(const std::vector<std::unique_ptr<Transport>>& all,
                                  std::string_view name) {
    for (const auto& each : all)
        if (each->name() == name) return each.get();
    return nullptr;
}

}  // namespace pomona
