// store.cc: see store.h. The two functions of MPIX_Wireup, as calls of c10d::Store.
#include "torch_glue/store.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "torch_glue/world.h"

namespace pomona::glue {
namespace {

struct Table {
    c10::intrusive_ptr<c10d::Store> store;
    std::string failure;  // what the store has thrown
};

template <class Use> int use(void* context, const char* key, Use&& body) {
    auto& table = *static_cast<Table*>(context);
    try {
        body(*table.store);
        return 0;
    } catch (const std::exception& error) {
        const std::string text = error.what();
        table.failure = std::string("\"") + key + "\": " + text.substr(0, text.find('\n'));
        return 1;
    }
}

int put(void* context, const char* key, const void* value, size_t length) {
    return use(context, key, [&](c10d::Store& store) {
        const auto* bytes = static_cast<const uint8_t*>(value);
        store.set(key, std::vector<uint8_t>(bytes, bytes + length));
    });
}

int get(void* context, const char* key, void* value, size_t room, size_t* length) {
    return use(context, key, [&](c10d::Store& store) {
        const std::vector<uint8_t> found = store.get(key);
        *length = found.size();
        std::copy_n(found.begin(), std::min(room, found.size()), static_cast<uint8_t*>(value));
    });
}

}  // namespace

void start_mpi_by_store(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size) {
    Table table{store, {}};
    const double timeout_s = std::chrono::duration<double>(store->getTimeout()).count();
    const MPIX_Wireup wireup{rank, size, std::max(timeout_s, 0.0), &table, put, get};
    std::string failure = wire_up_by(wireup);
    if (failure.empty()) failure = start_mpi();
    if (failure.empty()) return;
    if (!table.failure.empty()) failure += "; torch's store, " + table.failure;
    C10_THROW_ERROR(DistBackendError, "Rank " + std::to_string(rank) + " of " +
                                          std::to_string(size) + ": " + failure);
}

}  // namespace pomona::glue
