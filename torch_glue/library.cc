// library.cc: see library.h.
#include "torch_glue/library.h"

#include <dlfcn.h>

#include <vector>

namespace pomona::glue {
namespace {

#if defined(__APPLE__)
constexpr const char* kName = "@rpath/libmpi_abi.1.dylib";
constexpr const char* kTracer = "@rpath/libpomona_trace.dylib";
#else
constexpr const char* kName = "libmpi_abi.so.1";
constexpr const char* kTracer = "libpomona_trace.so";
#endif

Library functions;
void* opened = nullptr;

template <class Function> bool find(void* handle, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(handle, name));
    return function != nullptr;
}

std::string version_of(void* handle) {
    decltype(&::MPI_Get_library_version) function = nullptr;
    if (!find(handle, "MPI_Get_library_version", function)) return {};
    // Other ABIs have other lengths of it; none is known that is longer.
    std::vector<char> text(2 * MPI_MAX_LIBRARY_VERSION_STRING, '\0');
    int length = 0;
    if (function(text.data(), &length) != MPI_SUCCESS) return {};
    const std::string all = text.data();
    return all.substr(0, all.find_first_of("\n,"));
}

std::string file_of(void* address) {
    Dl_info info{};
    return dladdr(address, &info) != 0 && info.dli_fname ? info.dli_fname : "";
}

}  // namespace

const Library& mpi() { return functions; }

std::string open_library(const std::string& path) {
    if (opened) return {};
    // A second copy would be a second rank in this process.
    void* handle = dlopen(kName, RTLD_NOW | RTLD_NOLOAD | RTLD_LOCAL);
    if (handle && version_of(handle).rfind("Pomona", 0) != 0) {
        dlclose(handle);
        handle = nullptr;
    }
    if (!handle && path.empty()) return "the path of MPI's library is empty";
    if (!handle) handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) return std::string("MPI's library cannot be loaded: ") + dlerror();
    std::string missing;
    // Of mpirun --trace: its functions stand before the library's, where it is loaded.
    void* tracer = dlopen(kTracer, RTLD_NOW | RTLD_NOLOAD | RTLD_LOCAL);
#define POMONA_GLUE_FIND(name)                                                                     \
    if (!(tracer && find(tracer, "MPI_" #name, functions.name)) &&                                 \
        !find(handle, "MPI_" #name, functions.name))                                               \
        missing = "MPI_" #name;
    POMONA_GLUE_FUNCTIONS(POMONA_GLUE_FIND)
#undef POMONA_GLUE_FIND
#define POMONA_GLUE_FIND(name) find(handle, "MPIX_" #name, functions.X_##name);
    POMONA_GLUE_EXTENSIONS(POMONA_GLUE_FIND)
#undef POMONA_GLUE_FIND
#define POMONA_GLUE_FIND(name) find(handle, "MPI_" #name, functions.name);
    POMONA_GLUE_TOOLS(POMONA_GLUE_FIND)
#undef POMONA_GLUE_FIND
    if (!missing.empty())
        return path + " has no " + missing + ": it is no library of the MPI-5.0 ABI";
    opened = handle;
    return {};
}

std::string other_library() {
    void* found = dlsym(RTLD_DEFAULT, "MPI_Get_library_version");
    if (!found || found == reinterpret_cast<void*>(functions.Get_library_version)) return {};
    return version_of(RTLD_DEFAULT) + " (" + file_of(found) + ")";
}

}  // namespace pomona::glue
