// mpi/object/datatype_external.cc: external32, one basic element after the other.
// Idea: every basic type is one or two numbers; a number is copied backwards, after its size has
// been changed where the standard's size differs from ours: C's long is 4 bytes there, wchar_t 2,
// long double 16 (IEEE binary128).
#include "mpi/object/datatype_external.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

namespace pomona {

// binary64 and binary128: sign, 11 or 15 bits of exponent, 52 or 112 of fraction.
constexpr int kBias = 16383 - 1023;

Quad quad_of_double(double value) {
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    uint64_t sign = bits & uint64_t{1} << 63, fraction = bits << 12 >> 12;
    int exponent = static_cast<int>(bits >> 52 & 0x7ff);
    if (exponent == 0 && fraction == 0) return {0, sign};
    if (exponent == 0) {  // denormal; normal in the wider format
        int shift = __builtin_clzll(fraction) - 11;
        fraction = fraction << shift << 12 >> 12;
        exponent = 1 - shift;
    }
    auto wide = exponent == 0x7ff ? uint64_t{0x7fff} : static_cast<uint64_t>(exponent + kBias);
    return {fraction << 60, sign | wide << 48 | fraction >> 4};
}

double double_of_quad(Quad quad) {
    int exponent = static_cast<int>(quad.high >> 48 & 0x7fff);
    uint64_t top = quad.high & 0xffffffffffff, sign = quad.high & uint64_t{1} << 63, bits;
    if (exponent == 0x7fff) {
        bits = uint64_t{0x7ff} << 52 | top << 4 | quad.low >> 60;
        if (top || quad.low) bits |= uint64_t{1} << 51;  // stays a NaN, and quiet
    } else if (exponent == 0) {
        bits = 0;  // far below the smallest double
    } else {
        // 54 bits of fraction and a sticky one, as many as fit below a denormal's place; the one
        // rounding is that of the conversion to double.
        uint64_t mantissa = (uint64_t{1} << 48 | top) << 6 | quad.low >> 58;
        bool sticky = quad.low << 6 != 0;
        int scale = exponent - 16383 - 54, lost = std::min(60, -1074 - scale - 1);
        if (lost > 0) {
            sticky |= mantissa << (64 - lost) != 0;
            mantissa >>= lost;
            scale += lost;
            // One bit below the last place is kept, and the sticky one below that.
            bits = (mantissa >> 1) + ((mantissa & 1) && (sticky || (mantissa & 2)));
        } else {
            double value = std::ldexp(static_cast<double>(mantissa | sticky), scale);
            std::memcpy(&bits, &value, sizeof bits);
        }
    }
    bits |= sign;
    double value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

namespace {

struct Number {
    size_t parts = 1;     // 2: complex
    size_t native = 1;    // bytes of one part here
    size_t external = 1;  // and there
    bool is_signed = false;
    bool is_long_double = false;
};

Number number_of(const Datatype& basic) {
    Number n;
    n.native = n.external = static_cast<size_t>(basic.size());
    auto handle = reinterpret_cast<MPI_Datatype>(static_cast<uintptr_t>(basic.builtin_handle));
    if (handle == MPI_WCHAR) n.external = 2;
    if (handle == MPI_LONG || handle == MPI_UNSIGNED_LONG) n.external = 4;
    n.is_signed = handle == MPI_LONG;
    if (!basic.element()) return n;
    if (type_family(*basic.element()) == TypeFamily::complex) {
        n.parts = 2;
        n.native /= 2;
        n.external /= 2;
    }
    if (*basic.element() == ElementType::long_double ||
        *basic.element() == ElementType::complex_long_double) {
        n.is_long_double = true;
        n.external = 16;
    }
    return n;
}

#if POMONA_HAS_FLOAT128
Quad to_quad(long double value) {
    Float128 wide = value;
    Quad quad;
    std::memcpy(&quad, &wide, sizeof quad);
    return quad;
}
long double from_quad(Quad quad) {
    Float128 wide;
    std::memcpy(&wide, &quad, sizeof quad);
    return static_cast<long double>(wide);
}
#else
static_assert(LDBL_MANT_DIG == DBL_MANT_DIG);
Quad to_quad(long double value) { return quad_of_double(static_cast<double>(value)); }
long double from_quad(Quad quad) { return double_of_quad(quad); }
#endif

void reversed(std::byte* to, const std::byte* from, size_t length) {
    for (size_t i = 0; i < length; ++i) to[i] = from[length - 1 - i];
}

void put(const Number& n, const std::byte* from, std::byte* to) {
    for (size_t part = 0; part < n.parts; ++part, from += n.native, to += n.external) {
        if (n.is_long_double) {
            long double value;
            std::memcpy(&value, from, sizeof value);
            Quad quad = to_quad(value);
            reversed(to, reinterpret_cast<const std::byte*>(&quad), sizeof quad);
        } else {
            // Little-endian: the low bytes come first, so a smaller size keeps them.
            reversed(to, from, n.external);
        }
    }
}

void get(const Number& n, const std::byte* from, std::byte* to) {
    for (size_t part = 0; part < n.parts; ++part, from += n.external, to += n.native) {
        if (n.is_long_double) {
            Quad quad;
            reversed(reinterpret_cast<std::byte*>(&quad), from, sizeof quad);
            long double value = from_quad(quad);
            std::memcpy(to, &value, sizeof value);
        } else {
            reversed(to, from, n.external);
            bool negative = n.is_signed && (from[0] & std::byte{0x80}) != std::byte{0};
            std::memset(to + n.external, negative ? 0xff : 0, n.native - n.external);
        }
    }
}

MPI_Count external_basic(const Datatype& basic) {
    Number n = number_of(basic);
    return static_cast<MPI_Count>(n.parts * n.external);
}

}  // namespace

MPI_Count external_size(const Datatype& type) {
    if (type.size() == 0) return 0;
    if (const Datatype* inner = type.wrapped()) {
        while (const Datatype* next = inner->wrapped()) inner = next;
        return external_size(*inner);
    }
    if (type.pair(0)) return external_basic(*type.pair(0)) + external_basic(*type.pair(1));
    if (type.predefined()) return external_basic(type);
    const auto& call = type.made_by();
    MPI_Count sum = 0;
    for (size_t k = 0; k < call.types.size(); ++k) {
        const Datatype& old = *call.types[k];
        if (old.size() == 0) continue;
        MPI_Count times =
            call.combiner == MPI_COMBINER_STRUCT ? call.arguments[1 + k] : type.size() / old.size();
        MPI_Count one = external_size(old), all;
        if (one < 0 || __builtin_mul_overflow(one, times, &all) ||
            __builtin_add_overflow(sum, all, &sum))
            return -1;
    }
    return sum;
}

void pack_external(const void* base, MPI_Count count, const Datatype& type, std::byte* out) {
    auto* from = const_cast<std::byte*>(static_cast<const std::byte*>(base));
    type.each_basic(from, count, [&](const Datatype& basic, std::byte* address) {
        Number n = number_of(basic);
        put(n, address, out);
        out += n.parts * n.external;
    });
}

void unpack_external(void* base, MPI_Count count, const Datatype& type, const std::byte* in) {
    auto* to = static_cast<std::byte*>(base);
    type.each_basic(to, count, [&](const Datatype& basic, std::byte* address) {
        Number n = number_of(basic);
        get(n, in, address);
        in += n.parts * n.external;
    });
}

}  // namespace pomona
