// btl/base/kept_file.cc: where kept figures stand, and whole-file reading and writing.
#include "btl/base/kept_file.h"

#include "btl/base/format.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace pomona {

static constexpr size_t file_bytes_max = 1 << 20;

std::string processor_name() {
#if defined(__APPLE__)
    char name[256] = "";
    size_t size = sizeof name;
    return sysctlbyname("machdep.cpu.brand_string", name, &size, nullptr, 0) == 0 ? name : "Mac";
#else
    std::string found = "unknown processor";
    if (std::FILE* file = std::fopen("/proc/cpuinfo", "r")) {
        char line[512];
        while (std::fgets(line, sizeof line, file)) {
            const char* colon = std::strchr(line, ':');
            if (std::strncmp(line, "model name", 10) != 0 || !colon) continue;
            found.assign(colon + 1 + std::strspn(colon + 1, " "));
            found.resize(found.find_last_not_of(" \n") + 1);
            break;
        }
        std::fclose(file);
    }
    return found;
#endif
}

std::string cache_path(const char* const* environment, std::string_view name) {
    auto value = [&](std::string_view variable) -> std::string {
        for (auto entry = environment; entry && *entry; ++entry) {
            std::string_view line = *entry;
            if (line.size() > variable.size() && line.substr(0, variable.size()) == variable &&
                line[variable.size()] == '=')
                return std::string(line.substr(variable.size() + 1));
        }
        return "";
    };
    std::string cache = value("XDG_CACHE_HOME");
    if (!cache.empty()) return format("{}/pomona/{}", cache, name);
    std::string home = value("HOME");
    if (home.empty()) return "";
#if defined(__APPLE__)
    return format("{}/Library/Caches/pomona/{}", home, name);
#else
    return format("{}/.cache/pomona/{}", home, name);
#endif
}

static void make_folders(const std::string& path) {
    for (size_t slash = path.find('/', 1); slash != path.npos; slash = path.find('/', slash + 1))
        mkdir(path.substr(0, slash).c_str(), 0755);
}

// Of the folder itself: no further file, which nobody could remove.
KeptLock::KeptLock(const std::string& path, int milliseconds) {
    constexpr int kPauseMs = 5;
    make_folders(path);
    folder_ = open(path.substr(0, path.rfind('/') + 1).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int waited = 0; folder_ >= 0; waited += kPauseMs) {
        held_ = flock(folder_, LOCK_EX | LOCK_NB) == 0 || (errno != EWOULDBLOCK && errno != EINTR);
        if (held_ || waited >= milliseconds) return;
        poll(nullptr, 0, kPauseMs);
    }
    held_ = true;  // no folder: nothing will be written
}

KeptLock::~KeptLock() {
    if (folder_ >= 0) close(folder_);
}

Status write_kept(const std::string& path, std::string_view text) {
    make_folders(path);  // what fails here fails in fopen
    std::string beside = format("{}.{}", path, getpid());
    std::FILE* file = std::fopen(beside.c_str(), "w");
    if (!file) return os_error(Code::io, "Cannot write the file of measured figures");
    bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    written &= std::fclose(file) == 0;
    if (written && std::rename(beside.c_str(), path.c_str()) == 0) return {};
    Error error = os_error(Code::io, "Cannot write the file of measured figures");
    unlink(beside.c_str());
    return error;
}

Result<std::string> read_kept(const std::string& path) {
    std::FILE* file = std::fopen(path.c_str(), "r");
    if (!file) return os_error(Code::not_found, "There is no file of measured figures");
    std::string text(file_bytes_max, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), file));
    std::fclose(file);
    return text;
}

std::string today() {
    std::time_t now = std::time(nullptr);
    std::tm day{};
    localtime_r(&now, &day);
    char text[16];
    std::strftime(text, sizeof text, "%Y-%m-%d", &day);
    return text;
}

std::string_view take_piece(std::string_view& text, char end) {
    size_t at = text.find(end);
    std::string_view piece = text.substr(0, at);
    text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
    return piece;
}

std::string_view bare_line(std::string_view line) {
    line = line.substr(0, line.find('#'));
    while (!line.empty() && (line.back() == ' ' || line.back() == '\t' || line.back() == '\r'))
        line.remove_suffix(1);
    while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) line.remove_prefix(1);
    return line;
}

bool may_be_handed(std::string_view line) {
    return std::all_of(line.begin(), line.end(),
                       [](char c) { return (c >= ' ' || c == '\t') && c <= '~' && c != ';'; });
}

}  // namespace pomona
