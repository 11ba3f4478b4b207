// mpi/abi/wireup.cc: how processes meet that no launcher of MPI has started, and for how long
// MPI_Init waits for others (mpix.h).
#include "mpi/abi/define.h"
#include "mpi/abi/guard.h"
#include "mpi/abi/init_internal.h"

#include "pmix/wireup/table_wireup.h"

#include <mutex>
#include <optional>

using namespace pomona;

namespace {

std::mutex given_mutex;
std::optional<MPIX_Wireup> given;

Status put(const MPIX_Wireup& table, const std::string& key, ConstBytes value) {
    if (table.put(table.context, key.c_str(), value.data(), value.size()) == 0) return {};
    return Error{Code::io, "The table that the program has brought takes no value"};
}

Result<std::vector<std::byte>> get(const MPIX_Wireup& table, const std::string& key) {
    std::vector<std::byte> value(4096);
    for (size_t length = 0;; value.resize(length)) {
        if (table.get(table.context, key.c_str(), value.data(), value.size(), &length) != 0)
            return Error{Code::io,
                         "What another process should have put into the program's table "
                         "has not come"};
        if (length > value.size()) continue;
        value.resize(length);
        return value;
    }
}

}  // namespace

namespace pomona {

Result<std::unique_ptr<Wireup>> given_wireup() {
    std::lock_guard lock(given_mutex);
    if (!given) return std::unique_ptr<Wireup>();
    const MPIX_Wireup table = *given;
    given.reset();  // what its context points to need not live longer
    return start_by_table(
        {table.rank,
         table.size,
         table.timeout_s,
         [table](const std::string& key, ConstBytes value) { return put(table, key, value); },
         [table](const std::string& key) { return get(table, key); },
         {}});
}

}  // namespace pomona

POMONA_MPIX(int, Wireup_set, (const MPIX_Wireup* wireup)) {
    REQUIRE(wireup && wireup->put && wireup->get, nullptr, MPI_ERR_ARG,
            "wireup or one of its functions is a null pointer");
    REQUIRE(wireup->size > 0 && wireup->rank >= 0 && wireup->rank < wireup->size, nullptr,
            MPI_ERR_ARG, "rank and size do not fit");
    REQUIRE(wireup->timeout_s >= 0, nullptr, MPI_ERR_ARG, "timeout_s is negative or not a number");
    REQUIRE(process().state.load() == Process::State::before, nullptr, MPI_ERR_OTHER,
            "MPI has been started");
    std::lock_guard lock(given_mutex);
    given = *wireup;
    return MPI_SUCCESS;
}

POMONA_MPIX(int, Init_timeout, (double seconds)) {
    REQUIRE(seconds >= 0, nullptr, MPI_ERR_ARG, "seconds is negative or not a number");
    REQUIRE(process().state.load() == Process::State::before, nullptr, MPI_ERR_OTHER,
            "MPI has been started");
    process().start_timeout_s = seconds;
    return MPI_SUCCESS;
}
