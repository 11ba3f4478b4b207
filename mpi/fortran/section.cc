// mpi/fortran/section.cc: sections with gaps as datatypes, and copied.
#include "mpi/fortran/section.h"

#include <mutex>

namespace pomona::fortran {

namespace {

MPI_Count elements_of(const Descriptor& section) {
    MPI_Count count = 1;
    for (int i = 0; i < section.rank; ++i) count *= section.dimensions[i].extent;
    return count;
}

// A datatype for the first `units` elements of a section, made of pieces: whole rows, whole planes,
// and what is left of each at the end.
class Description {
public:
    Description(const Descriptor& section, MPI_Datatype unit) : section_(section) {
        levels_.push_back(unit);
    }
    ~Description() {
        for (size_t i = 1; i < levels_.size(); ++i) PMPI_Type_free(&levels_[i]);
        for (MPI_Datatype& piece : pieces_)
            if (piece != levels_[0]) PMPI_Type_free(&piece);
    }
    MPI_Datatype make(MPI_Count units) {
        MPI_Count below = 1;
        std::vector<MPI_Count> in_level;  // units in one element of each dimension
        for (int i = 0; i < section_.rank; ++i) {
            in_level.push_back(below);
            below *= section_.dimensions[i].extent;
            if (i + 1 < section_.rank)
                levels_.push_back(row(i, section_.dimensions[i].extent, levels_.back()));
        }
        MPI_Count place = 0;
        for (int i = section_.rank - 1; i >= 0 && units > 0; --i) {
            MPI_Count whole = units / in_level[static_cast<size_t>(i)];
            if (whole == 0) continue;
            pieces_.push_back(row(i, whole, levels_[static_cast<size_t>(i)]));
            places_.push_back(place);
            place += whole * section_.dimensions[i].stride_bytes;
            units -= whole * in_level[static_cast<size_t>(i)];
        }
        MPI_Datatype made = MPI_DATATYPE_NULL;
        std::vector<MPI_Count> ones(pieces_.size(), 1);
        PMPI_Type_create_struct_c(static_cast<MPI_Count>(pieces_.size()), ones.data(),
                                  places_.data(), pieces_.data(), &made);
        return made;
    }

private:
    MPI_Datatype row(int dimension, MPI_Count count, MPI_Datatype of) const {
        MPI_Datatype made = MPI_DATATYPE_NULL;
        PMPI_Type_create_hvector_c(count, 1, section_.dimensions[dimension].stride_bytes, of,
                                   &made);
        return made;
    }

    const Descriptor& section_;
    std::vector<MPI_Datatype> levels_;
    std::vector<MPI_Datatype> pieces_;
    std::vector<MPI_Count> places_;
};

}  // namespace

bool contiguous(const Descriptor& descriptor) {
    auto dense = static_cast<ptrdiff_t>(descriptor.element_bytes);
    for (int i = 0; i < descriptor.rank; ++i) {
        const auto& dimension = descriptor.dimensions[i];
        if (dimension.extent == 0) return true;
        // One element has no gaps, whatever the stride says.
        if (dimension.extent != 1 && dimension.stride_bytes != dense) return false;
        dense *= dimension.extent;
    }
    return true;
}

Copy::Copy(const Descriptor& section, Direction direction)
    : section_(copy_of(section)), direction_(direction),
      bytes_(new char[static_cast<size_t>(elements_of(section)) * section.element_bytes]) {}

// Calls move(place in the section, place in the copy) for each element, in the order of Fortran.
template <class Move> void Copy::each_run(Move move) {
    ptrdiff_t index[15] = {};
    auto* place = static_cast<char*>(section_.base);
    char* dense = bytes_.get();
    for (MPI_Count left = elements_of(section_); left > 0;
         --left, dense += section_.element_bytes) {
        move(place, dense);
        for (int i = 0; i < section_.rank; ++i) {
            const auto& dimension = section_.dimensions[i];
            place += dimension.stride_bytes;
            if (++index[i] < dimension.extent) break;
            place -= dimension.extent * dimension.stride_bytes;
            index[i] = 0;
        }
    }
}

void Copy::fill() {
    // For results too: what the call leaves alone must come back as it was.
    each_run(
        [this](char* place, char* dense) { std::memcpy(dense, place, section_.element_bytes); });
}

void Copy::empty() {
    if (direction_ == Direction::in) return;
    each_run(
        [this](char* place, char* dense) { std::memcpy(place, dense, section_.element_bytes); });
}

void Reach::add(MPI_Count count, MPI_Datatype type, MPI_Count at) {
    if (count <= 0 || type == MPI_DATATYPE_NULL) return;
    MPI_Count bound = 0, extent = 0, true_bound = 0, true_extent = 0;
    PMPI_Type_get_extent_c(type, &bound, &extent);
    PMPI_Type_get_true_extent_c(type, &true_bound, &true_extent);
    // What the elements touch: the last one may well have an extent that goes beyond the section.
    MPI_Count steps = (count - 1) * extent;
    lowest = std::min(lowest, at + true_bound + std::min<MPI_Count>(steps, 0));
    highest = std::max(highest, at + true_bound + true_extent + std::max<MPI_Count>(steps, 0));
}

bool Reach::within(const Descriptor& section) const {
    return lowest >= 0 &&
           highest <= elements_of(section) * static_cast<MPI_Count>(section.element_bytes);
}

std::string Reach::problem(const char* name, const Descriptor& section) const {
    if (within(section)) return {};
    if (lowest < 0) return std::string(name) + " is a section, and the datatype begins before it";
    auto element = static_cast<MPI_Count>(section.element_bytes);
    std::string has = std::to_string(elements_of(section));
    std::string needs = std::to_string(element > 0 ? (highest + element - 1) / element : highest);
    return std::string(name) + " is a section of " + has + " elements, and the call needs " + needs;
}

Whole::Whole(const Descriptor* section, Direction direction) : section_(section) {
    if (contiguous(*section) || !section->base) return;
    copy_ = std::make_unique<Copy>(*section, direction);
    copy_->fill();
}

Counted::Counted(const Descriptor* section, MPI_Count count, MPI_Datatype type, Direction direction,
                 Gaps gaps)
    : section_(section), count_(count), type_(type) {
    if (contiguous(*section) || !section->base || count <= 0) return;
    if (describe()) return;
    good_ = good_ && gaps == Gaps::copy;
    if (!good_) return;
    copy_ = std::make_unique<Copy>(*section, direction);
    copy_->fill();
}

Counted::~Counted() {
    // Communication that goes on keeps the datatype.
    if (made_ != MPI_DATATYPE_NULL) PMPI_Type_free(&made_);
}

bool Counted::describe() {
    MPI_Count size = 0, bound = 0, extent = 0, true_bound = 0, true_extent = 0;
    if (type_ == MPI_DATATYPE_NULL) return false;
    reach_.add(count_, type_);
    if (!reach_.within(*section_)) {
        good_ = false;
        return false;
    }
    PMPI_Type_size_c(type_, &size);
    PMPI_Type_get_extent_c(type_, &bound, &extent);
    PMPI_Type_get_true_extent_c(type_, &true_bound, &true_extent);
    auto element = static_cast<MPI_Count>(section_->element_bytes);
    bool gapless = bound == 0 && extent == size && true_bound == 0 && true_extent == size;
    if (!gapless || size == 0 || element % size != 0) return false;
    MPI_Count in_element = element / size;
    if (count_ % in_element != 0) return false;
    MPI_Datatype unit = type_;
    if (in_element > 1) PMPI_Type_contiguous_c(in_element, type_, &unit);
    made_ = Description(*section_, unit).make(count_ / in_element);
    if (in_element > 1) PMPI_Type_free(&unit);
    if (made_ == MPI_DATATYPE_NULL) return false;
    PMPI_Type_commit(&made_);
    type_ = made_;
    count_ = 1;
    return true;
}

std::string Counted::problem(const char* name) const {
    if (good_) return {};
    std::string reach = reach_.problem(name, *section_);
    if (!reach.empty()) return reach;
    return gaps_problem(name, *section_);
}

std::string gaps_problem(const char* name, const Descriptor& descriptor) {
    if (contiguous(descriptor)) return {};
    return std::string(name) +
           " is a section with gaps, which this function cannot take: its "
           "memory is used after the call, or by others";
}

std::string complaint(const char* function, std::initializer_list<std::string> problems) {
    for (const std::string& each : problems)
        if (!each.empty()) return std::string(function) + ": " + each;
    return std::string(function) + ": a section does not fit";
}

int buffer_error(const std::string& sentence) {
    static std::mutex mutex;
    static int code = MPI_SUCCESS;
    std::lock_guard guard(mutex);
    if (code == MPI_SUCCESS && PMPI_Add_error_code(MPI_ERR_BUFFER, &code) != MPI_SUCCESS)
        code = MPI_ERR_BUFFER;
    if (code != MPI_ERR_BUFFER) PMPI_Add_error_string(code, sentence.c_str());
    return code;
}

}  // namespace pomona::fortran
