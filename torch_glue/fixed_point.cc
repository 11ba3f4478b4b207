// fixed_point.cc: see fixed_point.h.
#include "torch_glue/fixed_point.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <limits>
#include <type_traits>

namespace pomona::glue::fixed_point {
namespace {

__extension__ using Wide = unsigned __int128;
__extension__ using SignedWide = __int128;

constexpr int kUnitBits = 46;  // of a word, below its highest grade
static_assert(int64_t{kMostSummands} << kUnitBits < std::numeric_limits<int64_t>::max());

// What a word counts of summands that are no numbers.
constexpr int64_t kPlusInfinity = 1, kMinusInfinity = int64_t{1} << 17, kNan = int64_t{1} << 34;
static_assert(kMostSummands < kMinusInfinity);

template <class Float> struct Parts {
    using Bits = typename Form<Float>::Bits;
    static constexpr int kFraction = std::numeric_limits<Float>::digits - 1;  // bits
    static constexpr int kSign = sizeof(Float) * 8 - 1;
    static constexpr int kTop = (1 << (kSign - kFraction)) - 1;  // of infinities and NaN
    static constexpr int kBias = std::numeric_limits<Float>::max_exponent - 1;
    static constexpr Bits kOne = Bits{1} << kFraction;
    // How far the last bit of a value of the highest grade lies above the unit.
    static constexpr int kAbove = kUnitBits * Form<Float>::kWords - kFraction - 1;

    explicit Parts(Float value)
        : bits(std::bit_cast<Bits>(value)), field(static_cast<int>(bits >> kFraction) & kTop) {}
    bool negative() const { return bits >> kSign != 0; }
    // In units of its place(): the last bit's power of two.
    Bits magnitude() const { return (bits & (kOne - 1)) | (field > 0 ? kOne : 0); }
    static int place(int grade) { return std::max(grade, 1); }  // denormals have that of 1

    Bits bits;
    int field;
};

template <class Float> int64_t counted(const Parts<Float>& parts) {
    if (parts.field != Parts<Float>::kTop) return 0;
    if ((parts.bits & (Parts<Float>::kOne - 1)) != 0) return kNan;
    return parts.negative() ? kMinusInfinity : kPlusInfinity;
}

template <class Float> Float not_finite(int64_t word) {
    const int64_t mask = kMinusInfinity - 1;
    const bool plus = (word & mask) != 0, minus = (word / kMinusInfinity & mask) != 0;
    if (word >= kNan || (plus && minus)) return std::numeric_limits<Float>::quiet_NaN();
    return plus ? std::numeric_limits<Float>::infinity() : -std::numeric_limits<Float>::infinity();
}

// `shift` places down, halves away from zero.
template <class Word> Word rounded(Word magnitude, int shift) {
    const int down = std::min(shift, static_cast<int>(sizeof(Word) * 8) - 1);
    return (magnitude + (Word{1} << down >> 1)) >> down;
}

void put(uint64_t magnitude, bool negative, int64_t* word) {
    const auto value = static_cast<int64_t>(magnitude);
    *word = negative ? -value : value;
}

void put(Wide magnitude, bool negative, int64_t* words) {
    const Wide low = (Wide{1} << kUnitBits) - 1;
    put(static_cast<uint64_t>(magnitude >> kUnitBits), negative, words);
    put(static_cast<uint64_t>(magnitude & low), negative, words + 1);
}

// `value` x 2^`power`, where `value` is no denormal: halves to even, also below the least normal
// number.
double scaled(double value, int power) {
    const auto bits = std::bit_cast<uint64_t>(value);
    const uint64_t sign = bits >> 63 << 63, fraction = bits & (Parts<double>::kOne - 1);
    if (value == 0) return 0;
    const int field = static_cast<int>(bits >> 52 & 0x7ff) + power;
    if (field >= Parts<double>::kTop)
        return std::bit_cast<double>(sign | uint64_t{0x7ff} << 52);  // infinity
    if (field > 0)
        return std::bit_cast<double>(sign | static_cast<uint64_t>(field) << 52 | fraction);
    const int down = 1 - field;
    if (down > 54) return std::bit_cast<double>(sign);
    const uint64_t magnitude = fraction | Parts<double>::kOne;
    const uint64_t half = uint64_t{1} << (down - 1), odd = magnitude >> down & 1;
    return std::bit_cast<double>(sign | (magnitude + half - 1 + odd) >> down);
}

void take(const int64_t* word, int power, int64_t divisor, float* value) {
    double sum = static_cast<double>(*word);
    if (divisor > 1) sum /= static_cast<double>(divisor);
    sum *= std::bit_cast<double>(static_cast<uint64_t>(power + 1023) << 52);
    *value = static_cast<float>(sum);
    if (std::abs(sum) >= FLT_MIN || sum == 0) return;
    const double units = std::nearbyint(std::abs(sum) * 0x1p149);  // of denormals
    const uint32_t sign = sum < 0 ? uint32_t{1} << 31 : 0;
    *value = std::bit_cast<float>(static_cast<uint32_t>(units) | sign);
}

void take(const int64_t* words, int power, int64_t divisor, double* value) {
    const SignedWide sum = SignedWide{words[0]} * (SignedWide{1} << kUnitBits) + words[1];
    double quotient = static_cast<double>(sum);
    if (divisor > 1) quotient /= static_cast<double>(divisor);
    *value = scaled(quotient, power);
}

template <class Float> using Magnitude = std::conditional_t<sizeof(Float) == 4, uint64_t, Wide>;

}  // namespace

template <class Float>
void grade(const Float* values, int64_t count, typename Form<Float>::Grade* grades) {
    for (int64_t i = 0; i < count; ++i)
        grades[i] = static_cast<typename Form<Float>::Grade>(Parts<Float>(values[i]).field);
}

template <class Float> void encode(const Float* values, int64_t count,
                                   const typename Form<Float>::Grade* highest, int64_t* words) {
    using Of = Parts<Float>;
    constexpr int kWords = Form<Float>::kWords;
    for (int64_t i = 0; i < count; ++i) {
        const Of parts(values[i]);
        int64_t* const word = words + i * kWords;
        if (highest[i] == Of::kTop) {
            std::fill(word, word + kWords, 0);
            *word = counted(parts);
            continue;
        }
        const int down = Of::place(highest[i]) - Of::place(parts.field);
        const Magnitude<Float> magnitude{parts.magnitude()};
        put(rounded(magnitude << Of::kAbove, down), parts.negative(), word);
    }
}

template <class Float> void decode(const int64_t* words, int64_t count,
                                   const typename Form<Float>::Grade* highest, int64_t divisor,
                                   Float* values) {
    using Of = Parts<Float>;
    for (int64_t i = 0; i < count; ++i) {
        const int64_t* const word = words + i * Form<Float>::kWords;
        if (highest[i] == Of::kTop) values[i] = not_finite<Float>(*word);
        else
            take(word, Of::place(highest[i]) - Of::kBias - Of::kFraction - Of::kAbove, divisor,
                 values + i);
    }
}

template void grade(const float*, int64_t, uint8_t*);
template void grade(const double*, int64_t, uint16_t*);
template void encode(const float*, int64_t, const uint8_t*, int64_t*);
template void encode(const double*, int64_t, const uint16_t*, int64_t*);
template void decode(const int64_t*, int64_t, const uint8_t*, int64_t, float*);
template void decode(const int64_t*, int64_t, const uint16_t*, int64_t, double*);

}  // namespace pomona::glue::fixed_point
