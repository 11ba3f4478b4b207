// library.h: MPI's functions, taken from our own library and from no other.
// Idea: a process may hold a second MPI (mpi4py's wheel brings Open MPI or MPICH), whose functions
// have the same names, and the system's linker takes whichever was loaded first. So the extension
// is not linked to MPI: it opens the one library that belongs to it and asks that for each
// function.
#pragma once

#include <string>

#include "mpi/include/mpi.h"
#include "mpi/include/mpix.h"

namespace pomona::glue {

// Every function that the glue calls.
#define POMONA_GLUE_FUNCTIONS(F)                                                                   \
    F(Bcast)                                                                                       \
    F(Cancel)                                                                                      \
    F(Comm_create_group)                                                                           \
    F(Comm_dup)                                                                                    \
    F(Comm_free)                                                                                   \
    F(Comm_get_attr)                                                                               \
    F(Comm_group)                                                                                  \
    F(Comm_rank)                                                                                   \
    F(Comm_set_errhandler)                                                                         \
    F(Comm_set_info)                                                                               \
    F(Comm_size)                                                                                   \
    F(Comm_split)                                                                                  \
    F(Comm_split_type)                                                                             \
    F(Error_class)                                                                                 \
    F(Error_string)                                                                                \
    F(Finalize)                                                                                    \
    F(Finalized)                                                                                   \
    F(Get_library_version)                                                                         \
    F(Group_free)                                                                                  \
    F(Group_incl)                                                                                  \
    F(Group_translate_ranks)                                                                       \
    F(Iallgather_c)                                                                                \
    F(Iallgatherv_c)                                                                               \
    F(Iallreduce_c)                                                                                \
    F(Ialltoallv_c)                                                                                \
    F(Ibarrier)                                                                                    \
    F(Ibcast_c)                                                                                    \
    F(Igatherv_c)                                                                                  \
    F(Improbe)                                                                                     \
    F(Info_create)                                                                                 \
    F(Info_free)                                                                                   \
    F(Info_set)                                                                                    \
    F(Init_thread)                                                                                 \
    F(Initialized)                                                                                 \
    F(Irecv_c)                                                                                     \
    F(Ireduce_c)                                                                                   \
    F(Ireduce_scatter_block_c)                                                                     \
    F(Ireduce_scatter_c)                                                                           \
    F(Iscatterv_c)                                                                                 \
    F(Isend)                                                                                       \
    F(Isend_c)                                                                                     \
    F(Mrecv)                                                                                       \
    F(Op_create_c)                                                                                 \
    F(Query_thread)                                                                                \
    F(Test)                                                                                        \
    F(Test_cancelled)                                                                              \
    F(Type_commit)                                                                                 \
    F(Type_contiguous)                                                                             \
    F(Wait)

// Pomona's own (mpix.h): null in other libraries of the standard ABI.
#define POMONA_GLUE_EXTENSIONS(F)                                                                  \
    F(Comm_ack_failed)                                                                             \
    F(Comm_get_failed)                                                                             \
    F(Comm_ishrink)                                                                                \
    F(Comm_revoke)                                                                                 \
    F(Init_timeout)                                                                                \
    F(Link_paths)                                                                                  \
    F(Request_on_completion)                                                                       \
    F(Type_bfloat16)                                                                               \
    F(Type_float16)                                                                                \
    F(Wireup_set)

// Of MPI's tool interface, for counters: null in a library without it.
#define POMONA_GLUE_TOOLS(F)                                                                       \
    F(T_init_thread)                                                                               \
    F(T_pvar_get_index)                                                                            \
    F(T_pvar_handle_alloc)                                                                         \
    F(T_pvar_read)                                                                                 \
    F(T_pvar_session_create)

struct Library {
#define POMONA_GLUE_MEMBER(name) decltype(&::MPI_##name) name = nullptr;
    POMONA_GLUE_FUNCTIONS(POMONA_GLUE_MEMBER)
#undef POMONA_GLUE_MEMBER
#define POMONA_GLUE_MEMBER(name) decltype(&::MPIX_##name) X_##name = nullptr;
    POMONA_GLUE_EXTENSIONS(POMONA_GLUE_MEMBER)
#undef POMONA_GLUE_MEMBER
#define POMONA_GLUE_MEMBER(name) decltype(&::MPI_##name) name = nullptr;
    POMONA_GLUE_TOOLS(POMONA_GLUE_MEMBER)
#undef POMONA_GLUE_MEMBER
};

// Opens the library at `path`, or the Pomona that this process has loaded already: a process is one
// rank, once. An empty string, or what is wrong. To be called before anything else of the glue.
std::string open_library(const std::string& path);

const Library& mpi();  // the library's functions

// Another MPI whose functions this process would find by name: what it calls itself, and its file.
// Empty where there is none.
std::string other_library();

}  // namespace pomona::glue
