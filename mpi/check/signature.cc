// mpi/check/signature.cc: see signature.h. The word: bit 63 says that there is one, bit 62 that the
// types are mixed. Of one type: its handle. Mixed: a hash of 40 bits, then the handles of the first
// two.
#include "mpi/check/signature.h"

#include "btl/base/format.h"

#include <algorithm>

namespace pomona {

namespace {

constexpr uint64_t kPresent = uint64_t{1} << 63, kMixed = uint64_t{1} << 62;
constexpr int kHandleBits = 10;
constexpr uint64_t kHandleMask = (1u << kHandleBits) - 1, kHashMask = (uint64_t{1} << 40) - 1;

constexpr uint64_t kPrime = (uint64_t{1} << 61) - 1;
constexpr uint64_t kBase = 0x1d4f2a6b3c59e871 % kPrime;

uint64_t multiply(uint64_t a, uint64_t b) {
    return static_cast<uint64_t>(static_cast<unsigned __int128>(a) * b % kPrime);
}

// A sequence of basic types: its polynomial, and the base to the power of its length.
struct Sequence {
    uint64_t hash = 0, power = 1;
    uint64_t first[2] = {};
    int named = 0;
    bool one_type = true, known = true;

    void add(const Datatype& basic) {
        uint64_t handle = basic.builtin_handle;
        known = known && handle != 0;
        if (named < 2) first[named++] = handle;
        one_type = one_type && handle == first[0];
        hash = (multiply(hash, kBase) + handle) % kPrime;
        power = multiply(power, kBase);
    }
    // This one, then the other.
    void append(const Sequence& other) {
        for (int i = 0; i < other.named && named < 2; ++i) first[named++] = other.first[i];
        known = known && other.known;
        one_type = one_type && other.one_type && (other.named == 0 || other.first[0] == first[0]);
        hash = (multiply(hash, other.power) + other.hash) % kPrime;
        power = multiply(power, other.power);
    }
    Sequence repeated(uint64_t times) const {
        Sequence out, square = *this;
        for (; times; times >>= 1) {
            if (times & 1) out.append(square);
            Sequence copy = square;
            square.append(copy);
        }
        return out;
    }
    uint64_t word() const {
        if (named == 0 || !known) return 0;
        if (one_type) return kPresent | first[0];
        return kPresent | kMixed | (hash & kHashMask) << (2 * kHandleBits) |
               first[0] << kHandleBits | first[1];
    }
};

// MPI_PACKED matches all; of types that have no handle (Fortran 90's are named by another) nothing
// is said.
uint64_t word_of(const Datatype& basic) {
    if (&basic == &Datatype::of(MPI_PACKED) || basic.builtin_handle == 0) return 0;
    return kPresent | basic.builtin_handle;
}

const Datatype* single(const Datatype& type) {
    const Datatype* only = type.uniform();
    return only && !only->pair(0) ? only : nullptr;
}

// Of the first `bytes` of one element; false where they end inside a basic one.
bool walk(const Datatype& type, MPI_Count bytes, Sequence& out) {
    MPI_Count left = bytes;
    type.each_basic(nullptr, 1, [&](const Datatype& basic, std::byte*) {
        if (left <= 0) return;
        left -= basic.size();
        out.add(basic);
    });
    return left == 0;
}

// Null for what no process of ours says.
const Datatype* type_of(uint64_t word) {
    const Datatype* found = nullptr;
    Datatype::each_predefined([&](MPI_Datatype handle, Datatype& type) {
        if (reinterpret_cast<uintptr_t>(handle) == (word & kHandleMask)) found = &type;
    });
    return found;
}
std::string name_of(uint64_t word) {
    const Datatype* type = type_of(word);
    return type ? type->name : "an unknown type";
}

}  // namespace

uint64_t signature_of(const Datatype& type, MPI_Count count) {
    return signature_of_prefix(type, count,
                               static_cast<size_t>(count) * static_cast<size_t>(type.size()))
        .value_or(0);
}

std::optional<uint64_t> signature_of_prefix(const Datatype& type, MPI_Count count, size_t bytes) {
    MPI_Count size = type.size();
    if (bytes == 0 || size == 0) return 0;
    if (const Datatype* only = single(type)) {
        if (bytes % static_cast<size_t>(only->size())) return std::nullopt;
        return word_of(*only);
    }
    auto whole = std::min<MPI_Count>(static_cast<MPI_Count>(bytes) / size, count);
    MPI_Count rest = static_cast<MPI_Count>(bytes) - whole * size;
    Sequence all, part;
    if (whole > 0) {
        Sequence one;
        walk(type, size, one);
        all = one.repeated(static_cast<uint64_t>(whole));
    }
    if (rest > 0 && !walk(type, rest, part)) return std::nullopt;
    all.append(part);
    return all.word();
}

std::string signature_text(uint64_t signature, size_t bytes) {
    if (!signature) return format("{} bytes", bytes);
    if (signature & kMixed)
        return format("{} bytes of mixed types that begin with {}, {}", bytes,
                      name_of(signature >> kHandleBits), name_of(signature));
    const Datatype* type = type_of(signature);
    auto size = static_cast<size_t>(type ? std::max<MPI_Count>(type->size(), 1) : 1);
    return format("{} {}", bytes / size, name_of(signature));
}

std::string elements_text(const Datatype& type, MPI_Count count) {
    if (type.predefined()) return format("{} {}", count, type.name);
    std::string named = type.name.empty() ? "a datatype" : type.name;
    auto bytes = static_cast<size_t>(type.size());
    return format("{} of {} ({})", count, named, signature_text(signature_of(type, 1), bytes));
}

}  // namespace pomona
