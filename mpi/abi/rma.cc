// mpi/abi/rma.cc: MPI_Put, MPI_Get, MPI_Accumulate and relatives (MPI 5.0, section 12.3).
// Every function decodes its arguments into an RmaAccess; the four with a request differ by that.
#include "mpi/abi/define.h"
#include "mpi/abi/p2p_arguments.h"
#include "mpi/abi/win_internal.h"
#include "mpi/rma/window_check.h"
#include "mpi/runtime/unlike.h"

using namespace pomona;

namespace {

// Collects and checks the arguments of one call.
class Call {
public:
    Call(const char* function, Window& window, RmaKind kind)
        : function_(function), window_(window) {
        access_.kind = kind;
    }

    int origin(const void* address, MPI_Count count, MPI_Datatype datatype) {
        return user_data("origin", const_cast<void*>(address), count, datatype, access_.origin);
    }
    int result(void* address, MPI_Count count, MPI_Datatype datatype) {
        return user_data("result", address, count, datatype, access_.result);
    }
    [[gnu::always_inline]] int target(int rank, MPI_Aint displacement, MPI_Count count,
                                      MPI_Datatype datatype) {
        if (rank != MPI_PROC_NULL && (rank < 0 || rank >= window_.comm().size()))
            return fail(function_, window_, MPI_ERR_RANK,
                        format("target_rank is {}; the window has {} members", rank,
                               window_.comm().size()));
        Data data;
        if (int error = user_data("target", MPI_BOTTOM, count, datatype, data)) return error;
        // Addresses of a dynamic window may have any sign.
        if (displacement < 0 && window_.flavor() != MPI_WIN_FLAVOR_DYNAMIC && rank != MPI_PROC_NULL)
            return fail(function_, window_, MPI_ERR_DISP,
                        format("target_disp is {}; it must not be negative", displacement));
        access_.target = rank;
        access_.displacement = displacement;
        access_.count = count;
        access_.type = data.type;
        return MPI_SUCCESS;
    }
    // An accumulation's: predefined, and defined for the one basic type of the target.
    int operation(MPI_Op op) {
        Operation* found = resolve(op);
        if (!found || !found->predefined())
            return fail(function_, window_, MPI_ERR_OP, "op must be a predefined operation");
        access_.op = *found->op();
        // Nothing is computed on nothing: bindings ask for zero MPI_BYTE and MPI_SUM.
        if (access_.count == 0 || access_.type->size() == 0) return MPI_SUCCESS;
        const Datatype* basic = access_.type->uniform();
        if (!basic)
            return fail(function_, window_, MPI_ERR_TYPE,
                        "target_datatype must consist of one predefined datatype");
        if (Status good = found->check(*basic); !good.ok())
            return fail(function_, window_, MPI_ERR_OP, good.error().what);
        return MPI_SUCCESS;
    }
    void compare(const void* address) { access_.compare = address; }
    // Both sides must be equally long; the other one is `data`.
    int run(const Data& data) {
        if (access_.target == MPI_PROC_NULL) return MPI_SUCCESS;
        if (data.type && data.count * data.type->size() != access_.count * access_.type->size())
            return fail(function_, window_, MPI_ERR_TRUNCATE,
                        format("the data here has {} bytes and the target's {}",
                               data.count * data.type->size(),
                               access_.count * access_.type->size()));
        if (__builtin_expect(!access_.type->plain, 0)) {
            std::string why = unlike_format(window_.comm(), *access_.type, access_.target);
            if (!why.empty()) return fail(function_, window_, MPI_ERR_TYPE, why);
        }
        if (__builtin_expect(window_.check != nullptr, 0)) return run_checked();
        return report(function_, window_, window_.access(access_));
    }
    int run_origin() { return run(access_.origin); }
    int run_result() { return run(access_.result); }
    // With a request, which is complete at once for MPI_PROC_NULL.
    template <class Run> int run_with(MPI_Request* request, Run run_one) {
        if (!request) return fail(function_, window_, MPI_ERR_ARG, "request is a null pointer");
        if (access_.target == MPI_PROC_NULL) {
            *request = handle_of<MPI_Request>(make_null_request(window_.comm()));
            return MPI_SUCCESS;
        }
        auto* made = new RmaRequest(window_.comm());
        access_.request = made;
        if (int error = (this->*run_one)()) return made->release(), error;
        *request = handle_of<MPI_Request>(made);
        return MPI_SUCCESS;
    }

private:
    int run_checked() {
        uint64_t number = 0;
        RmaError result = window_.check->begin(mpi_name(function_), access_, number);
        if (!result) {
            result = window_.access(access_);
            if (result) window_.check->take_back(access_.target, number);
        }
        return report(function_, window_, result);
    }

    [[gnu::always_inline]] int user_data(const char* which, void* address, MPI_Count count,
                                         MPI_Datatype datatype, Data& out) {
        if (count < 0)
            return fail(function_, window_, MPI_ERR_COUNT,
                        format("{}_count is {}; it must not be negative", which, count));
        Datatype* type = resolve(datatype);
        if (!type)
            return fail(function_, window_, MPI_ERR_TYPE,
                        format("{}_datatype is not a valid datatype", which));
        if (!type->committed)
            return fail(function_, window_, MPI_ERR_TYPE,
                        format("{}_datatype is not committed; call MPI_Type_commit", which));
        if (count > type->count_most())
            return fail(function_, window_, MPI_ERR_COUNT,
                        too_many_text(format("{}_count", which), count, *type));
        out = {address, count, type};
        return MPI_SUCCESS;
    }

    const char* function_;
    Window& window_;
    RmaAccess access_;
};

#define TRY_ARGUMENT(check)                                                                        \
    if (int error = (check)) return error

}  // namespace

#define PUT_ARGUMENTS()                                                                            \
    Call call(__func__, *window, RmaKind::put);                                                    \
    TRY_ARGUMENT(call.origin(origin_addr, origin_count, origin_datatype));                         \
    TRY_ARGUMENT(call.target(target_rank, target_disp, target_count, target_datatype))

POMONA_MPI(int, Put_c, (const void* origin_addr, MPI_Count origin_count,
                        MPI_Datatype origin_datatype, int target_rank, MPI_Aint target_disp,
                        MPI_Count target_count, MPI_Datatype target_datatype, MPI_Win win)) {
    WIN_ARGUMENT();
    if (origin_count == target_count && origin_datatype == target_datatype &&
        window->put_at_once({target_rank, target_disp, resolve(target_datatype), target_count},
                            origin_addr))
        return MPI_SUCCESS;
    PUT_ARGUMENTS();
    return call.run_origin();
}

POMONA_MPI(int, Rput_c, (const void* origin_addr, MPI_Count origin_count,
                         MPI_Datatype origin_datatype, int target_rank, MPI_Aint target_disp,
                         MPI_Count target_count, MPI_Datatype target_datatype, MPI_Win win,
                         MPI_Request* request)) {
    WIN_ARGUMENT();
    PUT_ARGUMENTS();
    return call.run_with(request, &Call::run_origin);
}

#define GET_ARGUMENTS()                                                                            \
    Call call(__func__, *window, RmaKind::get);                                                    \
    TRY_ARGUMENT(call.result(origin_addr, origin_count, origin_datatype));                         \
    TRY_ARGUMENT(call.target(target_rank, target_disp, target_count, target_datatype))

POMONA_MPI(int, Get_c, (void* origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype,
                        int target_rank, MPI_Aint target_disp, MPI_Count target_count,
                        MPI_Datatype target_datatype, MPI_Win win)) {
    WIN_ARGUMENT();
    if (origin_count == target_count && origin_datatype == target_datatype &&
        window->get_at_once({target_rank, target_disp, resolve(target_datatype), target_count},
                            origin_addr))
        return MPI_SUCCESS;
    GET_ARGUMENTS();
    return call.run_result();
}

POMONA_MPI(int, Rget_c, (void* origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype,
                         int target_rank, MPI_Aint target_disp, MPI_Count target_count,
                         MPI_Datatype target_datatype, MPI_Win win, MPI_Request* request)) {
    WIN_ARGUMENT();
    GET_ARGUMENTS();
    return call.run_with(request, &Call::run_result);
}

#define ACCUMULATE_ARGUMENTS()                                                                     \
    Call call(__func__, *window, RmaKind::accumulate);                                             \
    TRY_ARGUMENT(call.origin(origin_addr, origin_count, origin_datatype));                         \
    TRY_ARGUMENT(call.target(target_rank, target_disp, target_count, target_datatype));            \
    WIN_REQUIRE(op != MPI_NO_OP, MPI_ERR_OP, "MPI_NO_OP is for MPI_Get_accumulate only");          \
    TRY_ARGUMENT(call.operation(op))

POMONA_MPI(int, Accumulate_c, (const void* origin_addr, MPI_Count origin_count,
                               MPI_Datatype origin_datatype, int target_rank, MPI_Aint target_disp,
                               MPI_Count target_count, MPI_Datatype target_datatype, MPI_Op op,
                               MPI_Win win)) {
    WIN_ARGUMENT();
    if (origin_count == target_count && origin_datatype == target_datatype &&
        window->add_at_once({target_rank, target_disp, resolve(target_datatype), target_count},
                            resolve(op), origin_addr))
        return MPI_SUCCESS;
    ACCUMULATE_ARGUMENTS();
    return call.run_origin();
}

POMONA_MPI(int, Raccumulate_c, (const void* origin_addr, MPI_Count origin_count,
                                MPI_Datatype origin_datatype, int target_rank,
                                MPI_Aint target_disp, MPI_Count target_count,
                                MPI_Datatype target_datatype, MPI_Op op, MPI_Win win,
                                MPI_Request* request)) {
    WIN_ARGUMENT();
    ACCUMULATE_ARGUMENTS();
    return call.run_with(request, &Call::run_origin);
}

// With MPI_NO_OP the origin's arguments mean nothing.
#define GET_ACCUMULATE_ARGUMENTS()                                                                 \
    WIN_ARGUMENT();                                                                                \
    Call call(__func__, *window, RmaKind::get_accumulate);                                         \
    if (op != MPI_NO_OP) TRY_ARGUMENT(call.origin(origin_addr, origin_count, origin_datatype));    \
    TRY_ARGUMENT(call.result(result_addr, result_count, result_datatype));                         \
    TRY_ARGUMENT(call.target(target_rank, target_disp, target_count, target_datatype));            \
    TRY_ARGUMENT(call.operation(op))

POMONA_MPI(int, Get_accumulate_c, (const void* origin_addr, MPI_Count origin_count,
                                   MPI_Datatype origin_datatype, void* result_addr,
                                   MPI_Count result_count, MPI_Datatype result_datatype,
                                   int target_rank, MPI_Aint target_disp, MPI_Count target_count,
                                   MPI_Datatype target_datatype, MPI_Op op, MPI_Win win)) {
    GET_ACCUMULATE_ARGUMENTS();
    return call.run_result();
}

POMONA_MPI(int, Rget_accumulate_c, (const void* origin_addr, MPI_Count origin_count,
                                    MPI_Datatype origin_datatype, void* result_addr,
                                    MPI_Count result_count, MPI_Datatype result_datatype,
                                    int target_rank, MPI_Aint target_disp, MPI_Count target_count,
                                    MPI_Datatype target_datatype, MPI_Op op, MPI_Win win,
                                    MPI_Request* request)) {
    GET_ACCUMULATE_ARGUMENTS();
    return call.run_with(request, &Call::run_result);
}

POMONA_MPI(int, Fetch_and_op, (const void* origin_addr, void* result_addr, MPI_Datatype datatype,
                               int target_rank, MPI_Aint target_disp, MPI_Op op, MPI_Win win)) {
    WIN_ARGUMENT();
    if (window->fetch_at_once({target_rank, target_disp, resolve(datatype)}, resolve(op),
                              origin_addr, result_addr))
        return MPI_SUCCESS;
    Call call(__func__, *window, RmaKind::get_accumulate);
    TRY_ARGUMENT(call.origin(origin_addr, 1, datatype));
    TRY_ARGUMENT(call.result(result_addr, 1, datatype));
    TRY_ARGUMENT(call.target(target_rank, target_disp, 1, datatype));
    WIN_REQUIRE(resolve(datatype)->predefined(), MPI_ERR_TYPE, "datatype must be predefined");
    TRY_ARGUMENT(call.operation(op));
    return call.run_result();
}

POMONA_MPI(int, Compare_and_swap, (const void* origin_addr, const void* compare_addr,
                                   void* result_addr, MPI_Datatype datatype, int target_rank,
                                   MPI_Aint target_disp, MPI_Win win)) {
    WIN_ARGUMENT();
    if (window->swap_at_once({target_rank, target_disp, resolve(datatype)}, origin_addr,
                             compare_addr, result_addr))
        return MPI_SUCCESS;
    Call call(__func__, *window, RmaKind::compare_swap);
    TRY_ARGUMENT(call.origin(origin_addr, 1, datatype));
    TRY_ARGUMENT(call.result(result_addr, 1, datatype));
    TRY_ARGUMENT(call.target(target_rank, target_disp, 1, datatype));
    WIN_REQUIRE(comparable(*resolve(datatype)), MPI_ERR_TYPE,
                "datatype must be a predefined integer, logical or byte");
    WIN_REQUIRE(origin_addr && compare_addr && result_addr, MPI_ERR_ARG,
                "origin_addr, compare_addr or result_addr is a null pointer");
    call.compare(compare_addr);
    return call.run_result();
}
