// pmix/wireup/pmix_value.h: PMIx keys, infos and values, built and read by hand.
// Idea: launchers send one key with different integer types (Slurm an int where PRRTE sends a
// uint32), and a successful string may be a null pointer: everything is
// converted, nothing assumed.
#pragma once

#include "pmix/wireup/pmix_library.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

namespace pomona {

inline void set_pmix_key(pmix_key_t& target, std::string_view key) {
    std::memset(target, 0, sizeof(pmix_key_t));
    key.substr(0, sizeof(pmix_key_t) - 1).copy(target, sizeof(pmix_key_t) - 1);
}

inline pmix_proc_t pmix_process(std::string_view nspace, pmix_rank_t rank) {
    pmix_proc_t process;
    std::memset(&process, 0, sizeof process);
    nspace.substr(0, sizeof process.nspace - 1).copy(process.nspace, sizeof process.nspace - 1);
    process.rank = rank;
    return process;
}

inline pmix_info_t pmix_flag(std::string_view key, bool on = true) {
    pmix_info_t info;
    std::memset(&info, 0, sizeof info);
    set_pmix_key(info.key, key);
    info.value.type = PMIX_BOOL;
    info.value.data.flag = on;
    return info;
}

inline pmix_info_t pmix_seconds(std::string_view key, int seconds) {
    pmix_info_t info = pmix_flag(key);
    info.value.type = PMIX_INT;
    info.value.data.integer = seconds;
    return info;
}

inline std::optional<int64_t> pmix_number(const pmix_value_t& value) {
    switch (value.type) {
    case PMIX_SIZE: return static_cast<int64_t>(value.data.size);
    case PMIX_INT: return value.data.integer;
    case PMIX_INT8: return value.data.int8;
    case PMIX_INT16: return value.data.int16;
    case PMIX_INT32: return value.data.int32;
    case PMIX_INT64: return value.data.int64;
    case PMIX_UINT: return value.data.uint;
    case PMIX_UINT8: return value.data.uint8;
    case PMIX_UINT16: return value.data.uint16;
    case PMIX_UINT32: return value.data.uint32;
    case PMIX_UINT64: return static_cast<int64_t>(value.data.uint64);
    case PMIX_PID: return value.data.pid;
    case PMIX_PROC_RANK: return value.data.rank;
    case PMIX_STATUS: return value.data.status;
    case PMIX_BOOL: return value.data.flag;
    default: return std::nullopt;
    }
}

// A value from PMIx_Get and what it points to, whatever type the server chose. (The library's own
// function for it changed its name between versions.)
inline void free_pmix_value(pmix_value_t* value) {
    if (!value) return;
    if (value->type == PMIX_STRING) std::free(value->data.string);
    if (value->type == PMIX_BYTE_OBJECT) std::free(value->data.bo.bytes);
    std::free(value);
}

}  // namespace pomona
