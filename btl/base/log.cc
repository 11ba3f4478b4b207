// btl/base/log.cc: level table, parsing of POMONA_LOG, one write per line.
#include "btl/base/log.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>
#include <unistd.h>

namespace pomona {

static const char* const level_names[] = {"error", "warn", "info", "debug"};
static const char* const scope_names[] = {"base", "btl", "accel", "coll", "pmix", "mpi", "torch"};
static constexpr int scope_count = static_cast<int>(LogScope::count_);

std::atomic<LogLevel> log_levels[scope_count] = {LogLevel::warn, LogLevel::warn, LogLevel::warn,
                                                 LogLevel::warn, LogLevel::warn, LogLevel::warn,
                                                 LogLevel::warn};

static std::mutex identity_mutex;
static std::string identity_text;
static std::atomic<long> warning_count{0};  // statistics only: relaxed, publishes nothing

static int find_name(const char* const* names, int count, std::string_view word) {
    for (int i = 0; i < count; ++i)
        if (word == names[i]) return i;
    return -1;
}

std::string set_log_levels(std::string_view specification) {
    while (!specification.empty()) {
        std::string_view word = specification.substr(0, specification.find(','));
        specification.remove_prefix(std::min(specification.size(), word.size() + 1));
        if (word.empty()) continue;
        size_t equals = word.find('=');
        std::string_view level_word = equals == word.npos ? word : word.substr(equals + 1);
        int level = find_name(level_names, 4, level_word);
        if (level < 0) return std::string(word);
        if (equals == word.npos) {
            for (auto& each : log_levels)
                each.store(static_cast<LogLevel>(level), std::memory_order_relaxed);
            continue;
        }
        int scope = find_name(scope_names, scope_count, word.substr(0, equals));
        if (scope < 0) return std::string(word);
        log_levels[scope].store(static_cast<LogLevel>(level), std::memory_order_relaxed);
    }
    return "";
}

void set_log_identity(std::string identity) {
    std::lock_guard guard(identity_mutex);
    identity_text = std::move(identity);
}

std::string log_prefix(const char* scope) {
    std::lock_guard guard(identity_mutex);
    if (identity_text.empty()) return format("pomona {}: ", scope);
    return format("pomona {} {}: ", identity_text, scope);
}

void write_log_line(LogLevel level, const char* scope, const std::string& text) {
    if (level <= LogLevel::warn) warning_count.fetch_add(1, std::memory_order_relaxed);
    std::string line = log_prefix(scope);
    if (level == LogLevel::error) line += "error: ";
    line += text;
    line += '\n';
    // One write per line keeps lines of several ranks whole; a failing stderr has no remedy.
    if (write(2, line.data(), line.size()) < 0) return;
}

long log_warning_count() { return warning_count.load(std::memory_order_relaxed); }

}  // namespace pomona
