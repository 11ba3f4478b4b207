// tests/fuzz/pmix_values.cc: libFuzzer over what a PMIx server tells a rank: any type and value
// under any key, or nothing. Method: the wire-up runs on functions of this file in place of
// libpmix's, which take their answers from the input. It must refuse, or end with a job that makes
// sense.
#include "pmix/job_directory.h"
#include "pmix/wireup/pmix_client.h"
#include "pmix/wireup/pmix_value.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <unistd.h>

using namespace pomona;

namespace {

ConstBytes input;
pmix_notification_fn_t event_handler = nullptr;

void must(bool holds) {
    if (!holds) std::abort();
}

template <class T> T take() {
    T value{};
    size_t n = std::min(sizeof value, input.size());
    std::memcpy(&value, input.data(), n);
    input = input.subspan(n);
    return value;
}

// Exactly as long as told, so that the sanitizer sees a byte too many.
char* take_memory(size_t size, bool text) {
    size = std::min(size, input.size());
    auto* memory = static_cast<char*>(std::malloc(size + text + (size + text == 0)));
    std::memcpy(memory, input.data(), size);
    if (text) memory[size] = 0;
    input = input.subspan(size);
    return memory;
}

pmix_status_t get(const pmix_proc_t*, const char* key, const pmix_info_t*, size_t,
                  pmix_value_t** out) {
    *out = nullptr;
    // No directories where the input says.
    if (std::string_view(key) == PMIX_NSDIR) return PMIX_ERR_NOT_FOUND;
    if (input.empty() || take<uint8_t>() % 8 == 0) return PMIX_ERR_NOT_FOUND;
    auto* value = static_cast<pmix_value_t*>(std::calloc(1, sizeof(pmix_value_t)));
    static const pmix_data_type_t types[] = {
        PMIX_STRING, PMIX_BYTE_OBJECT, PMIX_UINT32,    PMIX_INT,   PMIX_SIZE,
        PMIX_INT64,  PMIX_UINT16,      PMIX_PROC_RANK, PMIX_BOOL,  PMIX_UNDEF,
        PMIX_PROC,   PMIX_DOUBLE,      PMIX_INT8,      PMIX_STATUS};
    value->type = types[take<uint8_t>() % std::size(types)];
    switch (value->type) {
    case PMIX_STRING: {
        auto length = take<uint8_t>();
        value->data.string = length == 255 ? nullptr : take_memory(length, true);
        break;
    }
    case PMIX_BYTE_OBJECT: {
        auto length = take<uint8_t>();
        value->data.bo.size = std::min<size_t>(length, input.size());
        value->data.bo.bytes = length ? take_memory(length, false) : nullptr;
        break;
    }
    case PMIX_PROC: break;  // a null pointer
    case PMIX_BOOL: value->data.flag = take<uint8_t>() & 1; break;
    default: value->data.uint64 = take<uint64_t>();
    }
    // Sizes that are right and large only take time.
    auto number = pmix_number(*value);
    if (number && *number > 2000 && *number < (1 << 25)) value->data.uint64 = 2000;
    *out = value;
    return PMIX_SUCCESS;
}

PmixLibrary library() {
    PmixLibrary made;
    made.PMIx_Init = [](pmix_proc_t* self, pmix_info_t*, size_t) -> pmix_status_t {
        *self = pmix_process("fuzz", take<uint8_t>() % 2 ? take<uint32_t>() : take<uint8_t>());
        return PMIX_SUCCESS;
    };
    made.PMIx_Finalize = [](const pmix_info_t*, size_t) -> pmix_status_t { return PMIX_SUCCESS; };
    made.PMIx_Get = get;
    made.PMIx_Put = [](pmix_scope_t, const char*, pmix_value_t*) -> pmix_status_t {
        return PMIX_SUCCESS;
    };
    made.PMIx_Commit = []() -> pmix_status_t { return PMIX_SUCCESS; };
    made.PMIx_Fence = [](const pmix_proc_t*, size_t, const pmix_info_t*, size_t) -> pmix_status_t {
        return PMIX_SUCCESS;
    };
    made.PMIx_Error_string = [](pmix_status_t) -> const char* { return "an error"; };
    made.PMIx_Register_event_handler = [](pmix_status_t*, size_t, pmix_info_t*, size_t,
                                          pmix_notification_fn_t function, pmix_hdlr_reg_cbfunc_t,
                                          void*) -> pmix_status_t {
        event_handler = function;
        return PMIX_SUCCESS;
    };
    return made;
}

void check_job(const Job& job) {
    must(job.size >= 1 && job.rank >= 0 && job.rank < job.size && job.universe_size >= job.size);
    must(job.node_of.size() == static_cast<size_t>(job.size));
    must(job.local_size == static_cast<int>(job.local_ranks.size()));
    must(job.local_rank < job.local_size);
    must(job.local_ranks[static_cast<size_t>(job.local_rank)] == job.rank);
}

void tell_death(Wireup& wireup) {
    int told = -2;
    wireup.on_peer_death([&](int rank) { told = rank; });
    pmix_proc_t affected = pmix_process("fuzz", take<uint32_t>());
    pmix_info_t info = pmix_flag(PMIX_EVENT_AFFECTED_PROC);
    if (take<uint8_t>() % 2) {
        info.value.type = PMIX_PROC;
        info.value.data.proc = take<uint8_t>() % 2 ? &affected : nullptr;
    }
    event_handler(0, PMIX_ERR_LOST_CONNECTION, nullptr, &info, 1, nullptr, 0, nullptr, nullptr);
    // Events of other jobs, and those that name nobody, are not told.
    must(told == -2 || told == -1 || told == static_cast<int>(affected.rank));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static const PmixLibrary functions = [] {
        setenv("POMONA_LOG", "error", 1);
        unsetenv("PMIX_SERVER_TMPDIR");
        return library();
    }();
    input = {reinterpret_cast<const std::byte*>(data), size};
    auto started = start_under_pmix(functions);
    if (!started.ok()) return 0;
    Wireup& wireup = **started;
    check_job(wireup.job());
    for (int i = 0; i < 4; ++i) (void)wireup.lookup(i, "tcp");
    tell_death(wireup);
    (void)wireup.finalize();
    return 0;
}
