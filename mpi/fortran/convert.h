// mpi/fortran/convert.h: what an argument of a Fortran call is in C: handles, strings, logicals,
// statuses, the constants that are known by their address, and descriptors of choice buffers.
// Idea: the library of Fortran stands above the functions of the standard ABI and knows nothing of
// the MPI library below, so it serves any library of that ABI. It is the same for each compiler
// that passes INTEGER as int, appends _ to external names, passes lengths of characters last, and
// lays out C descriptors as below: gfortran and LLVM flang do.
// With POMONA_FORTRAN_INTEGER8 it is the library for programs whose INTEGERs and LOGICALs have 8
// bytes (-fdefault-integer-8): single values and arrays are converted, and counts go to the
// large-count functions of C, which take them as they are.
#pragma once

#include "mpi/include/mpi.h"

#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#define POMONA_FORTRAN_EXPORT __attribute__((visibility("default")))

namespace pomona::fortran {

#if defined(POMONA_FORTRAN_INTEGER8)
using Integer = int64_t;
using Logical = int64_t;
#else
using Integer = MPI_Fint;
using Logical = int;
#endif
using Procedure = void (*)();

}  // namespace pomona::fortran

// Variables of Fortran (COMMON blocks of mpif.h, variables of the modules) whose address is their
// meaning. Defined in constants.cc; as large and aligned as compilers lay out such blocks.
extern "C" {
extern POMONA_FORTRAN_EXPORT pomona::fortran::Integer mpi_fortran_bottom_;
extern POMONA_FORTRAN_EXPORT pomona::fortran::Integer mpi_fortran_in_place_;
extern POMONA_FORTRAN_EXPORT pomona::fortran::Integer mpi_fortran_buffer_automatic_;
extern POMONA_FORTRAN_EXPORT pomona::fortran::Integer mpi_fortran_status_ignore_[MPI_F_STATUS_SIZE];
extern POMONA_FORTRAN_EXPORT pomona::fortran::Integer
    mpi_fortran_statuses_ignore_[MPI_F_STATUS_SIZE];
extern POMONA_FORTRAN_EXPORT pomona::fortran::Integer mpi_f08_status_ignore_[MPI_F_STATUS_SIZE];
extern POMONA_FORTRAN_EXPORT pomona::fortran::Integer mpi_f08_statuses_ignore_[MPI_F_STATUS_SIZE];
extern POMONA_FORTRAN_EXPORT pomona::fortran::Integer mpi_fortran_errcodes_ignore_[1];
extern POMONA_FORTRAN_EXPORT pomona::fortran::Integer mpi_fortran_unweighted_[1];
extern POMONA_FORTRAN_EXPORT pomona::fortran::Integer mpi_fortran_weights_empty_[1];
extern POMONA_FORTRAN_EXPORT char mpi_fortran_argv_null_[1];
extern POMONA_FORTRAN_EXPORT char mpi_fortran_argvs_null_[1];
}

namespace pomona::fortran {

// The start of CFI_cdesc_t, as far as gfortran's and flang's agree (F2018, 18.5.3).
struct Descriptor {
    struct Dimension {
        ptrdiff_t lower_bound;
        ptrdiff_t extent;  // -1: the last one of an assumed-size array
        ptrdiff_t stride_bytes;
    };
    void* base;
    size_t element_bytes;
    int version;
    signed char rank;
    signed char compilers_own[3];
    Dimension dimensions[15];  // a caller's has `rank` of them, and no more memory
};
static_assert(offsetof(Descriptor, dimensions) == 24);
inline Descriptor copy_of(const Descriptor& section) {
    Descriptor copy{};
    std::memcpy(&copy, &section,
                offsetof(Descriptor, dimensions) +
                    static_cast<size_t>(section.rank) * sizeof(Descriptor::Dimension));
    return copy;
}

// ---- integers

// A value that C's int cannot hold becomes the nearest one that it can: no rank, tag or count of a
// function without a large-count form is that large.
inline int narrow(Integer value) {
    return static_cast<int>(std::clamp<Integer>(value, INT_MIN, INT_MAX));
}
inline std::vector<int> narrow(const Integer* values, Integer length) {
    std::vector<int> found(length > 0 ? static_cast<size_t>(length) : 0);
    for (size_t i = 0; i < found.size(); ++i) found[i] = narrow(values[i]);
    return found;
}
inline void widen(const std::vector<int>& from, Integer* to) {
    std::copy(from.begin(), from.end(), to);
}

inline Integer sum(const Integer* values, Integer length) {
    return std::accumulate(values, values + std::max<Integer>(length, 0), Integer{0});
}
inline Integer last(const Integer* values, Integer length) {
    return length > 0 ? values[length - 1] : 0;
}

// ---- handles

template <class Handle> Handle to_c(Integer number);

#define POMONA_FORTRAN_HANDLE(Handle, name)                                                        \
    template <> inline Handle to_c<Handle>(Integer number) {                                       \
        return PMPI_##name##_fromint(narrow(number));                                              \
    }                                                                                              \
    inline Integer to_fortran(Handle handle) { return PMPI_##name##_toint(handle); }
POMONA_FORTRAN_HANDLE(MPI_Comm, Comm)
POMONA_FORTRAN_HANDLE(MPI_Group, Group)
POMONA_FORTRAN_HANDLE(MPI_Datatype, Type)
POMONA_FORTRAN_HANDLE(MPI_Op, Op)
POMONA_FORTRAN_HANDLE(MPI_Request, Request)
POMONA_FORTRAN_HANDLE(MPI_Errhandler, Errhandler)
POMONA_FORTRAN_HANDLE(MPI_Info, Info)
POMONA_FORTRAN_HANDLE(MPI_Win, Win)
POMONA_FORTRAN_HANDLE(MPI_File, File)
POMONA_FORTRAN_HANDLE(MPI_Message, Message)
POMONA_FORTRAN_HANDLE(MPI_Session, Session)
#undef POMONA_FORTRAN_HANDLE

// Of a variable that C's function may have left as it was: so does Fortran's. With an error it may
// also have been given a null handle.
template <class Handle> void give_handle(Integer* variable, Handle given) {
    if (given != Handle{}) *variable = to_fortran(given);
}

// An array of handles. It stays where it is when the object is moved to a pending request.
template <class Handle> class Handles {
public:
    // Values from Fortran; a negative length is the C function's to complain about.
    Handles(const Integer* numbers, long length)
        : handles_(std::make_unique<std::vector<Handle>>(length > 0 ? length : 0)) {
        for (size_t i = 0; i < handles_->size(); ++i) (*handles_)[i] = to_c<Handle>(numbers[i]);
    }
    // Room for results; what is not given stays as it was.
    explicit Handles(long length)
        : handles_(std::make_unique<std::vector<Handle>>(length > 0 ? length : 0)) {}
    Handle* data() { return handles_->data(); }
    Handle operator[](size_t i) const { return (*handles_)[i]; }
    size_t size() const { return handles_->size(); }
    void store(Integer* numbers) const {
        for (size_t i = 0; i < handles_->size(); ++i) give_handle(&numbers[i], (*handles_)[i]);
    }

private:
    std::unique_ptr<std::vector<Handle>> handles_;
};

// ---- logicals

inline int to_flag(Logical value) { return value != 0; }
// 1 is .true. of gfortran and flang.
inline Logical to_logical(int flag) { return flag != 0; }

class Logicals {
public:
    Logicals(const Logical* values, int length) : flags_(length > 0 ? length : 0) {
        for (size_t i = 0; i < flags_.size(); ++i) flags_[i] = to_flag(values[i]);
    }
    explicit Logicals(int length) : flags_(length > 0 ? length : 0) {}
    int* data() { return flags_.data(); }
    void store(Logical* values) const {
        for (size_t i = 0; i < flags_.size(); ++i) values[i] = to_logical(flags_[i]);
    }

private:
    std::vector<int> flags_;
};

// ---- characters

struct Characters {
    char* text;
    size_t length;
};

// Without trailing blanks; without leading ones too where the standard says so (infos).
inline std::string trimmed(Characters from, bool also_leading = false) {
    size_t begin = 0, end = from.length;
    while (end > 0 && from.text[end - 1] == ' ') --end;
    while (also_leading && begin < end && from.text[begin] == ' ') ++begin;
    return {from.text + begin, end - begin};
}
inline void pad(const char* text, Characters to) {
    size_t length = std::strlen(text);
    if (length > to.length) length = to.length;
    std::memcpy(to.text, text, length);
    std::memset(to.text + length, ' ', to.length - length);
}
// Room for any string that MPI returns.
struct Text {
    char text[MPI_MAX_LIBRARY_VERSION_STRING + 1] = "";
};

// ---- addresses with a meaning

// Of an address that is such a variable in a program or library with one of its own, the address of
// ours. Only macOS has such: there COMMON blocks of several images are not one.
const void* our_own(const void* address);
#if defined(__APPLE__)
inline bool is(const void* address, const void* variable) { return our_own(address) == variable; }
#else
inline bool is(const void* address, const void* variable) { return address == variable; }
#endif

inline void* buffer_of(const void* address) {
    if (is(address, &mpi_fortran_bottom_)) return MPI_BOTTOM;
    if (is(address, &mpi_fortran_in_place_)) return MPI_IN_PLACE;
    if (is(address, &mpi_fortran_buffer_automatic_)) return MPI_BUFFER_AUTOMATIC;
    return const_cast<void*>(address);
}
inline void* buffer_of(const Descriptor* descriptor) { return buffer_of(descriptor->base); }

inline bool is_ignored(const Integer* status) {
    return is(status, mpi_fortran_status_ignore_) || is(status, mpi_f08_status_ignore_) ||
           is(status, mpi_fortran_statuses_ignore_) || is(status, mpi_f08_statuses_ignore_);
}

// Statuses while a function of C reads or writes them. Fortran's status is C's, the same eight
// integers, unless INTEGERs have 8 bytes.
#if defined(POMONA_FORTRAN_INTEGER8)
class Statuses {
public:
    explicit Statuses(Integer* from, Integer count = 1) : from_(from) {
        if (is_ignored(from) || count <= 0) return;
        statuses_.resize(static_cast<size_t>(count));
        auto numbers = narrow(from, count * MPI_F_STATUS_SIZE);
        std::memcpy(statuses_.data(), numbers.data(), numbers.size() * sizeof(int));
    }
    ~Statuses() {
        if (statuses_.empty()) return;
        std::vector<int> numbers(statuses_.size() * MPI_F_STATUS_SIZE);
        std::memcpy(numbers.data(), statuses_.data(), numbers.size() * sizeof(int));
        widen(numbers, from_);
    }
    Statuses(const Statuses&) = delete;
    MPI_Status* data() { return statuses_.empty() ? MPI_STATUS_IGNORE : statuses_.data(); }

private:
    Integer* from_;
    std::vector<MPI_Status> statuses_;
};
#else
class Statuses {
public:
    explicit Statuses(Integer* from, Integer = 1) : from_(from) {}
    MPI_Status* data() const {
        return is_ignored(from_) ? MPI_STATUS_IGNORE : reinterpret_cast<MPI_Status*>(from_);
    }

private:
    Integer* from_;
};
#endif
static_assert(sizeof(MPI_Status) == MPI_F_STATUS_SIZE * sizeof(int));
// Weights of edges: numbers, or one of two constants.
class Weights {
public:
    Weights(Integer* from, [[maybe_unused]] Integer length) : from_(from) {
#if defined(POMONA_FORTRAN_INTEGER8)
        if (!is_constant()) numbers_ = narrow(from, length);
#endif
    }
    int* data() {
        if (is(from_, mpi_fortran_unweighted_)) return MPI_UNWEIGHTED;
        if (is(from_, mpi_fortran_weights_empty_)) return MPI_WEIGHTS_EMPTY;
#if defined(POMONA_FORTRAN_INTEGER8)
        return numbers_.data();
#else
        return from_;
#endif
    }
    // What C has written.
    void store() {
#if defined(POMONA_FORTRAN_INTEGER8)
        if (!is_constant()) widen(numbers_, from_);
#endif
    }

private:
    bool is_constant() const {
        return is(from_, mpi_fortran_unweighted_) || is(from_, mpi_fortran_weights_empty_);
    }
    Integer* from_;
#if defined(POMONA_FORTRAN_INTEGER8)
    std::vector<int> numbers_;
#endif
};

// ---- lengths of arrays that no argument tells

long peers(MPI_Comm comm);
long members(MPI_Comm comm);                // of its own group
bool at_root(MPI_Comm comm, Integer root);  // this process is it, also of an intercommunicator
long indegree(MPI_Comm comm);
long outdegree(MPI_Comm comm);
inline int dimensions(MPI_Comm comm) {
    int count = 0;
    return PMPI_Cartdim_get(comm, &count) == MPI_SUCCESS ? count : 0;
}

inline void give(Integer* ierror, int code) {
    if (ierror) *ierror = code;  // optional in mpi_f08
}

// An error code of class MPI_ERR_BUFFER whose text is this sentence, until the next one.
int buffer_error(const std::string& sentence);
// A section that can be neither described nor copied: the object's error handler decides.
inline int refuse(MPI_Comm comm, int error) {
    PMPI_Comm_call_errhandler(comm, error);
    return error;
}
inline int refuse(MPI_Comm comm, const std::string& sentence) {
    return refuse(comm, buffer_error(sentence));
}
inline int refuse(MPI_Win win, const std::string& sentence) {
    int error = buffer_error(sentence);
    PMPI_Win_call_errhandler(win, error);
    return error;
}
inline int refuse(MPI_File file, const std::string& sentence) {
    int error = buffer_error(sentence);
    PMPI_File_call_errhandler(file, error);
    return error;
}

}  // namespace pomona::fortran
