// tests/unit/check_types.cc: signatures of messages and memory in use (mpi/check), without
// messages.
// Goal: two sequences of basic types have one word just when they are the same, however their
// datatypes were made; memory is in use twice just when a byte is. Method: types made in different
// ways, and random runs of bytes compared one by one.
#include "btl/base/random.h"
#include "mpi/check/buffers.h"
#include "mpi/check/signature.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <set>

namespace pomona {
namespace {

Ref<Datatype> structure(std::vector<MPI_Datatype> handles, std::vector<MPI_Count> lengths) {
    std::vector<Datatype*> types;
    std::vector<MPI_Count> places;
    for (size_t i = 0; i < handles.size(); ++i) {
        types.push_back(&Datatype::of(handles[i]));
        places.push_back(static_cast<MPI_Count>(i) * 64);
    }
    auto made = Datatype::structure(lengths, places, types);
    EXPECT_TRUE(made.ok());
    return *made;
}

TEST(CheckTypes, one_type_however_made) {
    Datatype& one = Datatype::of(MPI_INT);
    auto row = *Datatype::contiguous(5, one);
    auto column = *Datatype::vector(5, 1, 7, one);
    EXPECT_EQ(signature_of(one, 10), signature_of(*row, 2));
    EXPECT_EQ(signature_of(one, 10), signature_of(*column, 2));
    EXPECT_EQ(signature_of(one, 2), signature_of(Datatype::of(MPI_2INT), 1));
    EXPECT_NE(signature_of(one, 1), signature_of(Datatype::of(MPI_FLOAT), 1));
    EXPECT_NE(signature_of(one, 1), signature_of(Datatype::of(MPI_BYTE), 4));
    EXPECT_TRUE(signatures_match(signature_of(one, 1), signature_of(Datatype::of(MPI_PACKED), 4)));
    EXPECT_EQ(signature_of(one, 0), 0u);
    EXPECT_EQ(signature_text(signature_of(one, 3), 12), "3 MPI_INT");
}

TEST(CheckTypes, sequences) {
    auto one = structure({MPI_INT, MPI_DOUBLE}, {1, 1});
    auto same = structure({MPI_INT, MPI_DOUBLE, MPI_INT, MPI_DOUBLE}, {1, 1, 1, 1});
    auto swapped = structure({MPI_DOUBLE, MPI_INT}, {1, 1});
    auto longer = structure({MPI_INT, MPI_DOUBLE}, {1, 2});
    EXPECT_EQ(signature_of(*one, 1000002), signature_of(*same, 500001));
    EXPECT_NE(signature_of(*one, 2), signature_of(*swapped, 2));
    EXPECT_NE(signature_of(*one, 5), signature_of(*longer, 3));
    EXPECT_EQ(signature_of(Datatype::of(MPI_FLOAT_INT), 3),
              signature_of(*structure({MPI_FLOAT, MPI_INT}, {1, 1}), 3));
    // A shorter message: it may end within an element, but not within a basic type.
    EXPECT_EQ(signature_of_prefix(*same, 10, 12), signature_of(*one, 1));
    EXPECT_EQ(signature_of_prefix(*same, 10, 24 + 4), signature_of_prefix(*one, 10, 24 + 4));
    EXPECT_EQ(signature_of_prefix(*same, 10, 4), signature_of(Datatype::of(MPI_INT), 1));
    EXPECT_EQ(signature_of_prefix(*same, 10, 6), std::nullopt);
    EXPECT_EQ(signature_text(signature_of(*one, 1), 12),
              "12 bytes of mixed types that begin with MPI_INT, MPI_DOUBLE");
}

std::set<MPI_Count> bytes_of(const std::vector<MPI_Count>& places, MPI_Count length) {
    std::set<MPI_Count> bytes;
    for (MPI_Count each : places)
        for (MPI_Count i = 0; i < length; ++i) bytes.insert(each + i);
    return bytes;
}

TEST(CheckTypes, memory_in_use) {
    Random random(22);
    std::vector<std::byte> memory(4096);
    Datatype& word = Datatype::of(MPI_INT);
    auto some_places = [&] {
        std::vector<MPI_Count> places;
        auto stride = static_cast<MPI_Count>(8 + random.below(40));
        auto at = static_cast<MPI_Count>(random.below(200));
        for (int i = 0; i < 10; ++i, at += stride) places.push_back(at);
        return places;
    };
    for (int round = 0; round < 2000; ++round) {
        std::vector<MPI_Count> one = some_places(), other = some_places();
        auto first = *Datatype::hindexed_block(1, one, word);
        auto second = *Datatype::hindexed_block(1, other, word);
        bool written = random.below(2), writes = random.below(2);
        BufferUses uses;
        auto entry = uses.add({memory.data(), 1, &*first, written}, 1);
        std::set<MPI_Count> used = bytes_of(one, 4), wanted = bytes_of(other, 4);
        bool shared = std::any_of(used.begin(), used.end(),
                                  [&](MPI_Count byte) { return wanted.count(byte); });
        Memory next{memory.data(), 1, &*second, writes};
        EXPECT_EQ(uses.conflict(next, 2) != nullptr, shared && (written || writes)) << round;
        EXPECT_EQ(uses.conflict(next, 1), nullptr);
        uses.remove(entry);
        EXPECT_EQ(uses.conflict(next, 2), nullptr);
    }
}

}  // namespace
}  // namespace pomona
