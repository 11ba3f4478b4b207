// mpi/object/formats.cc: see formats.h.
#include "mpi/object/formats.h"

#include "btl/base/format.h"

#include <cfloat>
#include <cwchar>
#include <type_traits>

namespace pomona {

Formats Formats::here() {
    return {sizeof(long double), LDBL_MANT_DIG, sizeof(wchar_t), std::is_signed_v<wchar_t>};
}

std::optional<Formats> Formats::parse(ConstBytes bytes) {
    Reader in(bytes);
    Formats out;
    out.long_double_bytes = in.get<uint8_t>();
    out.long_double_digits = in.get<uint8_t>();
    out.wide_bytes = in.get<uint8_t>();
    out.wide_signed = in.get<uint8_t>();
    if (in.failed() || in.left() != 0) return std::nullopt;
    return out;
}

std::vector<std::byte> Formats::pack() const {
    Writer out;
    out.put(long_double_bytes);
    out.put(long_double_digits);
    out.put(wide_bytes);
    out.put(wide_signed);
    return out.bytes();
}

unsigned Formats::differing(const Formats& other) const {
    bool reals = long_double_bytes != other.long_double_bytes ||
                 long_double_digits != other.long_double_digits;
    bool letters = wide_bytes != other.wide_bytes || wide_signed != other.wide_signed;
    return (reals ? kLongDouble : 0) | (letters ? kWideCharacter : 0);
}

std::string Formats::text(unsigned which) const {
    if (which & kLongDouble)
        return format("long double of {} bytes ({} binary digits)", long_double_bytes,
                      long_double_digits);
    return format("wchar_t of {} bytes ({})", wide_bytes, wide_signed ? "signed" : "unsigned");
}

}  // namespace pomona
