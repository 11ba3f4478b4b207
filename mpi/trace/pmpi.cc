// mpi/trace/pmpi.cc: see pmpi.h.
#include "mpi/trace/pmpi.h"

#include "btl/base/messages.h"

#include <cstdio>
#include <cstdlib>

#include <dlfcn.h>

namespace pomona::trace {

namespace {

#if defined(__APPLE__)
constexpr const char* kLibrary = "@rpath/libmpi_abi.1.dylib";
#else
constexpr const char* kLibrary = "libmpi_abi.so.1";
#endif

// Python's modules and torch's backend load their MPI library where the search for names does not
// come.
void* look_for(const char* name) {
    if (void* next = dlsym(RTLD_NEXT, name)) return next;
    void* library = dlopen(kLibrary, RTLD_LAZY | RTLD_NOLOAD);
    return library ? dlsym(library, name) : nullptr;
}

}  // namespace

void* find_function(const char* name) {
    if (void* found = look_for(name)) return found;
    std::fprintf(stderr, "pomona trace: no MPI library in this process has the function %s; %s\n",
                 name, messages::trace_unlike);
    std::abort();
}

void* find_next(const char* mpi_name, const char* pmpi_name) {
    if (void* next = dlsym(RTLD_NEXT, mpi_name)) return next;
    return find_function(pmpi_name);
}

bool has_standard_abi() { return look_for("PMPI_Abi_get_version") != nullptr; }

}  // namespace pomona::trace
