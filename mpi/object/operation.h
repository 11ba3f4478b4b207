// mpi/object/operation.h: reduction operations, predefined and the users' own.
// Idea: a predefined operation is a row of accel's kernel table; a user's is a C function in one of
// the two forms (int or MPI_Count lengths).
#pragma once

#include "accel/kernel.h"
#include "btl/base/result.h"
#include "mpi/include/mpi.h"
#include "mpi/object/object.h"

#include <functional>
#include <optional>

namespace pomona {

class Datatype;

class Operation final : public Object {
public:
    static Ref<Operation> user(MPI_User_function* function, bool commutative);
    static Ref<Operation> user(MPI_User_function_c* function, bool commutative);

    bool commutative() const { return commutative_; }
    bool predefined() const { return op_.has_value(); }
    // Which predefined operation this is; none for the users' own.
    std::optional<ReduceOp> op() const { return op_; }
    const char* name() const { return name_; }
    // MPI_REPLACE and MPI_NO_OP: not for collectives, nor for MPI_Reduce_local (MPI 5.0, 12.3.4).
    bool only_one_sided() const { return op_ == ReduceOp::replace || op_ == ReduceOp::no_op; }

    // Whether the standard allows the operation on the type (MPI 5.0, section 6.9.2); the error is
    // of class MPI_ERR_OP. Uncommitted types are the caller's matter.
    Status check(const Datatype& type) const;
    // inout[i] = in[i] op inout[i]; `in` is the contribution of the lower ranks.
    void reduce(const void* in, void* inout, MPI_Count count, const Datatype& type) const;
    // The kernel for a type, so that callers look it up once; null for user operations and for
    // combinations that check() refuses.
    const ReduceKernel* kernel(const Datatype& type) const;

    static Operation& of(MPI_Op predefined);
    static void each_predefined(const std::function<void(MPI_Op, Operation&)>& visit);

private:
    Operation() : Object(Kind::operation) {}

    std::optional<ReduceOp> op_;
    const char* name_ = "";
    bool commutative_ = true;
    MPI_User_function* function_ = nullptr;
    MPI_User_function_c* function_c_ = nullptr;
};

}  // namespace pomona
