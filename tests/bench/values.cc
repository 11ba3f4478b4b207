// values.cc: the value table, and loads and stores by element type.
#include "values.h"

#include <algorithm>
#include <cstdint>

namespace pomona::bench {

namespace {

// Not constants: some libraries' handles are addresses known only when the program runs.
const std::vector<ElementType>& types() {
    static const std::vector<ElementType> all = {
        {"float", ElementKind::Float, 4, MPI_FLOAT},
        {"double", ElementKind::Double, 8, MPI_DOUBLE},
        {"int32", ElementKind::Int32, 4, MPI_INT32_T},
        {"int64", ElementKind::Int64, 8, MPI_INT64_T},
        {"uint8", ElementKind::Uint8, 1, MPI_UINT8_T},
    };
    return all;
}

const std::vector<Operation>& operations() {
    static const std::vector<Operation> all = {
        {"sum", OpKind::Sum, MPI_SUM},
        {"prod", OpKind::Prod, MPI_PROD},
        {"min", OpKind::Min, MPI_MIN},
        {"max", OpKind::Max, MPI_MAX},
    };
    return all;
}

template <class T> T& element(void* data, size_t index) { return static_cast<T*>(data)[index]; }

}  // namespace

const ElementType* find_type(const std::string& name) {
    for (const auto& type : types())
        if (name == type.name) return &type;
    return nullptr;
}

const Operation* find_operation(const std::string& name) {
    for (const auto& op : operations())
        if (name == op.name) return &op;
    return nullptr;
}

std::vector<std::string> type_names() {
    std::vector<std::string> out;
    for (const auto& type : types()) out.push_back(type.name);
    return out;
}

std::vector<std::string> operation_names() {
    std::vector<std::string> out;
    for (const auto& op : operations()) out.push_back(op.name);
    return out;
}

// Products stay small because only one rank in turn holds a 2.
long value(OpKind op, int ranks, int rank, size_t index) {
    size_t i = index % kPeriod;
    if (op == OpKind::Prod) return i % size_t(ranks) == size_t(rank) ? 2 : 1;
    return 1 + long((i * 3 + size_t(rank) * 5) % 7);
}

long reduced(OpKind op, int ranks, int first, int last, size_t index) {
    long out = value(op, ranks, first, index);
    for (int rank = first + 1; rank <= last; ++rank) {
        long other = value(op, ranks, rank, index);
        switch (op) {
        case OpKind::Sum: out += other; break;
        case OpKind::Prod: out *= other; break;
        case OpKind::Min: out = std::min(out, other); break;
        case OpKind::Max: out = std::max(out, other); break;
        }
    }
    return out;
}

void store(const ElementType& type, void* data, size_t index, long number) {
    switch (type.kind) {
    case ElementKind::Float: element<float>(data, index) = float(number); break;
    case ElementKind::Double: element<double>(data, index) = double(number); break;
    case ElementKind::Int32: element<int32_t>(data, index) = int32_t(number); break;
    case ElementKind::Int64: element<int64_t>(data, index) = int64_t(number); break;
    case ElementKind::Uint8: element<uint8_t>(data, index) = uint8_t(number); break;
    }
}

double load(const ElementType& type, const void* data, size_t index) {
    void* from = const_cast<void*>(data);
    switch (type.kind) {
    case ElementKind::Float: return double(element<float>(from, index));
    case ElementKind::Double: return element<double>(from, index);
    case ElementKind::Int32: return double(element<int32_t>(from, index));
    case ElementKind::Int64: return double(element<int64_t>(from, index));
    case ElementKind::Uint8: return double(element<uint8_t>(from, index));
    }
    return 0;
}

// Unsigned bytes wrap around as the standard's unsigned arithmetic does.
bool same(const ElementType& type, double found, long expected) {
    if (type.kind == ElementKind::Uint8) return found == double(uint8_t(expected));
    return found == double(expected);
}

}  // namespace pomona::bench
