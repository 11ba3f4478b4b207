// btl/base/log.h: lines for people on standard error.
// Idea: LOG(warn, btl, "peer {} closed: {}", peer, why). Levels error, warn, info, debug; scopes
// are the folder names. POMONA_LOG=warn,btl=debug chooses; one write(2) per line, prefixed
// "pomona 3@host btl: ". A line below the chosen level costs one load and a branch.
#pragma once

#include "btl/base/format.h"

#include <atomic>
#include <string>
#include <string_view>

namespace pomona {

enum class LogLevel : int { error, warn, info, debug };
enum class LogScope : int { base, btl, accel, coll, pmix, mpi, torch, count_ };

// Relaxed: set at start; ranks that are threads of one program may set and read at once.
extern std::atomic<LogLevel> log_levels[static_cast<int>(LogScope::count_)];

// Parses "warn,btl=debug"; returns the first word that is neither a level nor a scope, or "".
std::string set_log_levels(std::string_view specification);

// Who speaks: "3@host" after MPI_Init, the program's name before.
void set_log_identity(std::string identity);
std::string log_prefix(const char* scope);
void write_log_line(LogLevel level, const char* scope, const std::string& text);

// Warnings and errors written so far by this process; a test that did not expect any reads it.
long log_warning_count();

#define LOG(level, scope, ...)                                                                     \
    do {                                                                                           \
        if (::pomona::log_levels[static_cast<int>(::pomona::LogScope::scope)].load(                \
                std::memory_order_relaxed) >= ::pomona::LogLevel::level)                           \
            ::pomona::write_log_line(::pomona::LogLevel::level, #scope,                            \
                                     ::pomona::format(__VA_ARGS__));                               \
    } while (0)

}  // namespace pomona
