// values.h: numbers with known reductions, in every element type the benchmark offers.
// Idea: value(rank, index) is a small whole number, so that sums are exact in every type and in
// every order, and it repeats only every 251 elements, so that what any rank must hold is a
// table of 251 numbers and each element of a large result is checked cheaply.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "bench_mpi.h"

namespace pomona::bench {

constexpr size_t kPeriod = 251;

enum class ElementKind { Float, Double, Int32, Int64, Uint8 };
enum class OpKind { Sum, Prod, Min, Max };

struct ElementType {
    const char* name;
    ElementKind kind;
    size_t bytes;
    MPI_Datatype mpi;
};

struct Operation {
    const char* name;
    OpKind kind;
    MPI_Op mpi;
};

const ElementType* find_type(const std::string& name);
const Operation* find_operation(const std::string& name);
std::vector<std::string> type_names();
std::vector<std::string> operation_names();

long value(OpKind op, int ranks, int rank, size_t index);
long reduced(OpKind op, int ranks, int first, int last, size_t index);  // over ranks first..last

void store(const ElementType& type, void* data, size_t index, long number);
double load(const ElementType& type, const void* data, size_t index);
bool same(const ElementType& type, double found, long expected);

}  // namespace pomona::bench
