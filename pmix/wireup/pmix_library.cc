// pmix/wireup/pmix_library.cc: see pmix_library.h.
#include "pmix/wireup/pmix_library.h"

#include "btl/base/format.h"
#include "btl/base/messages.h"
#include "pmix/wireup/pmix_probe.h"

#include <mutex>

#include <dlfcn.h>

#if !defined(POMONA_PMIX_PATH)
#define POMONA_PMIX_PATH ""  // where the build found the library; set by CMake
#endif

namespace pomona {

namespace {
void* open_any(std::string& why) {
#if defined(__APPLE__)
    const char* names[] = {"libpmix.2.dylib", POMONA_PMIX_PATH,
                           "/opt/homebrew/lib/libpmix.2.dylib"};
#else
    const char* names[] = {"libpmix.so.2", POMONA_PMIX_PATH};
#endif
    // RTLD_GLOBAL: OpenPMIx's plug-ins refer to its symbols without linking it.
    for (const char* name : names) {
        if (!*name) continue;
        if (void* handle = dlopen(name, RTLD_NOW | RTLD_GLOBAL)) return handle;
        why += format("{}{}", why.empty() ? "" : "; ", dlerror());
    }
    return nullptr;
}
}  // namespace

Result<const PmixLibrary*> PmixLibrary::open(std::string& why) {
    static std::mutex mutex;
    static PmixLibrary library;
    static bool opened = false;
    std::lock_guard lock(mutex);
    if (opened) return &library;
    void* handle = open_any(why);
    if (!handle) return Error{Code::not_found, "OpenPMIx (libpmix.so.2) cannot be opened"};
    const char* missing = nullptr;
#define POMONA_PMIX_LOAD(name)                                                                     \
    library.name = reinterpret_cast<decltype(&::name)>(dlsym(handle, #name));                      \
    if (!library.name) missing = #name;
    POMONA_PMIX_FUNCTIONS(POMONA_PMIX_LOAD)
#undef POMONA_PMIX_LOAD
    if (missing) {
        why = format("the library lacks {}", missing);
        return Error{Code::unsupported, messages::pmix_old};
    }
    opened = true;
    return &library;
}

std::string try_pmix() {
    std::string why;
    auto library = PmixLibrary::open(why);
    return library ? "" : format("{} ({})", library.error().text(), why);
}

}  // namespace pomona
