// mpi/fortran/callbacks.h: functions of the user, written in Fortran, that MPI calls.
// Where MPI passes an extra state on, it is our record of the function and its own state.
// Operations and error handlers have none: each such function gets one of a fixed number of C
// functions.
#pragma once

#include "mpi/fortran/convert.h"

namespace pomona::fortran {

// How many different Fortran functions a program may make operations of (and error handlers of each
// kind); the same function counts once.
constexpr int kFunctions = 256;

// Null where kFunctions are in use.
MPI_User_function* user_function(Procedure function);
MPI_User_function_c* user_function_large(Procedure function);
MPI_Comm_errhandler_function* comm_handler(Procedure function);
MPI_Win_errhandler_function* win_handler(Procedure function);
MPI_File_errhandler_function* file_handler(Procedure function);
MPI_Session_errhandler_function* session_handler(Procedure function);

// ---- attributes

// Which INTEGER the functions take: MPI-1's are of the default kind.
enum class Values { address, plain };

struct KeyvalState {
    Procedure copy;
    Procedure remove;
    MPI_Aint extra;
    Values values;
};
// For the C functions that make keyvals; the state lives as long as the program.
template <class Handle> struct KeyvalFunctions {
    static int copy(Handle object, int keyval, void* extra, void* in, void* out, int* flag);
    static int remove(Handle object, int keyval, void* value, void* extra);
};

// An attribute set in Fortran is an integer in memory of ours, whose address C gets.
void* new_value(MPI_Aint value);
// What Fortran gets for what C has: the integer, or an address as an integer.
MPI_Aint attribute_value(int keyval, void* value);

// ---- generalized requests, data representations

struct GrequestState {
    Procedure query, free, cancel;
    MPI_Aint* extra;  // the program's variable, or `own`
    MPI_Aint own;
};
int grequest_query(void* extra, MPI_Status* status);
int grequest_free(void* extra);
int grequest_cancel(void* extra, int complete);

struct DatarepState {
    Procedure read, write, extent;
    MPI_Aint extra;
};
int datarep_read(void* userbuf, MPI_Datatype datatype, int count, void* filebuf,
                 MPI_Offset position, void* extra);
int datarep_write(void* userbuf, MPI_Datatype datatype, int count, void* filebuf,
                  MPI_Offset position, void* extra);
int datarep_read_large(void* userbuf, MPI_Datatype datatype, MPI_Count count, void* filebuf,
                       MPI_Offset position, void* extra);
int datarep_write_large(void* userbuf, MPI_Datatype datatype, MPI_Count count, void* filebuf,
                        MPI_Offset position, void* extra);
int datarep_extent(MPI_Datatype datatype, MPI_Aint* extent, void* extra);

}  // namespace pomona::fortran

// Predefined functions, which programs pass and may call.
extern "C" POMONA_FORTRAN_EXPORT void mpi_conversion_fn_null_();
extern "C" POMONA_FORTRAN_EXPORT void mpi_conversion_fn_null_c_();
