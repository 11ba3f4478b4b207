// mpi/fortran/constants.cc: the variables of Fortran that are known by their address, and lengths
// of arrays that communicators tell.
#include "mpi/fortran/convert.h"

#if defined(__APPLE__)
#include <dlfcn.h>
#include <mach-o/dyld.h>
#include <map>
#endif

extern "C" {
using pomona::fortran::Integer;
// Compilers align COMMON blocks; a linker warns where the library's are aligned less.
alignas(64) Integer mpi_fortran_bottom_;
alignas(64) Integer mpi_fortran_in_place_;
alignas(64) Integer mpi_fortran_buffer_automatic_;
alignas(64) Integer mpi_fortran_status_ignore_[MPI_F_STATUS_SIZE];
alignas(64) Integer mpi_fortran_statuses_ignore_[MPI_F_STATUS_SIZE];
alignas(64) Integer mpi_f08_status_ignore_[MPI_F_STATUS_SIZE];
alignas(64) Integer mpi_f08_statuses_ignore_[MPI_F_STATUS_SIZE];
alignas(64) Integer mpi_fortran_errcodes_ignore_[1];
alignas(64) Integer mpi_fortran_unweighted_[1];
alignas(64) Integer mpi_fortran_weights_empty_[1];
alignas(64) char mpi_fortran_argv_null_[1];
alignas(64) char mpi_fortran_argvs_null_[1];
// What mpi.h declares for C programs that pass Fortran's statuses on.
POMONA_FORTRAN_EXPORT MPI_Fint* MPI_F_STATUS_IGNORE =
    reinterpret_cast<MPI_Fint*>(mpi_fortran_status_ignore_);
POMONA_FORTRAN_EXPORT MPI_Fint* MPI_F_STATUSES_IGNORE =
    reinterpret_cast<MPI_Fint*>(mpi_fortran_statuses_ignore_);
POMONA_FORTRAN_EXPORT MPI_F08_status* MPI_F08_STATUS_IGNORE =
    reinterpret_cast<MPI_F08_status*>(mpi_f08_status_ignore_);
POMONA_FORTRAN_EXPORT MPI_F08_status* MPI_F08_STATUSES_IGNORE =
    reinterpret_cast<MPI_F08_status*>(mpi_f08_statuses_ignore_);
}

namespace pomona::fortran {

#if defined(__APPLE__)
namespace {
// The blocks of each image that has been loaded: its own address of each name -> ours.
std::map<const void*, const void*> blocks_of_images() {
    const std::pair<const char*, const void*> names[] = {
        {"mpi_fortran_bottom_", &mpi_fortran_bottom_},
        {"mpi_fortran_in_place_", &mpi_fortran_in_place_},
        {"mpi_fortran_buffer_automatic_", &mpi_fortran_buffer_automatic_},
        {"mpi_fortran_status_ignore_", mpi_fortran_status_ignore_},
        {"mpi_fortran_statuses_ignore_", mpi_fortran_statuses_ignore_},
        {"mpi_fortran_errcodes_ignore_", mpi_fortran_errcodes_ignore_},
        {"mpi_fortran_unweighted_", mpi_fortran_unweighted_},
        {"mpi_fortran_weights_empty_", mpi_fortran_weights_empty_},
        {"mpi_fortran_argv_null_", mpi_fortran_argv_null_},
        {"mpi_fortran_argvs_null_", mpi_fortran_argvs_null_}};
    std::map<const void*, const void*> found;
    for (uint32_t i = 0; i < _dyld_image_count(); ++i) {
        const char* path = _dyld_get_image_name(i);
        // The program itself has no path that dlopen knows.
        void* image = i == 0 ? RTLD_MAIN_ONLY : dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
        if (!image) continue;
        for (const auto& [name, ours] : names)
            if (const void* theirs = dlsym(image, name)) found.emplace(theirs, ours);
        if (image != RTLD_MAIN_ONLY) dlclose(image);
    }
    return found;
}
}  // namespace

const void* our_own(const void* address) {
    static const auto blocks = blocks_of_images();
    auto found = blocks.find(address);
    return found == blocks.end() ? address : found->second;
}
#else
const void* our_own(const void* address) { return address; }
#endif

long peers(MPI_Comm comm) {
    int inter = 0, size = 0;
    if (PMPI_Comm_test_inter(comm, &inter) != MPI_SUCCESS) return 0;
    int error = inter ? PMPI_Comm_remote_size(comm, &size) : PMPI_Comm_size(comm, &size);
    return error == MPI_SUCCESS ? size : 0;
}

long members(MPI_Comm comm) {
    int size = 0;
    return PMPI_Comm_size(comm, &size) == MPI_SUCCESS ? size : 0;
}

bool at_root(MPI_Comm comm, Integer root) {
    int inter = 0, rank = MPI_PROC_NULL;
    if (PMPI_Comm_test_inter(comm, &inter) != MPI_SUCCESS) return false;
    if (inter) return root == MPI_ROOT;
    return PMPI_Comm_rank(comm, &rank) == MPI_SUCCESS && root == rank;
}

namespace {
long degree(MPI_Comm comm, bool in) {
    int topology = MPI_UNDEFINED, into = 0, out = 0, weighted = 0, rank = 0;
    if (PMPI_Topo_test(comm, &topology) != MPI_SUCCESS) return 0;
    switch (topology) {
    case MPI_CART: return 2L * dimensions(comm);
    case MPI_GRAPH:
        PMPI_Comm_rank(comm, &rank);
        PMPI_Graph_neighbors_count(comm, rank, &into);
        return into;
    case MPI_DIST_GRAPH:
        PMPI_Dist_graph_neighbors_count(comm, &into, &out, &weighted);
        return in ? into : out;
    default: return 0;
    }
}
}  // namespace

long indegree(MPI_Comm comm) { return degree(comm, true); }
long outdegree(MPI_Comm comm) { return degree(comm, false); }

}  // namespace pomona::fortran
