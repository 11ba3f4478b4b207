// tests/unit/datatype_object.cc: what random types seldom reach: limits, markers, very large and
// very deep types, and the table of predefined ones.
#include "btl/base/random.h"
#include "mpi/object/datatype_external.h"

#include <cmath>
#include <fstream>
#include <gtest/gtest.h>
#include <limits>
#include <sstream>

namespace pomona {
namespace {

constexpr MPI_Count kLargest = std::numeric_limits<MPI_Count>::max();

Ref<Datatype> value(Datatype::Made made) {
    EXPECT_TRUE(made.ok());
    return std::move(made).value();
}
Datatype& of(MPI_Datatype handle) { return Datatype::of(handle); }

// Goal: every predefined type has the size and extent of the ABI's table for this platform.
TEST(datatype_object, predefined_types_match_the_abi_table) {
    std::ifstream file(POMONA_DATATYPES_CSV);
    ASSERT_TRUE(file) << POMONA_DATATYPES_CSV;
    std::string line;
    std::getline(file, line);
    std::vector<std::string> head;
    std::istringstream titles(line);
    for (std::string title; std::getline(titles, title, ',');) head.push_back(title);
    auto column = [&](const char* name) {
        return static_cast<size_t>(std::find(head.begin(), head.end(), name) - head.begin());
    };
#if defined(__APPLE__)
    size_t size = column("size_macos"), extent = column("extent_macos");
#else
    size_t size = column("size_linux"), extent = column("extent_linux");
#endif
    int seen = 0;
    while (std::getline(file, line)) {
        std::vector<std::string> fields;
        bool quoted = false;
        fields.emplace_back();
        for (char c : line) {
            if (c == '"') quoted = !quoted;
            else if (c == ',' && !quoted) fields.emplace_back();
            else fields.back() += c;
        }
        if (fields.size() <= extent || fields[size].empty()) continue;
        auto handle = std::stoull(fields[column("value")], nullptr, 16);
        SCOPED_TRACE(fields[0]);
        const Datatype& type = of(reinterpret_cast<MPI_Datatype>(handle));
        EXPECT_EQ(type.size(), std::stoll(fields[size]));
        EXPECT_EQ(type.extent(), std::stoll(fields[extent]));
        EXPECT_EQ(type.builtin_handle, handle);
        EXPECT_TRUE(type.committed && type.permanent && type.predefined());
        // Where the standard calls one name the synonym of another, MPI_Type_get_name tells the
        // other.
        std::string name = fields[0];
        if (name == "MPI_LONG_LONG") name = "MPI_LONG_LONG_INT";
        if (name == "MPI_C_FLOAT_COMPLEX") name = "MPI_C_COMPLEX";
        if (fields[column("alias_of")].empty()) { EXPECT_EQ(type.name, name); }
        if (type.element()) {
            EXPECT_EQ(static_cast<MPI_Count>(element_size(*type.element())), type.extent());
        }
        ++seen;
    }
    EXPECT_GE(seen, 70);
}

TEST(datatype_object, overflow_is_an_error) {
    Datatype& byte = of(MPI_BYTE);
    Datatype& real = of(MPI_DOUBLE);
    EXPECT_TRUE(Datatype::contiguous(kLargest, byte).ok());
    EXPECT_FALSE(Datatype::contiguous(kLargest, real).ok());
    EXPECT_FALSE(Datatype::vector(3, 1, kLargest / 8, real).ok());
    EXPECT_FALSE(Datatype::hvector(3, 1, kLargest - 100, real).ok());
    MPI_Count blocks[] = {1, 1}, far[] = {std::numeric_limits<MPI_Count>::min(), kLargest - 8};
    EXPECT_FALSE(Datatype::hindexed(blocks, far, real).ok());  // the extent overflows
    MPI_Count sizes[] = {MPI_Count{1} << 31, MPI_Count{1} << 31};
    MPI_Count ones[] = {1, 1}, zeros[] = {0, 0};
    EXPECT_FALSE(Datatype::subarray(sizes, ones, zeros, MPI_ORDER_C, real).ok());
    EXPECT_TRUE(Datatype::subarray(sizes, ones, zeros, MPI_ORDER_C, byte).ok());
    EXPECT_FALSE(Datatype::resized(real, kLargest, 8).ok());
    // Strides that nothing uses may be anything.
    EXPECT_TRUE(Datatype::vector(1, 1, kLargest, real).ok());
    EXPECT_TRUE(Datatype::vector(kLargest, 0, kLargest, real).ok());
    EXPECT_TRUE(Datatype::hvector(0, kLargest, kLargest, real).ok());
}

TEST(datatype_object, bounds_set_by_hand_stick) {
    auto wide = value(Datatype::resized(of(MPI_INT), -8, 24));
    MPI_Count blocks[] = {1, 1}, offsets[] = {0, 100};
    Datatype* types[] = {wide.get(), &of(MPI_DOUBLE)};
    auto both = value(Datatype::structure(blocks, offsets, types));
    EXPECT_EQ(both->lb(), -8);
    EXPECT_EQ(both->ub(), 16);  // the double does not count
    EXPECT_EQ(both->true_extent(), 108);
    auto again = value(Datatype::contiguous(2, *both));
    EXPECT_EQ(again->extent(), 48);
    blocks[0] = 0;  // then the marks are not in the typemap
    auto rest = value(Datatype::structure(blocks, offsets, types));
    EXPECT_EQ(rest->lb(), 100);
    EXPECT_EQ(rest->extent(), 8);
}

TEST(datatype_object, structs_end_like_those_of_c) {
    struct C {
        double real;
        char letter;
    };
    MPI_Count blocks[] = {1, 1}, offsets[] = {0, offsetof(C, letter)};
    Datatype* types[] = {&of(MPI_DOUBLE), &of(MPI_CHAR)};
    auto made = value(Datatype::structure(blocks, offsets, types));
    EXPECT_EQ(made->size(), 9);
    EXPECT_EQ(made->extent(), static_cast<MPI_Count>(sizeof(C)));
    EXPECT_EQ(made->true_extent(), 9);
}

// Goal: an element's place in the stream is found without walking to it. Method: the last bytes of
// a type with 2^40 blocks; a walk would not end.
TEST(datatype_object, seeking_in_large_types_is_quick) {
    auto column = value(Datatype::hvector(MPI_Count{1} << 40, 1, 0, of(MPI_INT)));
    auto nested = value(Datatype::hvector(4, 1, 0, *column));
    int number = 0x01020304;
    std::byte out[6];
    auto size = static_cast<size_t>(nested->size());
    nested->pack(&number, 1, size - 6, out);
    std::byte expected[6];
    std::memcpy(expected, reinterpret_cast<std::byte*>(&number) + 2, 2);
    std::memcpy(expected + 2, &number, 4);
    EXPECT_EQ(std::memcmp(out, expected, 6), 0);
}

TEST(datatype_object, deep_nesting) {
    Ref<Datatype> type = Ref<Datatype>::share(&of(MPI_INT));
    for (int i = 0; i < 5000; ++i) {
        switch (i % 3) {
        case 0: type = value(Datatype::contiguous(1, *type)); break;
        case 1: type = value(Datatype::resized(*type, 0, 4)); break;
        default: type = value(Datatype::hvector(1, 1, 77, *type)); break;
        }
    }
    EXPECT_TRUE(type->contiguous());
    EXPECT_EQ(type->count_basic(4), 1);
    EXPECT_EQ(type->uniform(), &of(MPI_INT));
}

TEST(datatype_object, layouts_are_simplified) {
    // A matrix's full rows, a vector of touching blocks, and ascending indices are one block.
    MPI_Count sizes[] = {10, 20}, rows[] = {3, 20}, at[] = {4, 0};
    auto full = value(Datatype::subarray(sizes, rows, at, MPI_ORDER_C, of(MPI_FLOAT)));
    EXPECT_EQ(full->layout().form, Layout::Form::block);
    EXPECT_TRUE(full->contiguous(1));
    EXPECT_FALSE(full->contiguous());
    auto touching = value(Datatype::vector(5, 3, 3, of(MPI_FLOAT)));
    EXPECT_TRUE(touching->contiguous());
    MPI_Count every_third[] = {0, 3, 6, 9};
    auto regular = value(Datatype::indexed_block(1, every_third, of(MPI_FLOAT)));
    EXPECT_EQ(regular->layout().form, Layout::Form::loop);
    auto dense = value(Datatype::contiguous(7, *value(Datatype::duplicate(of(MPI_2INT)))));
    EXPECT_TRUE(dense->contiguous());
    EXPECT_EQ(dense->uniform(), &of(MPI_2INT));
    EXPECT_EQ(dense->basics(), 14);
}

TEST(datatype_object, fortran90_types_are_the_same_objects) {
    Datatype& a = Datatype::fortran90(MPI_COMBINER_F90_REAL, {10, 20}, of(MPI_REAL8));
    Datatype& b = Datatype::fortran90(MPI_COMBINER_F90_REAL, {10, 20}, of(MPI_REAL8));
    Datatype& c = Datatype::fortran90(MPI_COMBINER_F90_REAL, {10, 21}, of(MPI_REAL8));
    EXPECT_EQ(&a, &b);
    EXPECT_NE(&a, &c);
    EXPECT_TRUE(a.predefined() && a.permanent && a.committed);
    EXPECT_EQ(a.element(), ElementType::f64);
    EXPECT_EQ(a.contents().integers, (std::vector<int>{10, 20}));
}

// Known bytes: MPI 5.0, section 14.5.2, asks for big-endian IEEE numbers.
TEST(datatype_object, external32_bytes) {
    auto packed = [](MPI_Datatype type, const void* number) {
        std::vector<std::byte> out(static_cast<size_t>(external_size(of(type))));
        pack_external(number, 1, of(type), out.data());
        std::string hex;
        for (std::byte each : out) {
            hex += "0123456789abcdef"[static_cast<int>(each) >> 4];
            hex += "0123456789abcdef"[static_cast<int>(each) & 15];
        }
        return hex;
    };
    int i = 0x01020304;
    long l = -2;
    double d = 1.5;
    long double q = -1.5;
    EXPECT_EQ(packed(MPI_INT, &i), "01020304");
    EXPECT_EQ(packed(MPI_LONG, &l), "fffffffe");
    EXPECT_EQ(packed(MPI_DOUBLE, &d), "3ff8000000000000");
    EXPECT_EQ(packed(MPI_LONG_DOUBLE, &q), "bfff8000000000000000000000000000");
    EXPECT_EQ(external_size(of(MPI_LONG_DOUBLE_INT)), 20);
    EXPECT_EQ(external_size(of(MPI_WCHAR)), 2);
}

#if POMONA_HAS_FLOAT128
// Goal: the conversions for machines without binary128 round as the compiler's do. Method: random
// bit patterns, weighted towards denormals and limits, against __float128.
TEST(datatype_object, binary128_conversions) {
    Random random(128);
    auto bits_of = [](auto value) {
        uint64_t bits;
        std::memcpy(&bits, &value, sizeof bits);
        return bits;
    };
    for (int i = 0; i < 300000; ++i) {
        uint64_t bits = random.next();
        if (i % 3 == 0) bits &= 0x800fffffffffffff;
        if (i % 3 == 1) bits &= random.next() & 0xffefffffffffffff;
        double narrow;
        std::memcpy(&narrow, &bits, sizeof narrow);
        if (narrow != narrow) continue;
        Quad quad = quad_of_double(narrow);
        Float128 wide = narrow;
        ASSERT_EQ(std::memcmp(&quad, &wide, sizeof quad), 0) << narrow;
        ASSERT_EQ(bits_of(double_of_quad(quad)), bits);
        // More bits than a double has, near the limits of its exponents too.
        quad.low = i % 4 == 0 ? uint64_t{1} << random.below(64) : random.next();
        uint64_t exponent = 16383 + (i % 2 ? random.below(60) - 1078 : random.below(9) + 1018);
        quad.high = (quad.high & 0x8000ffffffffffff) | exponent << 48;
        if (i % 5 == 0) quad.high &= ~uint64_t{0xffffffff}, quad.low = 0;
        std::memcpy(&wide, &quad, sizeof quad);
        ASSERT_EQ(bits_of(double_of_quad(quad)), bits_of(static_cast<double>(wide)))
            << std::hex << quad.high << " " << quad.low;
    }
    EXPECT_TRUE(std::isnan(double_of_quad(quad_of_double(std::nan("")))));
}
#endif

// Goal: a long chain of types that each hold the one before works and goes without deep recursion.
TEST(datatype_object, long_chains_work_and_are_freed) {
    Ref<Datatype> chain = value(Datatype::contiguous(2, of(MPI_INT)));
    for (int i = 0; i < 200000; ++i) chain = value(Datatype::duplicate(*chain));
    EXPECT_EQ(chain->size(), 8);
    EXPECT_EQ(chain->count_basic(8), 2);
    EXPECT_EQ(external_size(*chain), 8);
    int numbers[2] = {1, 2}, sum = 0;
    chain->each_basic(reinterpret_cast<std::byte*>(numbers), 1,
                      [&](const Datatype&, std::byte* at) { sum += *reinterpret_cast<int*>(at); });
    EXPECT_EQ(sum, 3);
}

// Goal: true nesting has a limit that is told, not a stack that ends the program.
TEST(datatype_object, nesting_has_a_limit) {
    Ref<Datatype> nested = Ref<Datatype>::share(&of(MPI_INT));
    int levels = 0;
    for (; levels < 5000; ++levels) {
        MPI_Count ones[2] = {1, 1}, places[2] = {0, nested->size()};
        Datatype* types[2] = {&*nested, &of(MPI_INT)};
        auto made = Datatype::structure(ones, places, types);
        if (!made.ok()) break;
        nested = std::move(made).value();
    }
    EXPECT_EQ(levels, Datatype::kLevelsMax);
    EXPECT_EQ(external_size(*nested), 4 * (levels + 1));
}

}  // namespace
}  // namespace pomona
