// mpi/fortran/written.h: the functions whose Fortran form differs from C's by more than the kinds
// of its arguments: completion, callbacks, attributes, strings with lengths, spawning. Included
// twice, by the generated sources of the MPI_ and of the PMPI_ names: POMONA_C(Send) is the C
// function to call. Each returns the error code.
#pragma once

#include "mpi/fortran/callbacks.h"
#include "mpi/fortran/contents.h"
#include "mpi/fortran/pending.h"

#include <utility>

#if defined(POMONA_FORTRAN_PROFILING)
#define POMONA_C(name) PMPI_##name
#else
#define POMONA_C(name) MPI_##name
#endif

namespace pomona::fortran {
namespace {

// ---- start and end

// Once, and before others: what the types of Fortran are here. A library that knows keeps its own.
inline void tell_fortran() {
    Logical yes = to_logical(1), no = to_logical(0);
    int is_set = 0;
    if (PMPI_Abi_get_fortran_booleans(sizeof yes, &yes, &no, &is_set) == MPI_SUCCESS && !is_set)
        PMPI_Abi_set_fortran_booleans(sizeof yes, &yes, &no);
    MPI_Info info = MPI_INFO_NULL;
    if (PMPI_Abi_get_fortran_info(&info) != MPI_SUCCESS) return;
    if (info != MPI_INFO_NULL) {
        PMPI_Info_free(&info);
        return;
    }
    PMPI_Info_create(&info);
    const std::pair<const char*, size_t> sizes[] = {{"mpi_logical_size", sizeof(Logical)},
                                                    {"mpi_integer_size", sizeof(Integer)},
                                                    {"mpi_real_size", 4},
                                                    {"mpi_double_precision_size", 8}};
    for (auto [key, value] : sizes) PMPI_Info_set(info, key, std::to_string(value).c_str());
    PMPI_Abi_set_fortran_info(info);
    PMPI_Info_free(&info);
}
[[maybe_unused]] int written_Init() {
    int error = POMONA_C(Init)(nullptr, nullptr);
    if (error == MPI_SUCCESS) tell_fortran();
    return error;
}
[[maybe_unused]] int written_Init_thread(Integer* required, Integer* provided) {
    int level = MPI_THREAD_SINGLE;
    int error = POMONA_C(Init_thread)(nullptr, nullptr, narrow(*required), &level);
    *provided = level;
    if (error == MPI_SUCCESS) tell_fortran();
    return error;
}

// ---- requests

[[maybe_unused]] int written_Wait(Integer* request, Integer* result) {
    auto handle = to_c<MPI_Request>(*request);
    Completions completions(&handle, 1);
    int error = POMONA_C(Wait)(&handle, Statuses(result).data());
    if (error == MPI_SUCCESS || handle == MPI_REQUEST_NULL) completions.complete(0, handle);
    *request = to_fortran(handle);
    return error;
}
[[maybe_unused]] int written_Test(Integer* request, Logical* flag, Integer* result) {
    auto handle = to_c<MPI_Request>(*request);
    Completions completions(&handle, 1);
    int done = 0;
    int error = POMONA_C(Test)(&handle, &done, Statuses(result).data());
    if (done) completions.complete(0, handle);
    *flag = to_logical(done);
    *request = to_fortran(handle);
    return error;
}
[[maybe_unused]] int written_Waitall(Integer* count, Integer* requests, Integer* results) {
    Handles<MPI_Request> handles(requests, *count);
    Completions completions(handles.data(), handles.size());
    int error = POMONA_C(Waitall)(*count, handles.data(), Statuses(results, *count).data());
    for (size_t i = 0; i < handles.size(); ++i)
        if (error == MPI_SUCCESS || handles[i] == MPI_REQUEST_NULL)
            completions.complete(i, handles[i]);
    handles.store(requests);
    return error;
}
[[maybe_unused]] int written_Testall(Integer* count, Integer* requests, Logical* flag,
                                     Integer* results) {
    Handles<MPI_Request> handles(requests, *count);
    Completions completions(handles.data(), handles.size());
    int done = 0;
    int error = POMONA_C(Testall)(*count, handles.data(), &done, Statuses(results, *count).data());
    if (done) completions.complete_all(handles.data());
    *flag = to_logical(done);
    handles.store(requests);
    return error;
}
// Fortran counts from 1.
inline void complete_one(Completions& completions, const Handles<MPI_Request>& handles,
                         int* index) {
    if (*index == MPI_UNDEFINED || *index < 0) return;
    completions.complete(static_cast<size_t>(*index), handles[static_cast<size_t>(*index)]);
    ++*index;
}
[[maybe_unused]] int written_Waitany(Integer* count, Integer* requests, Integer* index,
                                     Integer* result) {
    Handles<MPI_Request> handles(requests, *count);
    Completions completions(handles.data(), handles.size());
    int place = MPI_UNDEFINED;
    int error = POMONA_C(Waitany)(*count, handles.data(), &place, Statuses(result).data());
    complete_one(completions, handles, &place);
    *index = place;
    handles.store(requests);
    return error;
}
[[maybe_unused]] int written_Testany(Integer* count, Integer* requests, Integer* index,
                                     Logical* flag, Integer* result) {
    Handles<MPI_Request> handles(requests, *count);
    Completions completions(handles.data(), handles.size());
    int place = MPI_UNDEFINED, done = 0;
    int error = POMONA_C(Testany)(*count, handles.data(), &place, &done, Statuses(result).data());
    if (done) complete_one(completions, handles, &place);
    *index = place;
    *flag = to_logical(done);
    handles.store(requests);
    return error;
}
using SomeFunction = int(int, MPI_Request*, int*, int*, MPI_Status*);
inline int some(SomeFunction* function, Integer* count, Integer* requests, Integer* outcount,
                Integer* indices, Integer* results) {
    Handles<MPI_Request> handles(requests, *count);
    Completions completions(handles.data(), handles.size());
    std::vector<int> places(handles.size());
    int done = MPI_UNDEFINED;
    int error =
        function(*count, handles.data(), &done, places.data(), Statuses(results, *count).data());
    places.resize(done == MPI_UNDEFINED ? 0 : static_cast<size_t>(done));
    for (int& place : places) complete_one(completions, handles, &place);
    widen(places, indices);
    *outcount = done;
    handles.store(requests);
    return error;
}
[[maybe_unused]] int written_Waitsome(Integer* count, Integer* requests, Integer* outcount,
                                      Integer* indices, Integer* results) {
    return some(&POMONA_C(Waitsome), count, requests, outcount, indices, results);
}
[[maybe_unused]] int written_Testsome(Integer* count, Integer* requests, Integer* outcount,
                                      Integer* indices, Integer* results) {
    return some(&POMONA_C(Testsome), count, requests, outcount, indices, results);
}
[[maybe_unused]] int written_Request_get_status(Integer* request, Logical* flag, Integer* result) {
    auto handle = to_c<MPI_Request>(*request);
    Completions completions(&handle, 1);
    int done = 0;
    int error = POMONA_C(Request_get_status)(handle, &done, Statuses(result).data());
    if (done) completions.complete(0, handle);
    *flag = to_logical(done);
    return error;
}
[[maybe_unused]] int written_Request_get_status_all(Integer* count, Integer* requests,
                                                    Logical* flag, Integer* results) {
    Handles<MPI_Request> handles(requests, *count);
    Completions completions(handles.data(), handles.size());
    int done = 0;
    int error = POMONA_C(Request_get_status_all)(*count, handles.data(), &done,
                                                 Statuses(results, *count).data());
    if (done) completions.complete_all(handles.data());
    *flag = to_logical(done);
    return error;
}
[[maybe_unused]] int written_Request_get_status_any(Integer* count, Integer* requests,
                                                    Integer* index, Logical* flag,
                                                    Integer* result) {
    Handles<MPI_Request> handles(requests, *count);
    Completions completions(handles.data(), handles.size());
    int place = MPI_UNDEFINED, done = 0;
    int error = POMONA_C(Request_get_status_any)(*count, handles.data(), &place, &done,
                                                 Statuses(result).data());
    if (done) complete_one(completions, handles, &place);
    *index = place;
    *flag = to_logical(done);
    return error;
}
[[maybe_unused]] int written_Request_get_status_some(Integer* count, Integer* requests,
                                                     Integer* outcount, Integer* indices,
                                                     Integer* results) {
    return some(
        [](int n, MPI_Request* handles, int* done, int* places, MPI_Status* all) {
            return POMONA_C(Request_get_status_some)(n, handles, done, places, all);
        },
        count, requests, outcount, indices, results);
}
inline void start_pending(MPI_Request request) {
    if (pending_count.load(std::memory_order_relaxed) == 0) return;  // as in Completions
    if (Pending* pending = find_pending(request)) pending->start();
}
[[maybe_unused]] int written_Start(Integer* request) {
    auto handle = to_c<MPI_Request>(*request);
    start_pending(handle);
    int error = POMONA_C(Start)(&handle);
    *request = to_fortran(handle);
    return error;
}
[[maybe_unused]] int written_Startall(Integer* count, Integer* requests) {
    Handles<MPI_Request> handles(requests, *count);
    for (size_t i = 0; i < handles.size(); ++i) start_pending(handles[i]);
    int error = POMONA_C(Startall)(*count, handles.data());
    handles.store(requests);
    return error;
}
[[maybe_unused]] int written_Request_free(Integer* request) {
    auto handle = to_c<MPI_Request>(*request);
    // What still moves may use the copies: they stay. Nobody learns when it ends.
    if (pending_count.load(std::memory_order_relaxed) != 0)  // as in Completions
        if (auto pending = take_pending(handle); pending && pending->active) pending.release();
    int error = POMONA_C(Request_free)(&handle);
    *request = to_fortran(handle);
    return error;
}

// ---- functions of the user

[[maybe_unused]] int written_Op_create(Procedure user_fn, Logical* commute, Integer* op) {
    auto* function = user_function(user_fn);
    if (!function) return MPI_ERR_NO_MEM;
    MPI_Op made{};
    int error = POMONA_C(Op_create)(function, to_flag(*commute), &made);
    give_handle(op, made);
    return error;
}
[[maybe_unused]] int written_Op_create_c(Procedure user_fn, Logical* commute, Integer* op) {
    auto* function = user_function_large(user_fn);
    if (!function) return MPI_ERR_NO_MEM;
    MPI_Op made{};
    int error = POMONA_C(Op_create_c)(function, to_flag(*commute), &made);
    give_handle(op, made);
    return error;
}

#define POMONA_FORTRAN_ERRHANDLER(Object, find)                                                    \
    [[maybe_unused]] int written_##Object##_create_errhandler(Procedure fn, Integer* errhandler) { \
        auto* function = find(fn);                                                                 \
        if (!function) return MPI_ERR_NO_MEM;                                                      \
        MPI_Errhandler made{};                                                                     \
        int error = POMONA_C(Object##_create_errhandler)(function, &made);                         \
        give_handle(errhandler, made);                                                             \
        return error;                                                                              \
    }
POMONA_FORTRAN_ERRHANDLER(Comm, comm_handler)
POMONA_FORTRAN_ERRHANDLER(Win, win_handler)
POMONA_FORTRAN_ERRHANDLER(File, file_handler)
POMONA_FORTRAN_ERRHANDLER(Session, session_handler)
#undef POMONA_FORTRAN_ERRHANDLER

// ---- attributes

#define POMONA_FORTRAN_ATTRIBUTES(Object, Handle)                                                  \
    [[maybe_unused]] int written_##Object##_create_keyval(Procedure copy, Procedure remove,        \
                                                          Integer* keyval, MPI_Aint* extra) {      \
        auto* state = new KeyvalState{copy, remove, *extra, Values::address};                      \
        int made = MPI_KEYVAL_INVALID;                                                             \
        int error = POMONA_C(Object##_create_keyval)(                                              \
            &KeyvalFunctions<Handle>::copy, &KeyvalFunctions<Handle>::remove, &made, state);       \
        if (error == MPI_SUCCESS) *keyval = made;                                                  \
        return error;                                                                              \
    }                                                                                              \
    [[maybe_unused]] int written_##Object##_set_attr(Integer* object, Integer* keyval,             \
                                                     MPI_Aint* value) {                            \
        return POMONA_C(Object##_set_attr)(to_c<Handle>(*object), *keyval, new_value(*value));     \
    }                                                                                              \
    [[maybe_unused]] int written_##Object##_get_attr(Integer* object, Integer* keyval,             \
                                                     MPI_Aint* value, Logical* flag) {             \
        void* found = nullptr;                                                                     \
        int there = 0;                                                                             \
        int error = POMONA_C(Object##_get_attr)(to_c<Handle>(*object), *keyval, &found, &there);   \
        if (error != MPI_SUCCESS) return error;                                                    \
        if (there) *value = attribute_value(*keyval, found);                                       \
        *flag = to_logical(there);                                                                 \
        return error;                                                                              \
    }
POMONA_FORTRAN_ATTRIBUTES(Comm, MPI_Comm)
POMONA_FORTRAN_ATTRIBUTES(Type, MPI_Datatype)
POMONA_FORTRAN_ATTRIBUTES(Win, MPI_Win)
#undef POMONA_FORTRAN_ATTRIBUTES

// MPI-1's, with INTEGERs of the default kind.
[[maybe_unused]] int written_Keyval_create(Procedure copy, Procedure remove, Integer* keyval,
                                           Integer* extra) {
    auto* state = new KeyvalState{copy, remove, *extra, Values::plain};
    int made = MPI_KEYVAL_INVALID;
    int error = POMONA_C(Keyval_create)(&KeyvalFunctions<MPI_Comm>::copy,
                                        &KeyvalFunctions<MPI_Comm>::remove, &made, state);
    if (error == MPI_SUCCESS) *keyval = made;
    return error;
}
[[maybe_unused]] int written_Attr_put(Integer* comm, Integer* keyval, Integer* value) {
    return POMONA_C(Attr_put)(to_c<MPI_Comm>(*comm), *keyval, new_value(*value));
}
[[maybe_unused]] int written_Attr_get(Integer* comm, Integer* keyval, Integer* value,
                                      Logical* flag) {
    MPI_Aint wide = 0;
    int error = written_Comm_get_attr(comm, keyval, &wide, flag);
    if (error == MPI_SUCCESS && to_flag(*flag)) *value = static_cast<Integer>(wide);
    return error;
}

// ---- generalized requests, data representations

inline int start_grequest(GrequestState* state, Integer* request) {
    MPI_Request made{};
    int error =
        POMONA_C(Grequest_start)(&grequest_query, &grequest_free, &grequest_cancel, state, &made);
    give_handle(request, made);
    if (error != MPI_SUCCESS) delete state;
    return error;
}
// Programs with mpif.h and mpi look into the variable that they gave, as other libraries let them.
[[maybe_unused]] int written_Grequest_start(Procedure query, Procedure free, Procedure cancel,
                                            MPI_Aint* extra, Integer* request) {
    return start_grequest(new GrequestState{query, free, cancel, extra, 0}, request);
}
// In mpi_f08 it is INTENT(IN), and may be an expression.
[[maybe_unused]] int written_Grequest_start_f08(Procedure query, Procedure free, Procedure cancel,
                                                MPI_Aint* extra, Integer* request) {
    auto* state = new GrequestState{query, free, cancel, nullptr, *extra};
    state->extra = &state->own;
    return start_grequest(state, request);
}
inline bool is_null(Procedure function) {
    return function == &mpi_conversion_fn_null_ || function == &mpi_conversion_fn_null_c_;
}
[[maybe_unused]] int written_Register_datarep(Characters name, Procedure read, Procedure write,
                                              Procedure extent, MPI_Aint* extra) {
    auto* state = new DatarepState{read, write, extent, *extra};
    return POMONA_C(Register_datarep)(
        trimmed(name).c_str(), is_null(read) ? MPI_CONVERSION_FN_NULL : &datarep_read,
        is_null(write) ? MPI_CONVERSION_FN_NULL : &datarep_write, &datarep_extent, state);
}
[[maybe_unused]] int written_Register_datarep_c(Characters name, Procedure read, Procedure write,
                                                Procedure extent, MPI_Aint* extra) {
    auto* state = new DatarepState{read, write, extent, *extra};
    return POMONA_C(Register_datarep_c)(
        trimmed(name).c_str(), is_null(read) ? MPI_CONVERSION_FN_NULL_C : &datarep_read_large,
        is_null(write) ? MPI_CONVERSION_FN_NULL_C : &datarep_write_large, &datarep_extent, state);
}

// ---- strings whose length is an argument: C's lengths count the final 0

[[maybe_unused]] int written_Info_get(Integer* info, Characters key, Integer* length,
                                      Characters value, Logical* flag) {
    std::vector<char> text(*length > 0 ? static_cast<size_t>(*length) + 1 : 1);
    int there = 0;
    int error = POMONA_C(Info_get)(to_c<MPI_Info>(*info), trimmed(key, true).c_str(), *length,
                                   text.data(), &there);
    if (error == MPI_SUCCESS && there) pad(text.data(), value);
    *flag = to_logical(there);
    return error;
}
[[maybe_unused]] int written_Info_get_string(Integer* info, Characters key, Integer* length,
                                             Characters value, Logical* flag) {
    bool ask = *length <= 0;
    std::vector<char> text(ask ? 1 : static_cast<size_t>(*length) + 1);
    int there = 0, size = ask ? 0 : narrow(*length) + 1;
    int error = POMONA_C(Info_get_string)(to_c<MPI_Info>(*info), trimmed(key, true).c_str(), &size,
                                          text.data(), &there);
    if (error == MPI_SUCCESS && there) {
        if (!ask) pad(text.data(), value);
        *length = size - 1;
    }
    *flag = to_logical(there);
    return error;
}
[[maybe_unused]] int written_Session_get_nth_pset(Integer* session, Integer* info, Integer* n,
                                                  Integer* length, Characters name) {
    bool ask = *length <= 0;
    std::vector<char> text(ask ? 1 : static_cast<size_t>(*length) + 1);
    int size = ask ? 0 : narrow(*length) + 1;
    int error = POMONA_C(Session_get_nth_pset)(to_c<MPI_Session>(*session), to_c<MPI_Info>(*info),
                                               *n, &size, text.data());
    if (error != MPI_SUCCESS) return error;
    if (!ask) pad(text.data(), name);
    *length = size - 1;
    return error;
}

// ---- spawning

// Arguments end with a blank one; blanks around them do not count. `step`: from one argument to the
// next.
inline std::vector<std::string> arguments(const char* first, size_t length, size_t step) {
    std::vector<std::string> found;
    for (const char* text = first;; text += step) {
        found.push_back(trimmed({const_cast<char*>(text), length}, true));
        if (found.back().empty()) break;
    }
    found.pop_back();
    return found;
}
inline std::vector<char*> pointers(std::vector<std::string>& texts) {
    std::vector<char*> found;
    for (auto& text : texts) found.push_back(text.data());
    found.push_back(nullptr);
    return found;
}
// Error codes of spawned processes.
class Codes {
public:
    explicit Codes(Integer* from) : from_(from) {
#if defined(POMONA_FORTRAN_INTEGER8)
        if (!ignored()) numbers_.assign(kProcessesMax, MPI_SUCCESS);
#endif
    }
    int* data() {
        if (ignored()) return MPI_ERRCODES_IGNORE;
#if defined(POMONA_FORTRAN_INTEGER8)
        return numbers_.data();
#else
        return from_;
#endif
    }
    // One for each process: as many as the new communicator's other group has.
    void store([[maybe_unused]] MPI_Comm made) {
#if defined(POMONA_FORTRAN_INTEGER8)
        int size = 0;
        if (ignored() || made == MPI_COMM_NULL || PMPI_Comm_remote_size(made, &size) != MPI_SUCCESS)
            return;
        numbers_.resize(static_cast<size_t>(size));
        widen(numbers_, from_);
#endif
    }

private:
    bool ignored() const { return is(from_, mpi_fortran_errcodes_ignore_); }
    Integer* from_;
#if defined(POMONA_FORTRAN_INTEGER8)
    static constexpr size_t kProcessesMax = 65536;  // only the root knows how many there will be
    std::vector<int> numbers_;
#endif
};
inline bool is_root(Integer* comm, Integer* root) {
    int rank = -1;
    PMPI_Comm_rank(to_c<MPI_Comm>(*comm), &rank);
    return rank == *root;
}
[[maybe_unused]] int written_Comm_spawn(Characters command, Characters argv, Integer* maxprocs,
                                        Integer* info, Integer* root, Integer* comm,
                                        Integer* intercomm, Integer* errcodes) {
    std::string program;
    std::vector<std::string> texts;
    bool here = is_root(comm, root);  // elsewhere the first four arguments mean nothing
    if (here) program = trimmed(command, true);
    bool none = !here || is(argv.text, mpi_fortran_argv_null_);
    if (!none) texts = arguments(argv.text, argv.length, argv.length);
    auto list = pointers(texts);
    MPI_Comm made = MPI_COMM_NULL;
    Codes codes(errcodes);
    int error =
        POMONA_C(Comm_spawn)(program.c_str(), none ? MPI_ARGV_NULL : list.data(),
                             here ? *maxprocs : 0, here ? to_c<MPI_Info>(*info) : MPI_INFO_NULL,
                             *root, to_c<MPI_Comm>(*comm), &made, codes.data());
    codes.store(made);
    *intercomm = to_fortran(made);
    return error;
}
[[maybe_unused]] int written_Comm_spawn_multiple(Integer* count, Characters commands,
                                                 Characters argv, Integer* maxprocs, Integer* infos,
                                                 Integer* root, Integer* comm, Integer* intercomm,
                                                 Integer* errcodes) {
    bool here = is_root(comm, root);
    auto programs = here ? static_cast<size_t>(*count > 0 ? *count : 0) : 0;
    bool none = !here || is(argv.text, mpi_fortran_argvs_null_);
    std::vector<std::string> names;
    std::vector<std::vector<std::string>> texts(programs);
    std::vector<std::vector<char*>> lists;
    std::vector<char**> argvs;
    for (size_t i = 0; i < programs; ++i) {
        names.push_back(trimmed({commands.text + i * commands.length, commands.length}, true));
        if (none) continue;
        // argv(count, *): those of one program stand count elements apart.
        texts[i] = arguments(argv.text + i * argv.length, argv.length, programs * argv.length);
        lists.push_back(pointers(texts[i]));
    }
    for (auto& list : lists) argvs.push_back(list.data());
    auto list = pointers(names);
    Handles<MPI_Info> handles(infos, static_cast<long>(programs));
    MPI_Comm made = MPI_COMM_NULL;
    Codes codes(errcodes);
    auto numbers = narrow(maxprocs, static_cast<Integer>(programs));
    int error = POMONA_C(Comm_spawn_multiple)(
        here ? *count : 0, list.data(), none ? MPI_ARGVS_NULL : argvs.data(), numbers.data(),
        handles.data(), *root, to_c<MPI_Comm>(*comm), &made, codes.data());
    codes.store(made);
    *intercomm = to_fortran(made);
    return error;
}

// ---- statuses

inline int copy_status(const Integer* from, Integer* to) {
    std::memcpy(to, from, MPI_F_STATUS_SIZE * sizeof *to);
    return MPI_SUCCESS;
}
[[maybe_unused]] int written_Status_f082f(Integer* f08_status, Integer* f_status) {
    return copy_status(f08_status, f_status);
}
[[maybe_unused]] int written_Status_f2f08(Integer* f_status, Integer* f08_status) {
    return copy_status(f_status, f08_status);
}

// ---- what a datatype was made of: by large counts, where INTEGERs have 8 bytes

[[maybe_unused]] int written_Type_get_envelope(Integer* datatype, Integer* num_integers,
                                               Integer* num_addresses, Integer* num_datatypes,
                                               Integer* combiner) {
    Contents found;
    int error = contents_of(to_c<MPI_Datatype>(*datatype), found);
    if (error != MPI_SUCCESS) return error;
    *num_integers = static_cast<Integer>(found.integers.size());
    *num_addresses = static_cast<Integer>(found.addresses.size());
    *num_datatypes = static_cast<Integer>(found.types.size());
    *combiner = found.combiner;
    free_types(found.types);
    return error;
}
[[maybe_unused]] int written_Type_get_contents(Integer* datatype, Integer* max_integers,
                                               Integer* max_addresses, Integer* max_datatypes,
                                               Integer* integers, MPI_Aint* addresses,
                                               Integer* datatypes) {
    Contents found;
    int error = contents_of(to_c<MPI_Datatype>(*datatype), found);
    if (error != MPI_SUCCESS) return error;
    auto fits = [](const auto& values, Integer* most) {
        return *most >= 0 && values.size() <= static_cast<size_t>(*most);
    };
    if (found.combiner == MPI_COMBINER_NAMED || !fits(found.integers, max_integers) ||
        !fits(found.addresses, max_addresses) || !fits(found.types, max_datatypes)) {
        free_types(found.types);
        return refuse(MPI_COMM_SELF, MPI_ERR_ARG);
    }
    std::copy(found.integers.begin(), found.integers.end(), integers);
    std::copy(found.addresses.begin(), found.addresses.end(), addresses);
    for (size_t i = 0; i < found.types.size(); ++i) datatypes[i] = to_fortran(found.types[i]);
    return error;
}

// ---- communicators that may be known later than the call's end

inline int idup(int error, Integer* newcomm, Integer* request,
                const std::shared_ptr<MPI_Comm>& made, MPI_Request handle) {
    give_handle(newcomm, *made);
    give_handle(request, handle);
    if (error != MPI_SUCCESS) return error;
    defer(error, handle, false, std::pair(made, newcomm));
    return error;
}
[[maybe_unused]] int written_Comm_idup(Integer* comm, Integer* newcomm, Integer* request) {
    auto made = std::make_shared<MPI_Comm>();
    MPI_Request handle{};
    int error = POMONA_C(Comm_idup)(to_c<MPI_Comm>(*comm), made.get(), &handle);
    return idup(error, newcomm, request, made, handle);
}
[[maybe_unused]] int written_Comm_idup_with_info(Integer* comm, Integer* info, Integer* newcomm,
                                                 Integer* request) {
    auto made = std::make_shared<MPI_Comm>();
    MPI_Request handle{};
    int error = POMONA_C(Comm_idup_with_info)(to_c<MPI_Comm>(*comm), to_c<MPI_Info>(*info),
                                              made.get(), &handle);
    return idup(error, newcomm, request, made, handle);
}

}  // namespace
}  // namespace pomona::fortran
