// accel/choose_file.cc: choices as text, and where they are kept.
// Format: "pomona-accel 1", "machine KEY", then lines OP TYPE SIZE:BEST:NS,NS,NS ...
// [differs=MODULE]. A file of another machine or version is as good as none.
#include "accel/choose.h"

#include "btl/base/format.h"

#include <charconv>
#include <cstdio>
#include <cstring>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace pomona {
namespace {

constexpr std::string_view first_line = "pomona-accel 1";
constexpr size_t file_bytes_max = 1 << 20;

std::string cpu_name() {
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

// The next piece up to `end`, which is removed with it.
std::string_view take(std::string_view& text, char end) {
    size_t at = text.find(end);
    std::string_view piece = text.substr(0, at);
    text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
    return piece;
}

template <class T> bool read_number(std::string_view text, T& value) {
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() && value >= T(0);
}

template <class T> bool read_name(std::string_view text, T& value, const char* (*name)(T)) {
    for (int i = 0; i < static_cast<int>(T::count_); ++i)
        if (text == name(static_cast<T>(i))) return value = static_cast<T>(i), true;
    return false;
}

bool read_point(std::string_view text, ChoicePoint& point) {
    if (!read_number(take(text, ':'), point.bytes)) return false;
    if (!read_name(take(text, ':'), point.best, module_name)) return false;
    for (Nanoseconds& ns : point.ns)
        if (!read_number(take(text, ','), ns)) return false;
    return text.empty();
}

bool read_row(std::string_view line, Choice& row) {
    if (!read_name(take(line, ' '), row.op, op_name)) return false;
    if (!read_name(take(line, ' '), row.type, type_name)) return false;
    while (!line.empty()) {
        std::string_view word = take(line, ' ');
        if (word.substr(0, 8) == "differs=") {
            Module module;
            if (!read_name(word.substr(8), module, module_name)) return false;
            row.differs[static_cast<size_t>(module)] = true;
            continue;
        }
        ChoicePoint point;
        if (!read_point(word, point)) return false;
        if (!row.points.empty() && row.points.back().bytes >= point.bytes) return false;
        row.points.push_back(point);
    }
    return true;
}

}  // namespace

std::string machine_key() {
    std::string key = cpu_name() + ", " + isa_name(best_isa());
    for (const Candidate& candidate : accel_candidates())
        key += std::string(", ") + module_name(candidate.module);
    return key;
}

std::string choices_text(const Choices& choices) {
    std::string text = std::string(first_line) + "\nmachine " + choices.machine + "\n";
    for (const Choice& row : choices.rows) {
        text += pomona::format("{} {}", op_name(row.op), type_name(row.type));
        for (const ChoicePoint& point : row.points) {
            text += pomona::format(" {}:{}:", point.bytes, module_name(point.best));
            for (size_t m = 0; m < point.ns.size(); ++m)
                text += pomona::format("{}{}", m ? "," : "", point.ns[m]);
        }
        for (size_t m = 0; m < row.differs.size(); ++m)
            if (row.differs[m])
                text += std::string(" differs=") + module_name(static_cast<Module>(m));
        text += "\n";
    }
    return text;
}

Result<Choices> parse_choices(std::string_view text) {
    constexpr Error malformed{Code::malformed, "The file of measured reductions does not parse"};
    if (take(text, '\n') != first_line) return malformed;
    std::string_view machine = take(text, '\n');
    if (machine.substr(0, 8) != "machine ") return malformed;
    Choices choices{std::string(machine.substr(8)), {}};
    while (!text.empty()) {
        Choice row{ReduceOp::sum, ElementType::f32, {}, {}};
        if (!read_row(take(text, '\n'), row)) return malformed;
        choices.rows.push_back(std::move(row));
    }
    return choices;
}

// Written beside and renamed: a reader sees the old file or the new one.
Status save_choices(const Choices& choices, const std::string& path) {
    for (size_t slash = path.find('/', 1); slash != path.npos; slash = path.find('/', slash + 1))
        mkdir(path.substr(0, slash).c_str(), 0755);  // what fails here fails in fopen
    std::string beside = pomona::format("{}.{}", path, getpid());
    std::FILE* file = std::fopen(beside.c_str(), "w");
    if (!file) return os_error(Code::io, "Cannot write the file of measured reductions");
    std::string text = choices_text(choices);
    bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    written &= std::fclose(file) == 0;
    if (written && std::rename(beside.c_str(), path.c_str()) == 0) return {};
    Error error = os_error(Code::io, "Cannot write the file of measured reductions");
    unlink(beside.c_str());
    return error;
}

Result<Choices> load_choices(const std::string& path) {
    std::FILE* file = std::fopen(path.c_str(), "r");
    if (!file) return os_error(Code::not_found, "No measured reductions: run pomona info --accel");
    std::string text(file_bytes_max, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), file));
    std::fclose(file);
    Choices choices = TRY(parse_choices(text));
    if (choices.machine == machine_key()) return choices;
    return Error{Code::not_found, "The reductions were measured on another machine"};
}

std::string accel_cache_path(const char* const* environment) {
    auto value = [&](std::string_view name) -> std::string {
        for (auto entry = environment; entry && *entry; ++entry) {
            std::string_view line = *entry;
            if (line.size() > name.size() && line.substr(0, name.size()) == name &&
                line[name.size()] == '=')
                return std::string(line.substr(name.size() + 1));
        }
        return "";
    };
    std::string cache = value("XDG_CACHE_HOME");
    if (!cache.empty()) return cache + "/pomona/accel";
    std::string home = value("HOME");
    if (home.empty()) return "";
#if defined(__APPLE__)
    return home + "/Library/Caches/pomona/accel";
#else
    return home + "/.cache/pomona/accel";
#endif
}

}  // namespace pomona
