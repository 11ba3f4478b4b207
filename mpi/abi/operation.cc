// mpi/abi/operation.cc: operations of reductions (MPI 5.0, section 6.9), and MPI_Reduce_local.
#include "mpi/abi/type_arguments.h"

using namespace pomona;

namespace {

template <class Function>
int create(const char* function, Function* user_fn, int commute, MPI_Op* op) {
    if (int error = enter(function)) return error;
    if (!user_fn) return fail(function, nullptr, MPI_ERR_ARG, "user_fn is a null pointer");
    if (!op) return fail(function, nullptr, MPI_ERR_ARG, "op is a null pointer");
    *op = hand_out<MPI_Op>(Operation::user(user_fn, commute != 0).detach());
    return MPI_SUCCESS;
}

}  // namespace

POMONA_MPI(int, Op_create, (MPI_User_function* user_fn, int commute, MPI_Op* op)) {
    return create(__func__, user_fn, commute, op);
}
POMONA_MPI(int, Op_create_c, (MPI_User_function_c* user_fn, int commute, MPI_Op* op)) {
    return create(__func__, user_fn, commute, op);
}

POMONA_MPI(int, Op_free, (MPI_Op* op)) {
    REQUIRE_RUNNING();
    POINTER_ARGUMENT(op);
    Operation* operation = resolve(*op);
    REQUIRE(operation, nullptr, MPI_ERR_OP, "op is not a valid operation");
    REQUIRE(!operation->predefined(), nullptr, MPI_ERR_OP,
            "op is predefined ({}); only operations of MPI_Op_create can be freed",
            operation->name());
    REQUIRE(take_back(operation), nullptr, MPI_ERR_OP, "op was freed before");
    operation->release();
    *op = MPI_OP_NULL;
    return MPI_SUCCESS;
}

POMONA_MPI(int, Op_commutative, (MPI_Op op, int* commute)) {
    Operation* operation = resolve(op);
    REQUIRE(operation, nullptr, MPI_ERR_OP, "op is not a valid operation");
    POINTER_ARGUMENT(commute);
    *commute = operation->commutative();
    return MPI_SUCCESS;
}

// What is plainly right; the rest is looked at one by one.
static bool reduce_at_once(const void* inbuf, void* inoutbuf, MPI_Count count, const Datatype* type,
                           const Operation* operation) {
    if (count <= 0 || !type || !type->predefined() || !operation || operation->only_one_sided() ||
        !inbuf || !inoutbuf || inbuf == MPI_IN_PLACE || inoutbuf == MPI_IN_PLACE ||
        inbuf == inoutbuf)
        return false;
    const ReduceKernel* kernel = operation->kernel(*type);
    if (!kernel) return false;
    kernel->into(inoutbuf, inbuf, static_cast<size_t>(count));
    return true;
}

POMONA_MPI(int, Reduce_local_c, (const void* inbuf, void* inoutbuf, MPI_Count count,
                                 MPI_Datatype datatype, MPI_Op op)) {
    REQUIRE_RUNNING();
    Datatype* type = resolve(datatype);
    Operation* operation = resolve(op);
    if (reduce_at_once(inbuf, inoutbuf, count, type, operation)) return MPI_SUCCESS;
    REQUIRE(type, nullptr, MPI_ERR_TYPE, "datatype is not a valid datatype");
    COMMITTED(type, datatype);
    REQUIRE(count >= 0, nullptr, MPI_ERR_COUNT, "count is {}; it must not be negative", count);
    REQUIRE(operation, nullptr, MPI_ERR_OP, "op is not a valid operation");
    REQUIRE(!operation->only_one_sided(), nullptr, MPI_ERR_OP,
            "{} is for one-sided accesses only (MPI_Accumulate and the like)", operation->name());
    auto allowed = operation->check(*type);
    REQUIRE(allowed.ok(), nullptr, MPI_ERR_OP, "{} on {}: {}", operation->name(),
            type->name.empty() ? "a derived datatype" : type->name, allowed.error().what);
    if (count == 0) return MPI_SUCCESS;
    REQUIRE((inbuf && inoutbuf) || !type->predefined(), nullptr, MPI_ERR_BUFFER,
            "inbuf or inoutbuf is a null pointer, with a count of {}", count);
    REQUIRE(inbuf != MPI_IN_PLACE && inoutbuf != MPI_IN_PLACE, nullptr, MPI_ERR_BUFFER,
            "inbuf or inoutbuf is MPI_IN_PLACE, which only collectives take");
    REQUIRE(inbuf != inoutbuf, nullptr, MPI_ERR_BUFFER, "inbuf and inoutbuf are the same");
    operation->reduce(inbuf, inoutbuf, count, *type);
    return MPI_SUCCESS;
}
