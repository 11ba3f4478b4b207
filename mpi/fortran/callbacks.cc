// mpi/fortran/callbacks.cc: C functions that call the user's Fortran functions.
#include "mpi/fortran/callbacks.h"

#include <array>
#include <atomic>
#include <mutex>
#include <type_traits>
#include <unordered_set>
#include <utility>

namespace pomona::fortran {

namespace {

template <class Function> Function as(Procedure procedure) {
    return reinterpret_cast<Function>(procedure);
}

// ---- kFunctions C functions, the i-th of which calls the i-th Fortran function

template <class Kind> class Functions {
public:
    using CFunction = typename Kind::CFunction;
    static CFunction* of(Procedure function) {
        static std::mutex mutex;
        std::lock_guard guard(mutex);
        for (size_t i = 0; i < kFunctions; ++i) {
            Procedure known = places[i].load(std::memory_order_relaxed);  // under the mutex
            if (known == function) return c_functions[i];
            if (known) continue;
            places[i].store(function, std::memory_order_release);  // read by call<i>
            return c_functions[i];
        }
        return nullptr;
    }

private:
    template <int i> static Procedure at() {
        return places[i].load(std::memory_order_acquire);  // written by of()
    }
    template <size_t... i> static auto all(std::index_sequence<i...>) {
        return std::array<CFunction*, kFunctions>{&Kind::template call<&Functions::at<i>>...};
    }
    static inline std::array<std::atomic<Procedure>, kFunctions> places;
    static inline const std::array<CFunction*, kFunctions> c_functions =
        all(std::make_index_sequence<kFunctions>());
};

struct Plain {
    using CFunction = MPI_User_function;
    template <Procedure (*function)()>
    static void call(void* in, void* inout, int* length, MPI_Datatype* datatype) {
        Integer count = *length, type = to_fortran(*datatype);
        as<void (*)(void*, void*, Integer*, Integer*)>(function())(in, inout, &count, &type);
    }
};

struct Large {
    using CFunction = MPI_User_function_c;
    template <Procedure (*function)()>
    static void call(void* in, void* inout, MPI_Count* length, MPI_Datatype* datatype) {
        MPI_Count count = *length;
        Integer type = to_fortran(*datatype);
        as<void (*)(void*, void*, MPI_Count*, Integer*)>(function())(in, inout, &count, &type);
    }
};

template <class Handle, class Function> struct Handler {
    using CFunction = Function;
    template <Procedure (*function)()> static void call(Handle* object, int* code, ...) {
        Integer number = to_fortran(*object), error = *code;
        as<void (*)(Integer*, Integer*)>(function())(&number, &error);
        *code = narrow(error);
    }
};

}  // namespace

MPI_User_function* user_function(Procedure function) { return Functions<Plain>::of(function); }
MPI_User_function_c* user_function_large(Procedure function) {
    return Functions<Large>::of(function);
}
MPI_Comm_errhandler_function* comm_handler(Procedure function) {
    return Functions<Handler<MPI_Comm, MPI_Comm_errhandler_function>>::of(function);
}
MPI_Win_errhandler_function* win_handler(Procedure function) {
    return Functions<Handler<MPI_Win, MPI_Win_errhandler_function>>::of(function);
}
MPI_File_errhandler_function* file_handler(Procedure function) {
    return Functions<Handler<MPI_File, MPI_File_errhandler_function>>::of(function);
}
MPI_Session_errhandler_function* session_handler(Procedure function) {
    return Functions<Handler<MPI_Session, MPI_Session_errhandler_function>>::of(function);
}

// ---- attributes

namespace {
struct ValueTable {
    std::mutex mutex;
    std::unordered_set<void*> values;
};
ValueTable& value_table() {
    static auto* made = new ValueTable;  // used when the attributes of MPI_COMM_SELF are deleted
    return *made;
}
bool is_ours(void* value) {
    std::lock_guard guard(value_table().mutex);
    return value_table().values.count(value) != 0;
}
void forget_value(void* value) {
    std::lock_guard guard(value_table().mutex);
    if (value_table().values.erase(value)) delete static_cast<MPI_Aint*>(value);
}
MPI_Aint plain_value(void* value) {
    return is_ours(value) ? *static_cast<MPI_Aint*>(value) : reinterpret_cast<MPI_Aint>(value);
}
}  // namespace

void* new_value(MPI_Aint value) {
    auto* made = new MPI_Aint(value);
    std::lock_guard guard(value_table().mutex);
    value_table().values.insert(made);
    return made;
}

MPI_Aint attribute_value(int keyval, void* value) {
    switch (keyval) {
    case MPI_TAG_UB:
    case MPI_IO:
    case MPI_HOST:
    case MPI_WTIME_IS_GLOBAL:
    case MPI_APPNUM:
    case MPI_LASTUSEDCODE:
    case MPI_UNIVERSE_SIZE:
    case MPI_WIN_DISP_UNIT:
    case MPI_WIN_CREATE_FLAVOR:
    case MPI_WIN_MODEL: return *static_cast<int*>(value);
    case MPI_WIN_SIZE: return *static_cast<MPI_Aint*>(value);
    case MPI_WIN_BASE: return reinterpret_cast<MPI_Aint>(value);
    default: return plain_value(value);
    }
}

template <class Handle> int KeyvalFunctions<Handle>::copy(Handle object, int keyval, void* extra,
                                                          void* in, void* out, int* flag) {
    auto& state = *static_cast<KeyvalState*>(extra);
    Integer number = to_fortran(object), key = keyval, error = MPI_SUCCESS;
    Logical copied = to_logical(0);
    MPI_Aint from = plain_value(in), to = 0;
    if (state.values == Values::address) {
        as<void (*)(Integer*, Integer*, MPI_Aint*, MPI_Aint*, MPI_Aint*, Logical*, Integer*)>(
            state.copy)(&number, &key, &state.extra, &from, &to, &copied, &error);
    } else {
        Integer plain_extra = static_cast<Integer>(state.extra), plain_to = 0;
        auto plain_from = static_cast<Integer>(from);
        as<void (*)(Integer*, Integer*, Integer*, Integer*, Integer*, Logical*, Integer*)>(
            state.copy)(&number, &key, &plain_extra, &plain_from, &plain_to, &copied, &error);
        to = plain_to;
    }
    if (error != MPI_SUCCESS) return error;
    *flag = to_flag(copied);
    // A value that C has set stays an address.
    if (*flag)
        *static_cast<void**>(out) = is_ours(in) ? new_value(to) : reinterpret_cast<void*>(to);
    return MPI_SUCCESS;
}

template <class Handle>
int KeyvalFunctions<Handle>::remove(Handle object, int keyval, void* value, void* extra) {
    auto& state = *static_cast<KeyvalState*>(extra);
    Integer number = to_fortran(object), key = keyval, error = MPI_SUCCESS;
    MPI_Aint old = plain_value(value);
    if (state.values == Values::address) {
        as<void (*)(Integer*, Integer*, MPI_Aint*, MPI_Aint*, Integer*)>(state.remove)(
            &number, &key, &old, &state.extra, &error);
    } else {
        auto plain_old = static_cast<Integer>(old), plain_extra = static_cast<Integer>(state.extra);
        as<void (*)(Integer*, Integer*, Integer*, Integer*, Integer*)>(state.remove)(
            &number, &key, &plain_old, &plain_extra, &error);
    }
    if (error == MPI_SUCCESS) forget_value(value);
    return error;
}

template struct KeyvalFunctions<MPI_Comm>;
template struct KeyvalFunctions<MPI_Datatype>;
template struct KeyvalFunctions<MPI_Win>;

// ---- generalized requests

int grequest_query(void* extra, MPI_Status* status) {
    auto& state = *static_cast<GrequestState*>(extra);
    Integer error = MPI_SUCCESS, fields[MPI_F_STATUS_SIZE];
    int numbers[MPI_F_STATUS_SIZE];
    std::memcpy(numbers, status, sizeof *status);
    std::copy(numbers, numbers + MPI_F_STATUS_SIZE, fields);
    as<void (*)(MPI_Aint*, Integer*, Integer*)>(state.query)(state.extra, fields, &error);
    std::copy(fields, fields + MPI_F_STATUS_SIZE, numbers);
    std::memcpy(status, numbers, sizeof *status);
    return narrow(error);
}
int grequest_free(void* extra) {
    std::unique_ptr<GrequestState> state(static_cast<GrequestState*>(extra));
    Integer error = MPI_SUCCESS;
    as<void (*)(MPI_Aint*, Integer*)>(state->free)(state->extra, &error);
    return error;
}
int grequest_cancel(void* extra, int complete) {
    auto& state = *static_cast<GrequestState*>(extra);
    Integer error = MPI_SUCCESS;
    Logical is_complete = to_logical(complete);
    as<void (*)(MPI_Aint*, Logical*, Integer*)>(state.cancel)(state.extra, &is_complete, &error);
    return error;
}

// ---- data representations

namespace {
template <class Count> int convert(Procedure function, MPI_Aint* extra, void* userbuf,
                                   MPI_Datatype datatype, Count count, void* filebuf,
                                   MPI_Offset position) {
    using Number = std::conditional_t<std::is_same_v<Count, int>, Integer, Count>;
    Integer type = to_fortran(datatype), error = MPI_SUCCESS;
    Number number = count;
    as<void (*)(void*, Integer*, Number*, void*, MPI_Offset*, MPI_Aint*, Integer*)>(function)(
        userbuf, &type, &number, filebuf, &position, extra, &error);
    return error;
}
}  // namespace

int datarep_read(void* userbuf, MPI_Datatype datatype, int count, void* filebuf,
                 MPI_Offset position, void* extra) {
    auto& state = *static_cast<DatarepState*>(extra);
    return convert(state.read, &state.extra, userbuf, datatype, count, filebuf, position);
}
int datarep_write(void* userbuf, MPI_Datatype datatype, int count, void* filebuf,
                  MPI_Offset position, void* extra) {
    auto& state = *static_cast<DatarepState*>(extra);
    return convert(state.write, &state.extra, userbuf, datatype, count, filebuf, position);
}
int datarep_read_large(void* userbuf, MPI_Datatype datatype, MPI_Count count, void* filebuf,
                       MPI_Offset position, void* extra) {
    auto& state = *static_cast<DatarepState*>(extra);
    return convert(state.read, &state.extra, userbuf, datatype, count, filebuf, position);
}
int datarep_write_large(void* userbuf, MPI_Datatype datatype, MPI_Count count, void* filebuf,
                        MPI_Offset position, void* extra) {
    auto& state = *static_cast<DatarepState*>(extra);
    return convert(state.write, &state.extra, userbuf, datatype, count, filebuf, position);
}
int datarep_extent(MPI_Datatype datatype, MPI_Aint* extent, void* extra) {
    auto& state = *static_cast<DatarepState*>(extra);
    Integer type = to_fortran(datatype), error = MPI_SUCCESS;
    as<void (*)(Integer*, MPI_Aint*, MPI_Aint*, Integer*)>(state.extent)(&type, extent,
                                                                         &state.extra, &error);
    return error;
}

}  // namespace pomona::fortran

// ---- predefined functions, by the names of Fortran

using pomona::fortran::Integer;
using pomona::fortran::Logical;

#define PREDEFINED extern "C" POMONA_FORTRAN_EXPORT void
#define NULL_COPY(name, Value)                                                                     \
    PREDEFINED name(Integer*, Integer*, Value*, Value*, Value*, Logical* flag, Integer* ierror) {  \
        *flag = pomona::fortran::to_logical(0);                                                    \
        *ierror = MPI_SUCCESS;                                                                     \
    }
#define DUPLICATE(name, Value)                                                                     \
    PREDEFINED name(Integer*, Integer*, Value*, Value* in, Value* out, Logical* flag,              \
                    Integer* ierror) {                                                             \
        *out = *in;                                                                                \
        *flag = pomona::fortran::to_logical(1);                                                    \
        *ierror = MPI_SUCCESS;                                                                     \
    }
#define NULL_DELETE(name, Value)                                                                   \
    PREDEFINED name(Integer*, Integer*, Value*, Value*, Integer* ierror) { *ierror = MPI_SUCCESS; }

NULL_COPY(mpi_null_copy_fn_, Integer)
NULL_COPY(mpi_comm_null_copy_fn_, MPI_Aint)
NULL_COPY(mpi_type_null_copy_fn_, MPI_Aint)
NULL_COPY(mpi_win_null_copy_fn_, MPI_Aint)
DUPLICATE(mpi_dup_fn_, Integer)
DUPLICATE(mpi_comm_dup_fn_, MPI_Aint)
DUPLICATE(mpi_type_dup_fn_, MPI_Aint)
DUPLICATE(mpi_win_dup_fn_, MPI_Aint)
NULL_DELETE(mpi_null_delete_fn_, Integer)
NULL_DELETE(mpi_comm_null_delete_fn_, MPI_Aint)
NULL_DELETE(mpi_type_null_delete_fn_, MPI_Aint)
NULL_DELETE(mpi_win_null_delete_fn_, MPI_Aint)
// Never called: MPI_Register_datarep knows them by their address.
PREDEFINED mpi_conversion_fn_null_() {}
PREDEFINED mpi_conversion_fn_null_c_() { __asm__ volatile(""); }
