// pmix/launch/host.cc: what a host says of itself; see host.h.
#include "pmix/launch/host.h"

#include "btl/base/format.h"
#include "pmix/launch/cores.h"
#include "pmix/launch/options_table.h"
#include "pmix/wireup/origin.h"

#include <fstream>

#include <sys/stat.h>
#include <sys/utsname.h>
#if defined(__APPLE__)
#include <sys/sysctl.h>
#endif

#if !defined(POMONA_VERSION)
#define POMONA_VERSION "unknown"
#endif

namespace pomona {

// Of the running system and, where there are containers, of this one: its network and its names.
static std::string identity_here() {
#if defined(__APPLE__)
    char text[64] = "";
    size_t size = sizeof text - 1;
    sysctlbyname("kern.bootsessionuuid", text, &size, nullptr, 0);
    return text;
#else
    std::string out;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> out;
    for (const char* path : {"/proc/self/ns/net", "/proc/self/ns/uts"}) {
        struct stat status {};
        if (stat(path, &status) == 0) out += format("-{}", status.st_ino);
    }
    return out;
#endif
}

std::string facts_version() { return POMONA_VERSION; }

HostFacts facts_here(const char* const* environment) {
    HostFacts out;
    out.version = facts_version();
    utsname system{};
    if (uname(&system) == 0) out.system = format("{} {}", system.sysname, system.machine);
    out.name = host_name();
    out.identity = identity_here();
    out.processors = granted_processors();
    out.cores = granted_cores();
    out.fast = performance_processors();
    // "client port server port": both as the other side reached them.
    auto connection = variable(environment, "SSH_CONNECTION");
    std::vector<std::string> words = words_of(connection.value_or(""));
    if (words.size() == 4) {
        out.caller_address = words[0];
        out.own_address = words[2];
    }
    return out;
}

}  // namespace pomona
