// mpi/abi/error_code.cc: error codes, classes and their texts (MPI 5.0, sections 9.4 and 9.5).
// Idea: a predefined code is its class. The users' classes and codes are numbers above
// MPI_ERR_LASTCODE in a table of the process.
#include "mpi/abi/define.h"
#include "mpi/abi/errhandler.h"
#include "mpi/abi/guard.h"
#include "mpi/object/last_error.h"
#include "mpi/runtime/extensions.h"

#include <cstring>
#include <map>

using namespace pomona;

namespace pomona {

namespace {
struct ErrorCodes final : Process::Extension {
    static constexpr Slot slot = Slot::error_codes;
    struct Entry {
        int error_class;  // its own number for a class
        std::string text;
    };
    std::mutex mutex;
    std::map<int, Entry> entries;
    int last_used = MPI_ERR_LASTCODE;

    Entry* find(int code) {
        auto found = entries.find(code);
        return found == entries.end() ? nullptr : &found->second;
    }
};

ErrorCodes& codes() { return extension<ErrorCodes>(process()); }

// The classes of MPI_T (MPI 5.0, section 15.3.10).
const char* tool_error_text(int code) {
    switch (code) {
    case MPI_T_ERR_CANNOT_INIT: return "MPI_T_ERR_CANNOT_INIT: interface cannot be initialized";
    case MPI_T_ERR_NOT_ACCESSIBLE: return "MPI_T_ERR_NOT_ACCESSIBLE: not accessible";
    case MPI_T_ERR_NOT_INITIALIZED:
        return "MPI_T_ERR_NOT_INITIALIZED: interface is not initialized";
    case MPI_T_ERR_NOT_SUPPORTED: return "MPI_T_ERR_NOT_SUPPORTED: functionality is not supported";
    case MPI_T_ERR_MEMORY: return "MPI_T_ERR_MEMORY: out of memory";
    case MPI_T_ERR_INVALID: return "MPI_T_ERR_INVALID: invalid use or argument";
    case MPI_T_ERR_INVALID_INDEX: return "MPI_T_ERR_INVALID_INDEX: index is out of range";
    case MPI_T_ERR_INVALID_ITEM: return "MPI_T_ERR_INVALID_ITEM: item index is out of range";
    case MPI_T_ERR_INVALID_SESSION: return "MPI_T_ERR_INVALID_SESSION: invalid session";
    case MPI_T_ERR_INVALID_HANDLE: return "MPI_T_ERR_INVALID_HANDLE: invalid handle";
    case MPI_T_ERR_INVALID_NAME: return "MPI_T_ERR_INVALID_NAME: no such name";
    case MPI_T_ERR_OUT_OF_HANDLES: return "MPI_T_ERR_OUT_OF_HANDLES: no handles are left";
    case MPI_T_ERR_OUT_OF_SESSIONS: return "MPI_T_ERR_OUT_OF_SESSIONS: no sessions are left";
    case MPI_T_ERR_CVAR_SET_NOT_NOW:
        return "MPI_T_ERR_CVAR_SET_NOT_NOW: cannot be set at this moment";
    case MPI_T_ERR_CVAR_SET_NEVER: return "MPI_T_ERR_CVAR_SET_NEVER: cannot be set";
    case MPI_T_ERR_PVAR_NO_WRITE: return "MPI_T_ERR_PVAR_NO_WRITE: cannot be written or reset";
    case MPI_T_ERR_PVAR_NO_STARTSTOP:
        return "MPI_T_ERR_PVAR_NO_STARTSTOP: cannot be started or stopped";
    case MPI_T_ERR_PVAR_NO_ATOMIC:
        return "MPI_T_ERR_PVAR_NO_ATOMIC: cannot be read and reset at once";
    default: return "";
    }
}

const char* predefined_text(int code) {
    const char* text = error_class_text(code);
    return *text ? text : tool_error_text(code);
}
}  // namespace

int* last_used_error_code() { return &codes().last_used; }

std::string error_text(int code) {
    if (code <= MPI_ERR_LASTCODE) return predefined_text(code);
    ErrorCodes& table = codes();
    std::lock_guard guard(table.mutex);
    ErrorCodes::Entry* entry = table.find(code);
    return entry ? entry->text : "";
}

bool is_error_code(int code) {
    if (code <= MPI_ERR_LASTCODE) return *predefined_text(code) != 0;
    ErrorCodes& table = codes();
    std::lock_guard guard(table.mutex);
    return table.find(code) != nullptr;
}

}  // namespace pomona

POMONA_MPI(int, Error_class, (int errorcode, int* errorclass)) {
    REQUIRE(errorclass, nullptr, MPI_ERR_ARG, "errorclass is a null pointer");
    REQUIRE(is_error_code(errorcode), nullptr, MPI_ERR_ARG,
            "errorcode is {}, which is no error code", errorcode);
    *errorclass = errorcode;
    if (errorcode <= MPI_ERR_LASTCODE) return MPI_SUCCESS;
    ErrorCodes& table = codes();
    std::lock_guard guard(table.mutex);
    if (ErrorCodes::Entry* entry = table.find(errorcode)) *errorclass = entry->error_class;
    return MPI_SUCCESS;
}

// A predefined code is told with the sentence of this thread's last error, if that was of its
// class.
POMONA_MPI(int, Error_string, (int errorcode, char* string, int* resultlen)) {
    REQUIRE(string && resultlen, nullptr, MPI_ERR_ARG, "string or resultlen is a null pointer");
    std::string text = last_error_sentence(errorcode);
    REQUIRE(is_error_code(errorcode), nullptr, MPI_ERR_ARG,
            "errorcode is {}, which is no error code", errorcode);
    std::string name = error_text(errorcode);
    // MPI_ERR_OTHER's own words, "known error not in this list", say nothing beside the sentence.
    if (errorcode == MPI_ERR_OTHER && !text.empty()) name = "MPI_ERR_OTHER: " + text;
    else if (errorcode != MPI_SUCCESS && errorcode <= MPI_ERR_LASTCODE && !text.empty())
        name += " (" + text + ")";
    if (name.size() >= MPI_MAX_ERROR_STRING) name.resize(MPI_MAX_ERROR_STRING - 1);
    std::memcpy(string, name.c_str(), name.size() + 1);
    *resultlen = static_cast<int>(name.size());
    return MPI_SUCCESS;
}

// ---- the users' own

POMONA_MPI(int, Add_error_class, (int* errorclass)) {
    REQUIRE(errorclass, nullptr, MPI_ERR_ARG, "errorclass is a null pointer");
    ErrorCodes& table = codes();
    std::lock_guard guard(table.mutex);
    *errorclass = ++table.last_used;
    table.entries[*errorclass] = {*errorclass, ""};
    return MPI_SUCCESS;
}

POMONA_MPI(int, Add_error_code, (int errorclass, int* errorcode)) {
    REQUIRE(errorcode, nullptr, MPI_ERR_ARG, "errorcode is a null pointer");
    int own_class = MPI_ERR_UNKNOWN;
    REQUIRE(is_error_code(errorclass) && PMPI_Error_class(errorclass, &own_class) == MPI_SUCCESS &&
                own_class == errorclass,
            nullptr, MPI_ERR_ARG, "errorclass is {}, which is no error class", errorclass);
    ErrorCodes& table = codes();
    std::lock_guard guard(table.mutex);
    *errorcode = ++table.last_used;
    table.entries[*errorcode] = {errorclass, ""};
    return MPI_SUCCESS;
}

POMONA_MPI(int, Add_error_string, (int errorcode, const char* string)) {
    REQUIRE(string, nullptr, MPI_ERR_ARG, "string is a null pointer");
    REQUIRE(std::strlen(string) < MPI_MAX_ERROR_STRING, nullptr, MPI_ERR_ARG,
            "string has {} characters; at most {} are possible", std::strlen(string),
            MPI_MAX_ERROR_STRING - 1);
    bool own = errorcode > MPI_ERR_LASTCODE && is_error_code(errorcode);
    REQUIRE(own, nullptr, MPI_ERR_ARG,
            "errorcode is {}; it must come from MPI_Add_error_class or _code", errorcode);
    ErrorCodes& table = codes();
    std::lock_guard guard(table.mutex);
    if (ErrorCodes::Entry* entry = table.find(errorcode)) entry->text = string;
    return MPI_SUCCESS;
}

namespace {
// Why class or code `number` cannot be removed, or "".
const char* remove_entry(int number, bool is_class) {
    ErrorCodes& table = codes();
    std::lock_guard guard(table.mutex);
    ErrorCodes::Entry* entry = table.find(number);
    if (!entry || (entry->error_class == number) != is_class)
        return is_class ? "errorclass was not made by MPI_Add_error_class"
                        : "errorcode was not made by MPI_Add_error_code";
    if (!entry->text.empty()) return "it still has a string; remove that first";
    for (const auto& [code, other] : table.entries)
        if (is_class && code != number && other.error_class == number)
            return "it still has error codes; remove those first";
    table.entries.erase(number);
    return "";
}
}  // namespace

POMONA_MPI(int, Remove_error_class, (int errorclass)) {
    const char* trouble = remove_entry(errorclass, true);
    REQUIRE(!*trouble, nullptr, MPI_ERR_ARG, "error class {}: {}", errorclass, trouble);
    return MPI_SUCCESS;
}

POMONA_MPI(int, Remove_error_code, (int errorcode)) {
    const char* trouble = remove_entry(errorcode, false);
    REQUIRE(!*trouble, nullptr, MPI_ERR_ARG, "error code {}: {}", errorcode, trouble);
    return MPI_SUCCESS;
}

POMONA_MPI(int, Remove_error_string, (int errorcode)) {
    bool removed = false;
    {
        ErrorCodes& table = codes();
        std::lock_guard guard(table.mutex);
        ErrorCodes::Entry* entry = table.find(errorcode);
        removed = entry && !entry->text.empty();
        if (removed) entry->text.clear();
    }
    REQUIRE(removed, nullptr, MPI_ERR_ARG, "error code {} has no string of the program's own",
            errorcode);
    return MPI_SUCCESS;
}
