// mpi/fortran/section.h: choice buffers of mpi_f08, which may be sections with gaps.
// Idea: where count elements of a datatype make up the buffer, the section is described by a
// datatype made for the call (Counted), and nothing is copied. Where they do not (receive side of a
// gather, reductions, whose operations know no made datatypes), the section is copied to contiguous
// memory and back (Whole); for non-blocking calls when Fortran learns that the request is complete.
#pragma once

#include "mpi/fortran/convert.h"

#include <initializer_list>
#include <string>
#include <utility>

namespace pomona::fortran {

enum class Direction { in, out, both };
enum class Gaps { copy, describe_only };

bool contiguous(const Descriptor& descriptor);
// What is wrong with an argument that must be contiguous, or "".
std::string gaps_problem(const char* name, const Descriptor& descriptor);
// The first of the problems, of this function.
std::string complaint(const char* function, std::initializer_list<std::string> problems);

// Contiguous memory that stands for a section.
class Copy {
public:
    Copy(const Descriptor& section, Direction direction);
    void* data() { return bytes_.get(); }
    void fill();   // from the section, where the direction says so
    void empty();  // to the section, likewise

private:
    template <class Move> void each_run(Move move);

    Descriptor section_;
    Direction direction_;
    std::unique_ptr<char[]> bytes_;
};

// Which bytes of a section a call reaches, counted from its first, as if it had no gaps.
struct Reach {
    MPI_Count lowest = 0, highest = 0;

    // `count` elements of a datatype, from `at` bytes on.
    void add(MPI_Count count, MPI_Datatype type, MPI_Count at = 0);
    bool within(const Descriptor& section) const;
    // What is wrong with the argument of this name, or "".
    std::string problem(const char* name, const Descriptor& section) const;
};

// A buffer whose layout no (count, datatype) of the call tells alone.
class Whole {
public:
    Whole(const Descriptor* section, Direction direction);
    void* address() { return copy_ ? copy_->data() : buffer_of(section_->base); }
    // What the call reaches is told where there is a copy, which must hold it.
    bool copied() const { return copy_ != nullptr; }
    void holds(MPI_Count count, MPI_Datatype type) { reach_.add(count, type); }
    // As many blocks, of one datatype, which begin at so many elements.
    template <class Count, class Place>
    void holds(long blocks, const Count* counts, const Place* places, MPI_Datatype type) {
        MPI_Count bound = 0, extent = 0;
        if (blocks > 0) PMPI_Type_get_extent_c(type, &bound, &extent);
        for (long i = 0; i < blocks; ++i) reach_.add(counts[i], type, places[i] * extent);
    }
    // Of a datatype each, which begin at so many bytes.
    template <class Count, class Place>
    void holds(long blocks, const Count* counts, const Place* places, const MPI_Datatype* types) {
        for (long i = 0; i < blocks; ++i) reach_.add(counts[i], types[i], places[i]);
    }
    // False: the copy is too short.
    bool good() const { return !copy_ || reach_.within(*section_); }
    // The same of the argument of this name, in words; "" where it is good.
    std::string problem(const char* name) const {
        return copy_ ? reach_.problem(name, *section_) : "";
    }
    void finish() {
        if (copy_) copy_->empty();
    }
    std::unique_ptr<Copy> take_copy() { return std::move(copy_); }

private:
    const Descriptor* section_;
    std::unique_ptr<Copy> copy_;
    Reach reach_;
};

// Of MPI_Reduce_scatter: how many elements all members get together, or this one.
template <class Count> MPI_Count scattered(const Count* counts, MPI_Comm comm, bool all) {
    int rank = 0;
    if (!all) return PMPI_Comm_rank(comm, &rank) == MPI_SUCCESS ? counts[rank] : 0;
    MPI_Count sum = 0;
    for (long i = 0; i < members(comm); ++i) sum += counts[i];
    return sum;
}

// A buffer of count elements of a datatype.
class Counted {
public:
    Counted(const Descriptor* section, MPI_Count count, MPI_Datatype type, Direction direction,
            Gaps gaps = Gaps::copy);
    ~Counted();
    Counted(const Counted&) = delete;
    void* address() { return copy_ ? copy_->data() : buffer_of(section_->base); }
    template <class Count> Count count() const { return static_cast<Count>(count_); }
    MPI_Datatype type() const { return type_; }
    // False: the section is too small, or it has gaps and neither a datatype nor a copy can serve.
    bool good() const { return good_; }
    // Why not, of the argument of this name; "" where it is good.
    std::string problem(const char* name) const;
    void finish() {
        if (copy_) copy_->empty();
    }
    std::unique_ptr<Copy> take_copy() { return std::move(copy_); }

private:
    bool describe();

    const Descriptor* section_;
    MPI_Count count_;
    MPI_Datatype type_;
    MPI_Datatype made_ = MPI_DATATYPE_NULL;
    bool good_ = true;
    Reach reach_;
    std::unique_ptr<Copy> copy_;
};

}  // namespace pomona::fortran
