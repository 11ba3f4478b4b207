// mpi/object/datatype_predefined.cc: the table of predefined datatypes.
// One row per type: its C type gives size and alignment, so that each platform has its own (long
// double has 8 or 16 bytes); Fortran's default INTEGER, REAL and LOGICAL are those of every current
// compiler, 4 bytes. Reductions see the type of the same bits that accel knows.
#include "mpi/object/datatype.h"

#include "btl/base/check.h"
#include "mpi/object/formats.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <mutex>

namespace pomona {
namespace {

struct Row {
    MPI_Datatype handle;
    const char* name;
    MPI_Count size;
    int alignment;
    std::optional<ElementType> element;
};

template <class T> constexpr ElementType integer_of() {
    constexpr bool is_signed = static_cast<T>(-1) < static_cast<T>(0);
    switch (sizeof(T)) {
    case 1: return is_signed ? ElementType::i8 : ElementType::u8;
    case 2: return is_signed ? ElementType::i16 : ElementType::u16;
    case 4: return is_signed ? ElementType::i32 : ElementType::u32;
    default: return is_signed ? ElementType::i64 : ElementType::u64;
    }
}

template <class T> Row typed(MPI_Datatype handle, const char* name, std::optional<ElementType> e) {
    return {handle, name, sizeof(T), alignof(T), e};
}

#define INTEGER(name, T) typed<T>(name, #name, integer_of<T>())
#define TYPED(name, T, element) typed<T>(name, #name, ElementType::element)
#define OPAQUE(name, T) typed<T>(name, #name, std::nullopt)

const std::vector<Row>& rows() {
    static const std::vector<Row> table = {
        INTEGER(MPI_AINT, MPI_Aint), INTEGER(MPI_COUNT, MPI_Count), INTEGER(MPI_OFFSET, MPI_Offset),
        OPAQUE(MPI_PACKED, char), INTEGER(MPI_SHORT, short), INTEGER(MPI_INT, int),
        INTEGER(MPI_LONG, long),
        typed<long long>(MPI_LONG_LONG_INT, "MPI_LONG_LONG_INT", integer_of<long long>()),
        INTEGER(MPI_UNSIGNED_SHORT, unsigned short), INTEGER(MPI_UNSIGNED, unsigned),
        INTEGER(MPI_UNSIGNED_LONG, unsigned long),
        INTEGER(MPI_UNSIGNED_LONG_LONG, unsigned long long), TYPED(MPI_FLOAT, float, f32),
        TYPED(MPI_C_COMPLEX, Complex<float>, complex_f32),  // MPI_C_FLOAT_COMPLEX is a synonym
        TYPED(MPI_CXX_FLOAT_COMPLEX, Complex<float>, complex_f32), TYPED(MPI_DOUBLE, double, f64),
        TYPED(MPI_C_DOUBLE_COMPLEX, Complex<double>, complex_f64),
        TYPED(MPI_CXX_DOUBLE_COMPLEX, Complex<double>, complex_f64),
        TYPED(MPI_LOGICAL, int32_t, logical32), TYPED(MPI_INTEGER, int32_t, i32),
        TYPED(MPI_REAL, float, f32), TYPED(MPI_COMPLEX, Complex<float>, complex_f32),
        TYPED(MPI_DOUBLE_PRECISION, double, f64),
        TYPED(MPI_DOUBLE_COMPLEX, Complex<double>, complex_f64), OPAQUE(MPI_CHARACTER, char),
        TYPED(MPI_LONG_DOUBLE, long double, long_double),
        TYPED(MPI_C_LONG_DOUBLE_COMPLEX, Complex<long double>, complex_long_double),
        TYPED(MPI_CXX_LONG_DOUBLE_COMPLEX, Complex<long double>, complex_long_double),
        TYPED(MPI_C_BOOL, bool, logical8), TYPED(MPI_CXX_BOOL, bool, logical8),
        OPAQUE(MPI_WCHAR, wchar_t), INTEGER(MPI_INT8_T, int8_t), INTEGER(MPI_UINT8_T, uint8_t),
        // No C integer for the standard (table 6.3), but codes reduce it, and other libraries let
        // them.
        INTEGER(MPI_CHAR, char), INTEGER(MPI_SIGNED_CHAR, signed char),
        INTEGER(MPI_UNSIGNED_CHAR, unsigned char), TYPED(MPI_BYTE, char, byte),
        INTEGER(MPI_INT16_T, int16_t), INTEGER(MPI_UINT16_T, uint16_t),
        INTEGER(MPI_INT32_T, int32_t), INTEGER(MPI_UINT32_T, uint32_t),
        INTEGER(MPI_INT64_T, int64_t), INTEGER(MPI_UINT64_T, uint64_t),
        TYPED(MPI_LOGICAL1, int8_t, logical8), TYPED(MPI_INTEGER1, int8_t, i8),
        TYPED(MPI_LOGICAL2, int16_t, logical16), TYPED(MPI_INTEGER2, int16_t, i16),
        TYPED(MPI_REAL2, Float16, f16), TYPED(MPI_LOGICAL4, int32_t, logical32),
        TYPED(MPI_INTEGER4, int32_t, i32), TYPED(MPI_REAL4, float, f32),
        TYPED(MPI_COMPLEX4, Complex<Float16>, complex_f16), TYPED(MPI_LOGICAL8, int64_t, logical64),
        TYPED(MPI_INTEGER8, int64_t, i64), TYPED(MPI_REAL8, double, f64),
        TYPED(MPI_COMPLEX8, Complex<float>, complex_f32), TYPED(MPI_LOGICAL16, Int128, logical128),
        TYPED(MPI_INTEGER16, Int128, i128), TYPED(MPI_REAL16, Float128, f128),
        TYPED(MPI_COMPLEX16, Complex<double>, complex_f64),
        TYPED(MPI_COMPLEX32, Complex<Float128>, complex_f128)};
    return table;
}

struct PairRow {
    MPI_Datatype handle;
    const char* name;
    MPI_Datatype value, index;
    MPI_Count index_offset, extent;
    int alignment;
    ElementType element;
};

template <class P> PairRow pair(MPI_Datatype handle, const char* name, MPI_Datatype value,
                                MPI_Datatype index, ElementType element) {
    return {handle, name, value, index, offsetof(P, index), sizeof(P), alignof(P), element};
}

#define PAIR(name, P, value, index, element)                                                       \
    pair<P>(name, #name, value, index, ElementType::element)

const std::vector<PairRow>& pair_rows() {
    static const std::vector<PairRow> table = {
        PAIR(MPI_FLOAT_INT, PairOf<float>, MPI_FLOAT, MPI_INT, float_int),
        PAIR(MPI_DOUBLE_INT, PairOf<double>, MPI_DOUBLE, MPI_INT, double_int),
        PAIR(MPI_LONG_INT, PairOf<long>, MPI_LONG, MPI_INT, long_int),
        PAIR(MPI_2INT, PairOf<int>, MPI_INT, MPI_INT, int_int),
        PAIR(MPI_SHORT_INT, PairOf<short>, MPI_SHORT, MPI_INT, short_int),
        PAIR(MPI_LONG_DOUBLE_INT, PairOf<long double>, MPI_LONG_DOUBLE, MPI_INT, long_double_int),
        PAIR(MPI_2REAL, PairOf2<float>, MPI_REAL, MPI_REAL, f32_f32),
        PAIR(MPI_2DOUBLE_PRECISION, PairOf2<double>, MPI_DOUBLE_PRECISION, MPI_DOUBLE_PRECISION,
             f64_f64),
        PAIR(MPI_2INTEGER, PairOf2<int32_t>, MPI_INTEGER, MPI_INTEGER, i32_i32)};
    return table;
}

constexpr uintptr_t kFirst = 0x200, kEnd = 0x300;  // handle values of datatypes

uintptr_t bits_of(MPI_Datatype handle) { return reinterpret_cast<uintptr_t>(handle); }

}  // namespace

struct Predefined {
    Datatype* types[kEnd - kFirst] = {};
    Datatype* bfloat16;
    Datatype* float16;

    Predefined() {
        for (const Row& row : rows()) at(row.handle) = make(row);
        for (const PairRow& row : pair_rows()) at(row.handle) = make_pair(row);
        bfloat16 = make({nullptr, "MPIX_BFLOAT16", 2, 2, ElementType::bf16});
        float16 = make({nullptr, "MPIX_FLOAT16", 2, 2, ElementType::f16});
    }
    static unsigned varies(const Row& row) {
        if (row.handle == MPI_WCHAR) return kWideCharacter;
        bool real = row.element == ElementType::long_double ||
                    row.element == ElementType::complex_long_double ||
                    row.element == ElementType::long_double_int;
        return real ? kLongDouble : 0;
    }
    Datatype*& at(MPI_Datatype handle) { return types[bits_of(handle) - kFirst]; }

    // Lives until the program ends.
    static Datatype* make(const Row& row) {
        auto* type = new Datatype;
        type->builtin_handle = static_cast<uint16_t>(bits_of(row.handle));
        type->name = row.name;
        type->size_ = type->ub_ = type->true_ub_ = row.size;
        type->alignment_ = static_cast<uint16_t>(row.alignment);
        type->element_ = row.element;
        type->basics_ = 1;
        type->layout_ = Layout::block(row.size);
        type->permanent = true;
        type->varies_ = static_cast<uint8_t>(varies(row));
        type->commit();
        return type;
    }
    Datatype* make_pair(const PairRow& row) {
        const Datatype* value = at(row.value);
        const Datatype* index = at(row.index);
        auto* type =
            make({row.handle, row.name, value->size() + index->size(), row.alignment, row.element});
        type->ub_ = row.extent;
        type->true_ub_ = row.index_offset + index->size();
        type->basics_ = 2;
        type->pair_[0] = value;
        type->pair_[1] = index;
        MPI_Count offsets[2] = {0, row.index_offset}, lengths[2] = {value->size(), index->size()};
        type->layout_ = Layout::blocks(2, offsets, lengths, 1);
        type->one_block_ = type->layout_.form == Layout::Form::block;
        type->contiguous_ = type->one_block_ && type->size_ == row.extent;
        type->commit();
        return type;
    }
    static Predefined& all() {
        static Predefined& made = *new Predefined;
        return made;
    }
};

Datatype& Datatype::of(MPI_Datatype predefined) {
    uintptr_t bits = bits_of(predefined);
    check(bits >= kFirst && bits < kEnd, bits);
    Datatype* found = Predefined::all().types[bits - kFirst];
    check(found != nullptr, bits);
    return *found;
}

void Datatype::each_predefined(const std::function<void(MPI_Datatype, Datatype&)>& visit) {
    Predefined& all = Predefined::all();
    for (uintptr_t bits = kFirst; bits < kEnd; ++bits)
        if (Datatype* type = all.types[bits - kFirst])
            visit(reinterpret_cast<MPI_Datatype>(bits), *type);
}

static std::atomic<unsigned> unlike_in_job{0};

void Datatype::commit() {
    committed = true;
    constexpr MPI_Count most = std::numeric_limits<MPI_Count>::max();
    MPI_Count reach = std::max(std::abs(std::max(extent(), -most)), size_);
    count_most_ = size_ > 0 ? most / reach : most;
    plain = ((varies_ | kWatched) & unlike_in_job.load(std::memory_order_relaxed)) == 0 &&
            reach <= kReachPlain;
}

// Ranks that are threads of one process share these types: the first one marks them, and nobody
// uses them before it has been here.
void Datatype::set_unlike(unsigned formats) {
    static std::mutex mutex;
    std::lock_guard guard(mutex);
    unsigned before = unlike_in_job.fetch_or(formats, std::memory_order_relaxed);
    if ((before & formats) == formats) return;
    each_predefined([](MPI_Datatype, Datatype& type) { type.commit(); });
}

Datatype& Datatype::bfloat16() { return *Predefined::all().bfloat16; }
Datatype& Datatype::float16() { return *Predefined::all().float16; }

}  // namespace pomona
