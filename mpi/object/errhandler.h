// mpi/object/errhandler.h: what happens to an error: end the job, end the process, return, or call.
#pragma once

#include "mpi/include/mpi.h"
#include "mpi/object/object.h"

namespace pomona {

class Errhandler final : public Object {
public:
    enum class Action { fatal, abort, give_back, user_comm, user_file, user_win, user_session };

    explicit Errhandler(Action action) : Object(Kind::errhandler), action(action) {}

    const Action action;
    union {  // the one that `action` names
        MPI_Comm_errhandler_function* comm_function = nullptr;
        MPI_File_errhandler_function* file_function;
        MPI_Win_errhandler_function* win_function;
        MPI_Session_errhandler_function* session_function;
    };
};

}  // namespace pomona
