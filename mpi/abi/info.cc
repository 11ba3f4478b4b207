// mpi/abi/info.cc: info objects (MPI 5.0, chapter 10), also before MPI_Init and after
// MPI_Finalize. MPI_INFO_ENV is filled at its first use; only what asks for it pays.
#include "mpi/abi/define.h"
#include "mpi/abi/guard.h"
#include "mpi/object/hints.h"
#include "pmix/wireup/origin.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <sys/utsname.h>
#include <unistd.h>

#if defined(__APPLE__)
#include <crt_externs.h>
#endif

using namespace pomona;

namespace {

// This program's argument list, as the system knows it.
std::vector<std::string> program_arguments() {
    std::vector<std::string> words;
#if defined(__APPLE__)
    for (int i = 0; i < *_NSGetArgc(); ++i) words.emplace_back((*_NSGetArgv())[i]);
#else
    std::ifstream file("/proc/self/cmdline", std::ios::binary);
    for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
#endif
    return words;
}

const char* thread_level_name(int level) {
    switch (level) {
    case MPI_THREAD_FUNNELED: return "MPI_THREAD_FUNNELED";
    case MPI_THREAD_SERIALIZED: return "MPI_THREAD_SERIALIZED";
    case MPI_THREAD_MULTIPLE: return "MPI_THREAD_MULTIPLE";
    default: return "MPI_THREAD_SINGLE";
    }
}

const char* errhandler_name(const Errhandler* handler) {
    if (!handler) return "mpi_errors_are_fatal";
    return handler->action == Errhandler::Action::abort ? "mpi_errors_abort" : "mpi_errors_return";
}

// The keys of MPI 5.0, section 11.2.1. Values longer than MPI_MAX_INFO_VAL are cut.
void fill_environment(Info& info, const std::vector<std::string>& words) {
    auto set = [&](const char* key, std::string value) {
        if (value.size() >= MPI_MAX_INFO_VAL) value.resize(MPI_MAX_INFO_VAL - 1);
        if (!value.empty()) info.set(key, value);
    };
    std::string arguments;
    for (size_t i = 1; i < words.size(); ++i) arguments += (i > 1 ? " " : "") + words[i];
    if (!words.empty()) set("command", words[0]);
    set("argv", arguments);
    // Before MPI_Init, what mpirun left in the environment tells the same.
    Process& here = process();
    Job job = here.wireup ? here.job() : find_origin(environment()).job;
    set("maxprocs", std::to_string(job.world_size()));
    set("soft", std::to_string(job.world_size()));
    set("host", job.host);
    set("thread_level", thread_level_name(here.thread_level));
    set("mpi_initial_errhandler", errhandler_name(here.initial_errhandler.get()));
    tell_memory_kinds(info);
    utsname machine{};
    if (uname(&machine) == 0) set("arch", machine.machine);
    char directory[4096];
    if (getcwd(directory, sizeof directory)) set("wdir", directory);
}

Info* find_info(MPI_Info handle) {
    Info* info = resolve(handle);
    if (handle == MPI_INFO_ENV && info && process().wireup) {
        std::lock_guard guard(process().object_mutex);
        if (info->entries.empty()) fill_environment(*info, program_arguments());
    }
    return info;
}

int check_key(const char* function, const char* key) {
    if (!key) return fail(function, nullptr, MPI_ERR_INFO_KEY, "key is a null pointer");
    size_t length = std::strlen(key);
    if (length == 0) return fail(function, nullptr, MPI_ERR_INFO_KEY, "key is empty");
    if (length >= MPI_MAX_INFO_KEY)
        return fail(
            function, nullptr, MPI_ERR_INFO_KEY,
            format("key has {} characters; at most {} are possible", length, MPI_MAX_INFO_KEY - 1));
    return MPI_SUCCESS;
}

}  // namespace

#define INFO_ARGUMENT(name)                                                                        \
    Info* name##_object = find_info(name);                                                         \
    REQUIRE(name##_object, nullptr, MPI_ERR_INFO, #name " is not a valid info object")
#define WRITABLE_INFO_ARGUMENT(name)                                                               \
    INFO_ARGUMENT(name);                                                                           \
    REQUIRE(name != MPI_INFO_ENV, nullptr, MPI_ERR_INFO, "MPI_INFO_ENV cannot be changed")
#define KEY_ARGUMENT()                                                                             \
    if (int key_error = check_key(__func__, key)) return key_error

POMONA_MPI(int, Info_create, (MPI_Info* info)) {
    REQUIRE(info, nullptr, MPI_ERR_ARG, "info is a null pointer");
    *info = hand_out<MPI_Info>(new Info);
    return MPI_SUCCESS;
}

POMONA_MPI(int, Info_create_env, (int argc, char* argv[], MPI_Info* info)) {
    REQUIRE(info, nullptr, MPI_ERR_ARG, "info is a null pointer");
    REQUIRE(argc >= 0, nullptr, MPI_ERR_ARG, "argc is {}; it must not be negative", argc);
    std::vector<std::string> words;
    for (int i = 0; i < argc && argv && argv[i]; ++i) words.emplace_back(argv[i]);
    auto* made = new Info;
    fill_environment(*made, words.empty() ? program_arguments() : words);
    *info = hand_out<MPI_Info>(made);
    return MPI_SUCCESS;
}

POMONA_MPI(int, Info_free, (MPI_Info* info)) {
    REQUIRE(info, nullptr, MPI_ERR_ARG, "info is a null pointer");
    Info* object = resolve(*info);
    REQUIRE(object, nullptr, MPI_ERR_INFO, "*info is not a valid info object");
    REQUIRE(*info != MPI_INFO_ENV, nullptr, MPI_ERR_INFO, "MPI_INFO_ENV cannot be freed");
    take_back(object);
    object->release();
    *info = MPI_INFO_NULL;
    return MPI_SUCCESS;
}

POMONA_MPI(int, Info_dup, (MPI_Info info, MPI_Info* newinfo)) {
    INFO_ARGUMENT(info);
    REQUIRE(newinfo, nullptr, MPI_ERR_ARG, "newinfo is a null pointer");
    auto* made = new Info;
    made->entries = info_object->entries;
    *newinfo = hand_out<MPI_Info>(made);
    return MPI_SUCCESS;
}

POMONA_MPI(int, Info_set, (MPI_Info info, const char* key, const char* value)) {
    WRITABLE_INFO_ARGUMENT(info);
    KEY_ARGUMENT();
    REQUIRE(value, nullptr, MPI_ERR_INFO_VALUE, "value is a null pointer");
    size_t length = std::strlen(value);
    REQUIRE(length < MPI_MAX_INFO_VAL, nullptr, MPI_ERR_INFO_VALUE,
            "value has {} characters; at most {} are possible", length, MPI_MAX_INFO_VAL - 1);
    info_object->set(key, value);
    return MPI_SUCCESS;
}

POMONA_MPI(int, Info_delete, (MPI_Info info, const char* key)) {
    WRITABLE_INFO_ARGUMENT(info);
    KEY_ARGUMENT();
    REQUIRE(info_object->remove(key), nullptr, MPI_ERR_INFO_NOKEY, "there is no key \"{}\"", key);
    return MPI_SUCCESS;
}

// ---- reading

POMONA_MPI(int, Info_get_nkeys, (MPI_Info info, int* nkeys)) {
    INFO_ARGUMENT(info);
    REQUIRE(nkeys, nullptr, MPI_ERR_ARG, "nkeys is a null pointer");
    *nkeys = static_cast<int>(info_object->entries.size());
    return MPI_SUCCESS;
}

POMONA_MPI(int, Info_get_nthkey, (MPI_Info info, int n, char* key)) {
    INFO_ARGUMENT(info);
    REQUIRE(key, nullptr, MPI_ERR_ARG, "key is a null pointer");
    int count = static_cast<int>(info_object->entries.size());
    REQUIRE(n >= 0 && n < count, nullptr, MPI_ERR_ARG, "n is {}; the info object has {} keys", n,
            count);
    const std::string& name = info_object->entries[n].first;
    std::memcpy(key, name.c_str(), name.size() + 1);
    return MPI_SUCCESS;
}

// *buflen is the size of `value` on entry and the size it needs, with the final 0, on return.
POMONA_MPI(int, Info_get_string,
           (MPI_Info info, const char* key, int* buflen, char* value, int* flag)) {
    INFO_ARGUMENT(info);
    KEY_ARGUMENT();
    REQUIRE(buflen && flag, nullptr, MPI_ERR_ARG, "buflen or flag is a null pointer");
    REQUIRE(*buflen >= 0, nullptr, MPI_ERR_ARG, "*buflen is {}; it must not be negative", *buflen);
    REQUIRE(value || *buflen == 0, nullptr, MPI_ERR_ARG, "value is a null pointer");
    const std::string* found = info_object->get(key);
    *flag = found != nullptr;
    if (!found) return MPI_SUCCESS;
    size_t room = static_cast<size_t>(*buflen);
    if (room > 0) {
        size_t length = std::min(found->size(), room - 1);
        std::memcpy(value, found->data(), length);
        value[length] = 0;
    }
    *buflen = static_cast<int>(found->size()) + 1;
    return MPI_SUCCESS;
}

// `value` has room for valuelen characters and the final 0.
POMONA_MPI(int, Info_get, (MPI_Info info, const char* key, int valuelen, char* value, int* flag)) {
    INFO_ARGUMENT(info);
    KEY_ARGUMENT();
    REQUIRE(value && flag, nullptr, MPI_ERR_ARG, "value or flag is a null pointer");
    REQUIRE(valuelen >= 0, nullptr, MPI_ERR_ARG, "valuelen is {}; it must not be negative",
            valuelen);
    const std::string* found = info_object->get(key);
    *flag = found != nullptr;
    if (!found) return MPI_SUCCESS;
    size_t length = std::min(found->size(), static_cast<size_t>(valuelen));
    std::memcpy(value, found->data(), length);
    value[length] = 0;
    return MPI_SUCCESS;
}

POMONA_MPI(int, Info_get_valuelen, (MPI_Info info, const char* key, int* valuelen, int* flag)) {
    INFO_ARGUMENT(info);
    KEY_ARGUMENT();
    REQUIRE(valuelen && flag, nullptr, MPI_ERR_ARG, "valuelen or flag is a null pointer");
    const std::string* found = info_object->get(key);
    *flag = found != nullptr;
    if (found) *valuelen = static_cast<int>(found->size());
    return MPI_SUCCESS;
}
