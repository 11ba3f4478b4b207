// fixed_point.h: floats as whole numbers, so that their sum does not depend on the order.
// Idea: a value has a grade, which is its exponent's field. Of the summands of one sum the highest
// grade counts, a maximum, which knows no order; by it each summand becomes a whole number of one
// unit, and sums of whole numbers know no order either. A summand is rounded to the unit by itself,
// so what it gives depends on its value and on that grade alone. The unit lies 2^46 (float) or 2^92
// (double, two words) below the highest grade's power of two: what is rounded off is smaller than
// the last bit of the sum's largest summand by 2^22 and 2^39. Words of up to kMostSummands summands
// cannot overflow. Infinities and NaN are the highest grade of all; the words count them then.
// All of it in whole numbers, so that it is the same where a thread flushes denormals to zero.
#pragma once

#include <cstdint>

namespace pomona::glue::fixed_point {

constexpr int kMostSummands = 1 << 16;

template <class Float> struct Form;
template <> struct Form<float> {
    using Bits = uint32_t;
    using Grade = uint8_t;
    static constexpr int kWords = 1;  // of 64 bits, of one value
};
template <> struct Form<double> {
    using Bits = uint64_t;
    using Grade = uint16_t;
    static constexpr int kWords = 2;
};

// Of `count` values each; `words` has kWords of each value, one behind the other.
template <class Float>
void grade(const Float* values, int64_t count, typename Form<Float>::Grade* grades);
template <class Float> void encode(const Float* values, int64_t count,
                                   const typename Form<Float>::Grade* highest, int64_t* words);
// The sum by `divisor`, rounded. A sum that is zero is +0, and NaN has one pattern.
template <class Float> void decode(const int64_t* words, int64_t count,
                                   const typename Form<Float>::Grade* highest, int64_t divisor,
                                   Float* values);

}  // namespace pomona::glue::fixed_point
