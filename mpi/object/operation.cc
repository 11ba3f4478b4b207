// mpi/object/operation.cc: the predefined operations, and calls of the users' functions.
#include "mpi/object/operation.h"

#include "btl/base/check.h"
#include "mpi/object/datatype.h"

#include <climits>
#include <cstring>

namespace pomona {

Ref<Operation> Operation::user(MPI_User_function* function, bool commutative) {
    Ref<Operation> made(new Operation);
    made->function_ = function;
    made->commutative_ = commutative;
    return made;
}

Ref<Operation> Operation::user(MPI_User_function_c* function, bool commutative) {
    Ref<Operation> made(new Operation);
    made->function_c_ = function;
    made->commutative_ = commutative;
    return made;
}

const ReduceKernel* Operation::kernel(const Datatype& type) const {
    if (!op_ || !type.element()) return nullptr;
    return find_kernel(*op_, *type.element());
}

Status Operation::check(const Datatype& type) const {
    // Those two move values and so take every predefined type.
    if (!op_ || kernel(type) || (only_one_sided() && type.predefined())) return {};
    if (!type.predefined())
        return Error{Code::invalid_argument,
                     "a predefined operation takes predefined datatypes only; "
                     "for derived ones create an operation with MPI_Op_create"};
    return Error{Code::invalid_argument,
                 "the standard does not define the operation for the datatype"};
}

void Operation::reduce(const void* in, void* inout, MPI_Count count, const Datatype& type) const {
    if (count == 0) return;
    if (const ReduceKernel* found = kernel(type))
        return found->into(inout, in, static_cast<size_t>(count));
    if (op_) {
        pomona::check(only_one_sided(), static_cast<int>(*op_));
        if (op_ == ReduceOp::replace && in != inout)
            std::memcpy(inout, in, static_cast<size_t>(count * type.extent()));
        return;
    }
    // The users' functions take what C calls arrays of the type: addresses of the first element.
    const Object* object = &type;
    auto handle = reinterpret_cast<MPI_Datatype>(type.builtin_handle
                                                     ? static_cast<uintptr_t>(type.builtin_handle)
                                                     : reinterpret_cast<uintptr_t>(object));
    if (function_c_) return function_c_(const_cast<void*>(in), inout, &count, &handle);
    auto at = [&](const void* base, MPI_Count i) {
        return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(base) +
                                       static_cast<uintptr_t>(i * type.extent()));
    };
    for (MPI_Count done = 0; done < count;) {
        int length = static_cast<int>(std::min<MPI_Count>(count - done, INT_MAX));
        int chunk = length;
        function_(at(in, done), at(inout, done), &length, &handle);
        done += chunk;
    }
}

namespace {
struct Row {
    MPI_Op handle;
    const char* name;
    ReduceOp op;
};
}  // namespace

void Operation::each_predefined(const std::function<void(MPI_Op, Operation&)>& visit) {
    static const Row rows[] = {{MPI_SUM, "MPI_SUM", ReduceOp::sum},
                               {MPI_MIN, "MPI_MIN", ReduceOp::min},
                               {MPI_MAX, "MPI_MAX", ReduceOp::max},
                               {MPI_PROD, "MPI_PROD", ReduceOp::prod},
                               {MPI_BAND, "MPI_BAND", ReduceOp::band},
                               {MPI_BOR, "MPI_BOR", ReduceOp::bor},
                               {MPI_BXOR, "MPI_BXOR", ReduceOp::bxor},
                               {MPI_LAND, "MPI_LAND", ReduceOp::land},
                               {MPI_LOR, "MPI_LOR", ReduceOp::lor},
                               {MPI_LXOR, "MPI_LXOR", ReduceOp::lxor},
                               {MPI_MINLOC, "MPI_MINLOC", ReduceOp::minloc},
                               {MPI_MAXLOC, "MPI_MAXLOC", ReduceOp::maxloc},
                               {MPI_REPLACE, "MPI_REPLACE", ReduceOp::replace},
                               {MPI_NO_OP, "MPI_NO_OP", ReduceOp::no_op}};
    // Made once, in a thread-safe way; live until the program ends.
    static Operation* const* made = [] {
        auto** list = new Operation*[std::size(rows)];
        for (size_t i = 0; i < std::size(rows); ++i) {
            auto* operation = list[i] = new Operation;
            operation->builtin_handle =
                static_cast<uint16_t>(reinterpret_cast<uintptr_t>(rows[i].handle));
            operation->op_ = rows[i].op;
            operation->name_ = rows[i].name;
            operation->commutative_ = is_commutative(rows[i].op);
        }
        return list;
    }();
    for (size_t i = 0; i < std::size(rows); ++i) visit(rows[i].handle, *made[i]);
}

Operation& Operation::of(MPI_Op predefined) {
    Operation* found = nullptr;
    each_predefined([&](MPI_Op handle, Operation& operation) {
        if (handle == predefined) found = &operation;
    });
    pomona::check(found != nullptr, predefined);
    return *found;
}

}  // namespace pomona
