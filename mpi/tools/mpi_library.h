// mpi/tools/mpi_library.h: the MPI library beside this program, opened when it is needed.
// Idea: `pomona` is no MPI program; the roles of it that are ranks (`tune --rank`, `links --rank`)
// open the library and call it like any user.
#pragma once

#include "mpi/include/mpix.h"
#include "pmix/launch/ssh.h"

#include <cstdio>
#include <dlfcn.h>
#include <string>
#include <type_traits>

namespace pomona {

struct Mpi {
    decltype(&MPI_Init) Init = nullptr;
    decltype(&MPI_Finalize) Finalize = nullptr;
    decltype(&MPI_Comm_rank) Comm_rank = nullptr;
    decltype(&MPI_Comm_size) Comm_size = nullptr;
    decltype(&MPI_Send) Send = nullptr;
    decltype(&MPI_Recv) Recv = nullptr;
    decltype(&MPI_Isend) Isend = nullptr;
    decltype(&MPI_Irecv) Irecv = nullptr;
    decltype(&MPI_Waitall) Waitall = nullptr;
    decltype(&MPI_Test) Test = nullptr;
    decltype(&MPI_Iprobe) Iprobe = nullptr;
    decltype(&MPI_Comm_set_errhandler) Comm_set_errhandler = nullptr;
    decltype(&MPI_Reduce_local) Reduce_local = nullptr;
    decltype(&MPI_Allreduce) Allreduce = nullptr;
    decltype(&MPI_Bcast) Bcast = nullptr;
    decltype(&MPI_Reduce) Reduce = nullptr;
    decltype(&MPI_Allgather) Allgather = nullptr;
    decltype(&MPI_Alltoall) Alltoall = nullptr;
    decltype(&MPI_Reduce_scatter_block) Reduce_scatter_block = nullptr;
    decltype(&MPI_Comm_dup_with_info) Comm_dup_with_info = nullptr;
    decltype(&MPI_Comm_free) Comm_free = nullptr;
    decltype(&MPI_Info_create) Info_create = nullptr;
    decltype(&MPI_Info_set) Info_set = nullptr;
    decltype(&MPI_Info_free) Info_free = nullptr;
    decltype(&MPI_Barrier) Barrier = nullptr;
    decltype(&MPI_Get_processor_name) Get_processor_name = nullptr;
    decltype(&MPIX_Link_paths) Link_paths = nullptr;

    // `whose`: the command, for what is said when it fails.
    bool open(const char* whose) {
#if defined(__APPLE__)
        const char* file = "/../lib/libmpi_abi.1.dylib";
#else
        const char* file = "/../lib/libmpi_abi.so.1";
#endif
        std::string program = own_program();
        std::string path = program.substr(0, program.rfind('/')) + file;
        void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (!library) {
            std::fprintf(stderr, "%s: The MPI library cannot be opened: %s\n", whose, dlerror());
            return false;
        }
        bool all = true;
        auto find = [&](auto& function, const char* symbol) {
            function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
                dlsym(library, symbol));
            all = all && function;
        };
        find(Init, "MPI_Init");
        find(Finalize, "MPI_Finalize");
        find(Comm_rank, "MPI_Comm_rank");
        find(Comm_size, "MPI_Comm_size");
        find(Send, "MPI_Send");
        find(Recv, "MPI_Recv");
        find(Isend, "MPI_Isend");
        find(Irecv, "MPI_Irecv");
        find(Waitall, "MPI_Waitall");
        find(Test, "MPI_Test");
        find(Iprobe, "MPI_Iprobe");
        find(Comm_set_errhandler, "MPI_Comm_set_errhandler");
        find(Reduce_local, "MPI_Reduce_local");
        find(Allreduce, "MPI_Allreduce");
        find(Bcast, "MPI_Bcast");
        find(Reduce, "MPI_Reduce");
        find(Allgather, "MPI_Allgather");
        find(Alltoall, "MPI_Alltoall");
        find(Reduce_scatter_block, "MPI_Reduce_scatter_block");
        find(Comm_dup_with_info, "MPI_Comm_dup_with_info");
        find(Comm_free, "MPI_Comm_free");
        find(Info_create, "MPI_Info_create");
        find(Info_set, "MPI_Info_set");
        find(Info_free, "MPI_Info_free");
        find(Barrier, "MPI_Barrier");
        find(Get_processor_name, "MPI_Get_processor_name");
        find(Link_paths, "MPIX_Link_paths");
        if (!all) std::fprintf(stderr, "%s: %s lacks a function\n", whose, path.c_str());
        return all;
    }
};

}  // namespace pomona
