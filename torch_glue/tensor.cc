// tensor.cc: see tensor.h.
#include "torch_glue/tensor.h"
#include "torch_glue/messages.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>

namespace pomona::glue {
namespace {

using c10d::ReduceOp;

// 16-bit floats on a library without mpix: user-defined operations on two-byte elements.
template <class T, class Combine>
void combine_16(void* in, void* inout, MPI_Count* count, MPI_Datatype*) {
    const T* a = static_cast<const T*>(in);
    T* b = static_cast<T*>(inout);
    for (MPI_Count i = 0; i < *count; ++i)
        b[i] = static_cast<T>(Combine{}(static_cast<float>(a[i]), static_cast<float>(b[i])));
}

struct Minimum {
    float operator()(float a, float b) const { return a < b ? a : b; }
};
struct Maximum {
    float operator()(float a, float b) const { return a > b ? a : b; }
};

template <class T, class Combine> MPI_Op made_op() {
    static const MPI_Op op = [] {
        MPI_Op made = MPI_OP_NULL;
        mpi().Op_create_c(combine_16<T, Combine>, 1, &made);
        return made;
    }();
    return op;
}

template <class T> MPI_Op stand_in_op(MPI_Op op) {
    if (op == MPI_SUM) return made_op<T, std::plus<float>>();
    if (op == MPI_PROD) return made_op<T, std::multiplies<float>>();
    if (op == MPI_MIN) return made_op<T, Minimum>();
    if (op == MPI_MAX) return made_op<T, Maximum>();
    return MPI_OP_NULL;
}

MPI_Datatype integer_type(at::ScalarType dtype) {
    switch (dtype) {
    case at::kByte: return MPI_UINT8_T;
    case at::kChar: return MPI_INT8_T;
    case at::kShort: return MPI_INT16_T;
    case at::kInt: return MPI_INT32_T;
    case at::kLong: return MPI_INT64_T;
    case at::kUInt16: return MPI_UINT16_T;
    case at::kUInt32: return MPI_UINT32_T;
    case at::kUInt64: return MPI_UINT64_T;
    default: return MPI_DATATYPE_NULL;
    }
}

MPI_Datatype floating_type(at::ScalarType dtype) {
    switch (dtype) {
    case at::kFloat: return MPI_FLOAT;
    case at::kDouble: return MPI_DOUBLE;
    case at::kHalf: return float16_type();
    case at::kBFloat16: return bfloat16_type();
    default: return MPI_DATATYPE_NULL;
    }
}

MPI_Op predefined_op(ReduceOp::RedOpType op) {
    switch (op) {
    case ReduceOp::SUM:
    case ReduceOp::AVG:
    case ReduceOp::PREMUL_SUM: return MPI_SUM;
    case ReduceOp::PRODUCT: return MPI_PROD;
    case ReduceOp::MIN: return MPI_MIN;
    case ReduceOp::MAX: return MPI_MAX;
    case ReduceOp::BAND: return MPI_BAND;
    case ReduceOp::BOR: return MPI_BOR;
    case ReduceOp::BXOR: return MPI_BXOR;
    default: return MPI_OP_NULL;
    }
}

const char* op_name(ReduceOp::RedOpType op) {
    static const char* const names[] = {"SUM",  "AVG", "PRODUCT", "MIN",        "MAX",
                                        "BAND", "BOR", "BXOR",    "PREMUL_SUM", "UNUSED"};
    return names[std::min<size_t>(op, 9)];
}

// Booleans are bytes of 0 and 1: sum and maximum are "or", product and minimum are "and", as torch
// has it.
Reduction boolean_reduction(ReduceOp::RedOpType op) {
    switch (op) {
    case ReduceOp::SUM:
    case ReduceOp::MAX:
    case ReduceOp::BOR: return {MPI_UINT8_T, MPI_MAX};
    case ReduceOp::PRODUCT:
    case ReduceOp::MIN:
    case ReduceOp::BAND: return {MPI_UINT8_T, MPI_MIN};
    case ReduceOp::BXOR: return {MPI_UINT8_T, MPI_BXOR};
    default: return {};
    }
}

// torch's own division lacks these types.
template <class T> void divide_elements(const at::Tensor& t, int64_t divisor) {
    T* values = static_cast<T*>(t.data_ptr());
    for (int64_t i = 0; i < t.numel(); ++i) values[i] /= static_cast<T>(divisor);
}

bool is_bitwise(MPI_Op op) { return op == MPI_BAND || op == MPI_BOR || op == MPI_BXOR; }

Reduction lookup(at::ScalarType dtype, ReduceOp::RedOpType kind) {
    if (dtype == at::kBool) return boolean_reduction(kind);
    const MPI_Op op = predefined_op(kind);
    const bool average = kind == ReduceOp::AVG;
    if (op == MPI_OP_NULL) return {};
    if (MPI_Datatype type = integer_type(dtype); type != MPI_DATATYPE_NULL)
        return {type, op, average};
    if (is_bitwise(op)) return {};
    if (dtype == at::kComplexFloat || dtype == at::kComplexDouble) {
        if (op != MPI_SUM && op != MPI_PROD) return {};
        return {dtype == at::kComplexFloat ? MPI_C_FLOAT_COMPLEX : MPI_C_DOUBLE_COMPLEX, op,
                average};
    }
    const MPI_Datatype type = floating_type(dtype);
    if (type == MPI_DATATYPE_NULL) return {};
    if (!has_mpix() && dtype == at::kHalf) return {type, stand_in_op<at::Half>(op), average};
    if (!has_mpix() && dtype == at::kBFloat16)
        return {type, stand_in_op<at::BFloat16>(op), average};
    return {type, op, average};
}

}  // namespace

std::string reduction_refused(at::ScalarType dtype, const ReduceOp& op) {
    const std::string what =
        std::string("Reduction ") + op_name(op.op_) + " of " + at::toString(dtype);
    if (is_premultiplied(op)) {
        if (at::isIntegralType(dtype, /*includeBool=*/true))
            return filled(messages::factor_of_integers, what);
        const auto* extra = dynamic_cast<c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
        if (extra == nullptr) return filled(messages::factor_missing, what);
    }
    if (lookup(dtype, op.op_).op != MPI_OP_NULL) return {};
    return filled(messages::reduction_undefined, what);
}

Reduction reduction_for(at::ScalarType dtype, const ReduceOp& op) {
    const Reduction found = lookup(dtype, op.op_);
    TORCH_CHECK_VALUE(found.op != MPI_OP_NULL, reduction_refused(dtype, op));
    return found;
}

at::Tensor premultiplied(const at::Tensor& tensor, const ReduceOp& op) {
    const auto& extra = dynamic_cast<const c10d::NCCLPreMulSumSupplement&>(*op.supplement_);
    if (extra.tensor_factor.defined())
        return tensor.mul(extra.tensor_factor.to(tensor.device(), tensor.scalar_type()).squeeze());
    return tensor.mul(extra.double_factor);
}

void* address_of(const at::Tensor& t) {
    static char nowhere[64];
    void* data = t.data_ptr();
    return data != nullptr ? data : nowhere;
}

void divide(const at::Tensor& t, int64_t divisor) {
    if (t.scalar_type() == at::kUInt16) return divide_elements<uint16_t>(t, divisor);
    if (t.scalar_type() == at::kUInt32) return divide_elements<uint32_t>(t, divisor);
    if (t.scalar_type() == at::kUInt64) return divide_elements<uint64_t>(t, divisor);
    at::Tensor writable = t;
    if (at::isIntegralType(t.scalar_type(), /*includeBool=*/false)) writable.div_(divisor, "trunc");
    else writable.div_(divisor);
}

}  // namespace pomona::glue
