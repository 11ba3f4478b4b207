// pmix/launch/child_environment.cc: see child_environment.h.
#include "pmix/launch/child_environment.h"

#include "btl/base/format.h"
#include "pmix/launch/agent.h"
#include "pmix/launch/bait.h"
#include "pmix/launch/ssh.h"

#include <string_view>

#include <sys/stat.h>
#include <unistd.h>

namespace pomona {

namespace {

#if defined(__APPLE__)
constexpr const char* kLibraries[] = {"libmpi_abi.1.dylib", "libmpi_abi_fortran.1.dylib"};
constexpr const char* kTrace = "libpomona_trace.dylib";
constexpr const char* kSearchPath = "DYLD_FALLBACK_LIBRARY_PATH";
constexpr const char* kPreload = "DYLD_INSERT_LIBRARIES";
// What is searched where the variable is not set (dyld's manual page).
constexpr const char* kSearchDefault = "/usr/local/lib:/usr/lib";
#else
constexpr const char* kLibraries[] = {"libmpi_abi.so.1", "libmpi_abi_fortran.so.1"};
constexpr const char* kTrace = "libpomona_trace.so";
constexpr const char* kSearchPath = "LD_LIBRARY_PATH";
constexpr const char* kPreload = "LD_PRELOAD";
constexpr const char* kSearchDefault = "";
#endif

std::string value_of(const std::vector<std::string>& environment, std::string_view name) {
    for (const std::string& entry : environment)
        if (entry.size() > name.size() && entry[name.size()] == '=' && entry.starts_with(name))
            return entry.substr(name.size() + 1);
    return {};
}

bool exists(const std::string& path) { return access(path.c_str(), R_OK) == 0; }

// "" where it cannot be made: programs with an rpath need nothing of it.
std::string folder_of_libraries(const std::string& job_directory, const std::string& libraries) {
    std::string folder = job_directory + "/lib";
    if (!exists(libraries + kLibraries[0]) || mkdir(folder.c_str(), 0700) != 0) return {};
    for (const char* name : kLibraries)
        if (exists(libraries + name) &&
            symlink((libraries + name).c_str(), format("{}/{}", folder, name).c_str()) != 0)
            return {};
    return folder;
}

}  // namespace

OwnFiles find_own_files(const std::string& job_directory, bool watched,
                        const std::vector<std::string>& environment,
                        const std::function<void(std::string)>& remark) {
    OwnFiles out;
    std::string own = own_program();
    std::string prefix = own.substr(0, own.rfind('/')) + "/..";
    std::string libraries = prefix + "/lib/";
    if (value_of(environment, "POMONA_JOB_LIBRARY_PATH") != "off") {
        out.libraries = folder_of_libraries(job_directory, libraries);
        if (watched) out.bait = make_bait(job_directory);
    }
    if (!value_of(environment, "POMONA_TRACE").empty()) {
        out.trace = libraries + kTrace;
        if (!exists(out.trace)) {
            remark(format("nothing is traced: {} is missing", out.trace));
            out.trace.clear();
        }
    }
    std::string shared = prefix + "/share/pomona/";
    if (exists(shared + "valgrind.supp")) out.valgrind = shared + "valgrind.supp";
    if (exists(shared + "tsan.supp")) out.tsan = shared + "tsan.supp";
    return out;
}

void add_own_files(const OwnFiles& files, std::vector<std::string>& environment) {
    std::string path = value_of(environment, kSearchPath);
    if (path.empty()) path = kSearchDefault;
    if (!files.libraries.empty()) path += (path.empty() ? "" : ":") + files.libraries;
    if (!files.bait.empty()) path = files.bait + (path.empty() ? "" : ":") + path;
    if (!files.libraries.empty() || !files.bait.empty())
        set_variable(environment, kSearchPath, path);
    if (!files.trace.empty()) {
        std::string others = value_of(environment, kPreload);
        // It calls the wrappers of tools that stand behind it.
        set_variable(environment, kPreload,
                     others.empty() ? files.trace : files.trace + ":" + others);
    }
    if (!files.valgrind.empty() && !has_variable(environment, "VALGRIND_OPTS"))
        set_variable(environment, "VALGRIND_OPTS", "--suppressions=" + files.valgrind);
    if (!files.tsan.empty() && !has_variable(environment, "TSAN_OPTIONS"))
        set_variable(environment, "TSAN_OPTIONS",
                     format("suppressions={}:print_suppressions=0", files.tsan));
}

}  // namespace pomona
