// tests/unit/accel_float16.cc: the conversions of 16-bit floats.
// Goal: exact widening of all 65,536 values; rounding to nearest even everywhere. Method: against
// the definition in accel_reference.h, at every value, halfway between neighbours, and one step
// beside.
#include "accel/float16.h"

#include "tests/unit/accel_reference.h"

#include <gtest/gtest.h>

namespace pomona {
namespace {

using reference::bfloat_format;
using reference::half_format;

void expect_rounds(float value) {
    ASSERT_TRUE(reference::equal(Float16{float_to_half(value)},
                                 Float16{reference::encode(half_format, value)}))
        << std::hexfloat << value;
    ASSERT_TRUE(reference::equal(BFloat16{float_to_bf16(value)},
                                 BFloat16{reference::encode(bfloat_format, value)}))
        << std::hexfloat << value;
}

TEST(Float16, widens_every_value_exactly) {
    for (uint32_t bits = 0; bits < 65536; ++bits) {
        auto word = static_cast<uint16_t>(bits);
        ASSERT_TRUE(reference::equal(half_to_float(word),
                                     static_cast<float>(reference::decode(half_format, word))))
            << bits;
        ASSERT_TRUE(reference::equal(bf16_to_float(word),
                                     static_cast<float>(reference::decode(bfloat_format, word))))
            << bits;
    }
}

TEST(Float16, returns_every_value) {
    for (uint32_t bits = 0; bits < 65536; ++bits) {
        auto word = static_cast<uint16_t>(bits);
        uint16_t quiet = (word & 0x7fff) > 0x7c00 ? 0x200 : 0;
        uint16_t quiet_bf = (word & 0x7fff) > 0x7f80 ? 0x40 : 0;
        ASSERT_EQ(float_to_half(half_to_float(word)), word | quiet) << bits;
        ASSERT_EQ(float_to_bf16(bf16_to_float(word)), word | quiet_bf) << bits;
    }
}

TEST(Float16, rounds_to_nearest_even) {
    for (uint32_t bits = 0; bits < 65535; ++bits) {
        auto word = static_cast<uint16_t>(bits), next = static_cast<uint16_t>(bits + 1);
        for (float x : {static_cast<float>(0.5 * (reference::decode(half_format, word) +
                                                  reference::decode(half_format, next))),
                        static_cast<float>(0.5 * (reference::decode(bfloat_format, word) +
                                                  reference::decode(bfloat_format, next)))})
            for (float y : {x, std::nextafter(x, INFINITY), std::nextafter(x, -INFINITY)})
                expect_rounds(y);
        if (HasFatalFailure()) return;
    }
    for (float x : {65504.f, 65519.99f, 65520.f, 65536.f, 1e30f, 0x1p-24f, 0x1p-25f, 0x1.8p-25f,
                    0x1p-126f, 0x1p-149f, INFINITY, -INFINITY, NAN, -NAN, 0.f, -0.f, 3.4e38f})
        expect_rounds(x);
    reference::Engine random(5);
    for (int i = 0; i < 200000; ++i)
        expect_rounds(__builtin_bit_cast(float, static_cast<uint32_t>(random())));
}

}  // namespace
}  // namespace pomona
