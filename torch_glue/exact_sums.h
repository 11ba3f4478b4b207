// exact_sums.h: the sums of an operation as whole numbers (glue_sum=reproducible).
// Idea: of each piece of a tensor the ranks first take the highest grades (a maximum of one or two
// bytes a value), then each makes its values whole numbers by these, and those are added
// (fixed_point.h). Each value of the result has a grade of its own, so its bits depend on the
// summands at its place alone: not on its neighbours, on how tensors are dealt into buckets and
// parts, nor on which operation it is. Pieces overlap: while the words of one are added, those of
// the next are made.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "torch_glue/library.h"

namespace pomona::glue {

class Flow;

// One tensor's sum.
struct ExactSum {
    at::Tensor source;           // flat, in the host's memory when MPI is called
    at::Tensor target;           // likewise; the source, too. Undefined: this rank gets nothing
    int root = -1;               // the one rank that gets it; negative: see `parts`
    std::vector<int64_t> parts;  // values of each rank's own part; empty: all get the whole
    int64_t divisor = 1;
    std::function<void()> after;  // adds to the last stage what is done with the target
};

// Of floats and complex numbers. Other sums know no order anyway.
bool has_exact_sum(at::ScalarType dtype);
int most_ranks_of_exact_sums();

class ExactSums : public std::enable_shared_from_this<ExactSums> {
public:
    // Adds their stages to the flow: the same sums on all ranks, in pieces of at most `piece_bytes`
    // bytes of words.
    static void plan(Flow& flow, int rank, int64_t piece_bytes, std::vector<ExactSum> sums);

private:
    struct Piece {
        size_t sum = 0;
        std::vector<int64_t> first, count;  // of each part: values of the source
        int64_t values = 0;                 // of all parts
        int64_t target_first = 0;           // where this rank's values go
        bool last = false;                  // of its sum
    };
    // What MPI is given of one piece; pieces use a few of them in turn.
    struct Slot {
        std::vector<uint8_t> grades;
        std::vector<int64_t> words;
        std::vector<MPI_Count> counts;  // words of each part
    };
    // A piece's maximum is called when that of two before is over: at most so many have a slot.
    static constexpr size_t kAhead = 2, kSlots = 2 * kAhead;

    ExactSums(Flow& flow, int rank) : flow_(flow), rank_(rank) {}
    void add_pieces(size_t sum, int64_t piece_bytes);
    void begin_piece(size_t number);
    void add_piece(size_t number);
    template <class Float> void make_grades(const Piece& piece, Slot& slot) const;
    template <class Float> void make_words(const Piece& piece, Slot& slot) const;
    template <class Float> void read_words(const Piece& piece, const Slot& slot) const;
    int call_sum(const Piece& piece, Slot& slot, MPI_Comm comm, MPI_Request* request) const;
    Slot& slot_of(size_t number) { return slots_[number % kSlots]; }

    Flow& flow_;
    const int rank_;
    std::vector<ExactSum> sums_;
    std::vector<Piece> pieces_;
    std::array<Slot, kSlots> slots_;
};

}  // namespace pomona::glue
