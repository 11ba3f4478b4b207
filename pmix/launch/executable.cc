// pmix/launch/executable.cc: see executable.h.
#include "pmix/launch/executable.h"

#include "btl/base/format.h"
#include "btl/base/messages.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <string_view>

#include <sys/utsname.h>
#include <unistd.h>

namespace pomona {

namespace {

std::string beginning_of(const std::string& path) {
    std::array<char, 512> bytes{};
    std::FILE* file = std::fopen(path.c_str(), "rb");
    if (!file) return {};
    size_t size = std::fread(bytes.data(), 1, bytes.size(), file);
    std::fclose(file);
    return {bytes.data(), size};
}

// As shells tell programs from scripts.
bool is_text(const std::string& beginning) {
    return beginning.substr(0, beginning.find('\n')).find('\0') == beginning.npos;
}

// What an executable file of some system begins with; "" of others.
std::string kind_of(std::string_view beginning) {
    using namespace std::string_view_literals;
    if (beginning.starts_with("\x7f"
                              "ELF"sv) &&
        beginning.size() > 19) {
        bool little = beginning[5] != 2;
        auto low = static_cast<unsigned char>(beginning[little ? 18 : 19]);
        const char* processor = low == 62    ? " for x86-64"
                                : low == 183 ? " for aarch64"
                                : low == 243 ? " for RISC-V"
                                : low == 3   ? " for x86, 32 bits"
                                             : "";
        return format("of Linux or BSD (ELF){}", processor);
    }
    for (std::string_view magic :
         {"\xcf\xfa\xed\xfe"sv, "\xce\xfa\xed\xfe"sv, "\xca\xfe\xba\xbe"sv})
        if (beginning.starts_with(magic)) return "of macOS (Mach-O)";
    return beginning.starts_with("MZ") ? "of Windows" : "";
}

std::string this_system() {
    utsname system{};
    uname(&system);
    return format("{} {}", system.sysname, system.machine);
}

}  // namespace

bool is_plain_script(const std::string& path) {
    std::string beginning = beginning_of(path);
    return !beginning.empty() && is_text(beginning) && kind_of(beginning).empty();
}

std::string why_not_executed(const std::string& path, int error) {
    std::string beginning = beginning_of(path);
    if (error == ENOEXEC && access(path.c_str(), R_OK) == 0) {
        if (beginning.empty()) return "the file is empty";
        std::string kind = kind_of(beginning);
        return kind.empty() ? format("it is no program, and this is {}", this_system())
                            : format("it is a program {}, and this is {}", kind, this_system());
    }
    if (error == EAGAIN) return format(messages::user_processes, os_text(error));
    if (error != ENOENT && error != EACCES) return os_text(error);
    if (beginning.starts_with("#!")) {
        // The file is there, so it is what its first line names.
        std::string line = beginning.substr(2, beginning.find('\n') - 2);
        bool windows = line.ends_with('\r');
        if (windows) line.pop_back();
        line.erase(0, line.find_first_not_of(" \t"));
        std::string interpreter = line.substr(0, line.find_first_of(" \t"));
        if (windows) return messages::windows_lines;
        return format("its first line names {}: {}", interpreter, os_text(error));
    }
    if (error == ENOENT && !kind_of(beginning).empty())
        return "its loader is not there: it was built for another system than this";
    return os_text(error);
}

}  // namespace pomona
