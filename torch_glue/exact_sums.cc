// exact_sums.cc: see exact_sums.h.
#include "torch_glue/exact_sums.h"

#include <algorithm>
#include <utility>

#include "torch_glue/fixed_point.h"
#include "torch_glue/flow.h"
#include "torch_glue/tensor.h"

namespace pomona::glue {
namespace {

bool is_double(const at::Tensor& t) { return c10::toRealValueType(t.scalar_type()) == at::kDouble; }

// Real numbers that an element is.
int64_t width(const at::Tensor& t) { return at::isComplexType(t.scalar_type()) ? 2 : 1; }

int64_t words_of(const at::Tensor& t) {
    return is_double(t) ? fixed_point::Form<double>::kWords : fixed_point::Form<float>::kWords;
}

template <class Float> Float* values_of(const at::Tensor& t) {
    return static_cast<Float*>(address_of(t));
}

template <class Float> typename fixed_point::Form<Float>::Grade* grades_of(const uint8_t* bytes) {
    return reinterpret_cast<typename fixed_point::Form<Float>::Grade*>(const_cast<uint8_t*>(bytes));
}

}  // namespace

bool has_exact_sum(at::ScalarType dtype) {
    return dtype == at::kFloat || dtype == at::kDouble || dtype == at::kComplexFloat ||
           dtype == at::kComplexDouble;
}

int most_ranks_of_exact_sums() { return fixed_point::kMostSummands; }

// ---- values and words -------------------------------------------------------------------------

template <class Float> void ExactSums::make_grades(const Piece& piece, Slot& slot) const {
    const Float* values = values_of<Float>(sums_[piece.sum].source);
    auto* grades = grades_of<Float>(slot.grades.data());
    for (size_t i = 0; i < piece.count.size(); ++i) {
        fixed_point::grade(values + piece.first[i], piece.count[i], grades);
        grades += piece.count[i];
    }
}

template <class Float> void ExactSums::make_words(const Piece& piece, Slot& slot) const {
    const Float* values = values_of<Float>(sums_[piece.sum].source);
    const auto* grades = grades_of<Float>(slot.grades.data());
    int64_t* words = slot.words.data();
    for (size_t i = 0; i < piece.count.size(); ++i) {
        fixed_point::encode(values + piece.first[i], piece.count[i], grades, words);
        grades += piece.count[i];
        words += piece.count[i] * fixed_point::Form<Float>::kWords;
    }
}

// Where each rank gets its own part, MPI leaves that at the beginning.
template <class Float> void ExactSums::read_words(const Piece& piece, const Slot& slot) const {
    const ExactSum& sum = sums_[piece.sum];
    if (!sum.target.defined()) return;
    const auto* grades = grades_of<Float>(slot.grades.data());
    const size_t own = sum.parts.empty() ? 0 : static_cast<size_t>(rank_);
    for (size_t i = 0; i < own; ++i) grades += piece.count[i];
    fixed_point::decode(slot.words.data(), piece.count[own], grades, sum.divisor,
                        values_of<Float>(sum.target) + piece.target_first);
}

// ---- pieces -----------------------------------------------------------------------------------

void ExactSums::plan(Flow& flow, int rank, int64_t piece_bytes, std::vector<ExactSum> sums) {
    const std::shared_ptr<ExactSums> all(new ExactSums(flow, rank));
    all->sums_ = std::move(sums);
    for (size_t i = 0; i < all->sums_.size(); ++i) all->add_pieces(i, piece_bytes);
    flow.set_plan([all] {
        for (size_t i = 0; i < std::min(kAhead, all->pieces_.size()); ++i) all->begin_piece(i);
    });
}

// A piece has the same run of each part.
void ExactSums::add_pieces(size_t number, int64_t piece_bytes) {
    const ExactSum& sum = sums_[number];
    std::vector<int64_t> parts = sum.parts;
    if (parts.empty()) parts.push_back(sum.source.numel());
    for (int64_t& part : parts) part *= width(sum.source);
    const int64_t longest = *std::max_element(parts.begin(), parts.end());
    const int64_t word_bytes = words_of(sum.source) * static_cast<int64_t>(sizeof(int64_t));
    const auto each =
        std::max<int64_t>(piece_bytes / word_bytes / static_cast<int64_t>(parts.size()), 1);
    int64_t done = 0;
    do {
        Piece piece;
        piece.sum = number;
        piece.target_first = done;
        int64_t begin = 0;
        for (const int64_t part : parts) {
            piece.first.push_back(begin + std::min(done, part));
            piece.count.push_back(std::clamp<int64_t>(part - done, 0, each));
            piece.values += piece.count.back();
            begin += part;
        }
        done += each;
        piece.last = done >= longest;
        pieces_.push_back(std::move(piece));
    } while (!pieces_.back().last);
}

void ExactSums::begin_piece(size_t number) {
    const Piece& piece = pieces_[number];
    const bool wide = is_double(sums_[piece.sum].source);
    Slot& slot = slot_of(number);
    slot.grades.resize(static_cast<size_t>(piece.values + 1) * (wide ? 2 : 1));
    Stage& stage = flow_.new_stage();
    // The values are there when MPI's turn comes, and not before.
    stage.calls.push_back(
        [self = shared_from_this(), &piece, &slot, wide](MPI_Comm comm, MPI_Request* request) {
            if (wide) self->make_grades<double>(piece, slot);
            else self->make_grades<float>(piece, slot);
            return mpi().Iallreduce_c(MPI_IN_PLACE, slot.grades.data(), piece.values,
                                      wide ? MPI_UINT16_T : MPI_UINT8_T, MPI_MAX, comm, request);
        });
    stage.unpacks.push_back([self = shared_from_this(), number] {
        self->add_piece(number);
        if (number + kAhead < self->pieces_.size()) self->begin_piece(number + kAhead);
        if (number + 1 == self->pieces_.size()) self->flow_.end_of_plan();
    });
}

void ExactSums::add_piece(size_t number) {
    const Piece& piece = pieces_[number];
    const ExactSum& sum = sums_[piece.sum];
    const bool wide = is_double(sum.source);
    const int64_t each = words_of(sum.source);
    Slot& slot = slot_of(number);
    slot.words.resize(static_cast<size_t>(piece.values * each + 1));
    slot.counts.clear();
    for (const int64_t count : piece.count) slot.counts.push_back(count * each);
    if (wide) make_words<double>(piece, slot);
    else make_words<float>(piece, slot);
    Stage& stage = flow_.new_stage();
    stage.calls.push_back(
        [self = shared_from_this(), &piece, &slot](MPI_Comm comm, MPI_Request* request) {
            return self->call_sum(piece, slot, comm, request);
        });
    stage.unpacks.push_back([self = shared_from_this(), &piece, &slot, wide] {
        if (wide) self->read_words<double>(piece, slot);
        else self->read_words<float>(piece, slot);
    });
    if (piece.last && sum.after) sum.after();
}

int ExactSums::call_sum(const Piece& piece, Slot& slot, MPI_Comm comm, MPI_Request* request) const {
    const ExactSum& sum = sums_[piece.sum];
    int64_t* words = slot.words.data();
    if (!sum.parts.empty())
        return mpi().Ireduce_scatter_c(MPI_IN_PLACE, words, slot.counts.data(), MPI_INT64_T,
                                       MPI_SUM, comm, request);
    const MPI_Count count = slot.counts.front();
    if (sum.root < 0)
        return mpi().Iallreduce_c(MPI_IN_PLACE, words, count, MPI_INT64_T, MPI_SUM, comm, request);
    const bool root = sum.root == rank_;
    return mpi().Ireduce_c(root ? MPI_IN_PLACE : words, root ? words : nullptr, count, MPI_INT64_T,
                           MPI_SUM, sum.root, comm, request);
}

}  // namespace pomona::glue
