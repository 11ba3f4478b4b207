// tests/property/datatype_random.cc: random nested datatypes against typemaps written out in full.
// Every case has its own seed; a failure prints it, and POMONA_SEED=<seed> runs that case alone.
#include "mpi/object/datatype_external.h"
#include "tests/property/datatype_generator.h"

#include <cstdlib>
#include <sstream>
#include <string>

namespace pomona::test {
namespace {

constexpr uint64_t kCases = 2000;

template <class Body> void each_case(Body body) {
    const char* given = std::getenv("POMONA_SEED");
    uint64_t first = given ? std::strtoull(given, nullptr, 16) : 0x5eed0000;
    for (uint64_t seed = first; seed < first + (given ? 1 : kCases); ++seed) {
        SCOPED_TRACE("POMONA_SEED=" + (std::ostringstream() << std::hex << seed).str());
        Generator generator(seed);
        Sample sample = generator.make(generator.random().between(1, 4));
        body(generator.random(), sample);
        if (testing::Test::HasFailure()) return;
    }
}

// Memory for `count` elements; `base` is the address of the first one.
struct Memory {
    std::vector<std::byte> bytes;
    std::byte* base;

    Memory(const Model& model, MPI_Count count) {
        MPI_Count last = (count - 1) * model.extent();
        MPI_Count low = model.true_lb() + std::min<MPI_Count>(0, last);
        MPI_Count high = model.true_ub() + std::max<MPI_Count>(0, last);
        bytes.resize(static_cast<size_t>(high - low));
        // Through integers: the element's own address may lie outside the memory.
        base = reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(bytes.data()) -
                                            static_cast<uintptr_t>(low));
    }
    Memory(const Memory&) = delete;
    void fill(Random& random) {
        for (size_t at = 0; at < bytes.size(); at += 8) {
            uint64_t word = random.next();
            std::memcpy(&bytes[at], &word, std::min<size_t>(8, bytes.size() - at));
        }
    }
    std::byte* at(MPI_Count offset) const {
        return reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(base) +
                                            static_cast<uintptr_t>(offset));
    }
};

Model several(const Model& model, MPI_Count count) {
    Model made;
    made.add_block(model, count, 0);
    return made;
}

std::vector<std::byte> packed(const Model& model, const Memory& memory, MPI_Count count) {
    std::vector<std::byte> out;
    for (const auto& item : several(model, count).items) {
        const std::byte* from = memory.at(item.offset);
        out.insert(out.end(), from, from + item.basic->size());
    }
    return out;
}

// Cuts [0, length) into fragments and visits them in random order.
template <class Visit> void fragments(Random& random, size_t length, Visit visit) {
    std::vector<size_t> cuts{0, length};
    size_t wanted = random.below(8);
    for (size_t i = 0; i < wanted && length > 0; ++i) cuts.push_back(random.below(length + 1));
    std::sort(cuts.begin(), cuts.end());
    std::vector<size_t> order(cuts.size() - 1);
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    for (size_t k : order) visit(cuts[k], cuts[k + 1] - cuts[k]);
}

TEST(datatype_random, bounds) {
    each_case([](Random&, const Sample& s) {
        EXPECT_EQ(s.type->size(), s.model.size());
        EXPECT_EQ(s.type->lb(), s.model.lb());
        EXPECT_EQ(s.type->extent(), s.model.extent());
        EXPECT_EQ(s.type->true_lb(), s.model.true_lb());
        EXPECT_EQ(s.type->true_extent(), s.model.true_ub() - s.model.true_lb());
        EXPECT_EQ(s.type->basics(), static_cast<MPI_Count>(s.model.items.size()));
    });
}

TEST(datatype_random, pack_in_fragments) {
    each_case([](Random& random, const Sample& s) {
        MPI_Count count = random.between(1, 5);
        Memory memory(s.model, count);
        memory.fill(random);
        auto expected = packed(s.model, memory, count);
        std::vector<std::byte> out(expected.size());
        fragments(random, out.size(), [&](size_t offset, size_t length) {
            s.type->pack(memory.base, count, offset, Bytes(out).subspan(offset, length));
        });
        EXPECT_EQ(out, expected);
    });
}

TEST(datatype_random, unpack_in_fragments) {
    int done = 0;
    each_case([&](Random& random, const Sample& s) {
        MPI_Count count = random.between(1, 5);
        if (several(s.model, count).overlaps()) return;
        ++done;
        Memory memory(s.model, count), expected(s.model, count);
        memory.fill(random);
        expected.bytes = memory.bytes;
        expected.base =
            reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(expected.bytes.data()) +
                                         (reinterpret_cast<uintptr_t>(memory.base) -
                                          reinterpret_cast<uintptr_t>(memory.bytes.data())));
        std::vector<std::byte> in(static_cast<size_t>(count * s.model.size()));
        for (std::byte& each : in) each = static_cast<std::byte>(random.next());
        size_t position = 0;
        for (const auto& item : several(s.model, count).items) {
            auto size = static_cast<size_t>(item.basic->size());
            std::memcpy(expected.at(item.offset), &in[position], size);
            position += size;
        }
        fragments(random, in.size(), [&](size_t offset, size_t length) {
            s.type->unpack(memory.base, count, offset, ConstBytes(in).subspan(offset, length));
        });
        EXPECT_EQ(memory.bytes, expected.bytes);
    });
    if (!std::getenv("POMONA_SEED")) { EXPECT_GT(done, static_cast<int>(kCases / 4)); }
}

TEST(datatype_random, contiguous_is_one_block) {
    each_case([](Random&, const Sample& s) {
        MPI_Count next = s.model.true_lb();
        bool one = true;
        for (const auto& item : several(s.model, 3).items) {
            one = one && item.offset == next;
            next = item.offset + item.basic->size();
        }
        // Types that are dense must be seen to be: sending them is the fast path.
        EXPECT_EQ(s.type->contiguous(), one);
    });
}

TEST(datatype_random, basic_elements) {
    each_case([](Random& random, const Sample& s) {
        MPI_Count count = random.between(1, 3);
        Memory memory(s.model, count);
        Model all = several(s.model, count);
        size_t seen = 0;
        s.type->each_basic(memory.base, count, [&](const Datatype& basic, std::byte* address) {
            ASSERT_LT(seen, all.items.size());
            EXPECT_EQ(&basic, all.items[seen].basic);
            EXPECT_EQ(address, memory.at(all.items[seen].offset));
            ++seen;
        });
        EXPECT_EQ(seen, all.items.size());
        MPI_Count bytes = 0, index = 0;
        for (const auto& item : all.items) {
            EXPECT_EQ(s.type->count_basic(bytes), index);
            if (item.basic->size() > 1) { EXPECT_EQ(s.type->count_basic(bytes + 1), -1); }
            bytes += item.basic->size();
            ++index;
        }
        EXPECT_EQ(s.type->count_basic(bytes), index);
    });
}

// Builds the same type again from what made_by() tells.
Datatype::Made rebuilt(const Datatype& type) {
    const auto& call = type.made_by();
    Counts a(call.arguments);
    auto& old = *call.types[0];
    auto n = a.empty() ? 0 : static_cast<size_t>(a[0]);
    switch (call.combiner) {
    case MPI_COMBINER_CONTIGUOUS: return Datatype::contiguous(a[0], old);
    case MPI_COMBINER_VECTOR: return Datatype::vector(a[0], a[1], a[2], old);
    case MPI_COMBINER_HVECTOR: return Datatype::hvector(a[0], a[1], a[2], old);
    case MPI_COMBINER_INDEXED: return Datatype::indexed(a.subspan(1, n), a.subspan(1 + n), old);
    case MPI_COMBINER_HINDEXED: return Datatype::hindexed(a.subspan(1, n), a.subspan(1 + n), old);
    case MPI_COMBINER_INDEXED_BLOCK: return Datatype::indexed_block(a[1], a.subspan(2), old);
    case MPI_COMBINER_HINDEXED_BLOCK: return Datatype::hindexed_block(a[1], a.subspan(2), old);
    case MPI_COMBINER_RESIZED: return Datatype::resized(old, a[0], a[1]);
    case MPI_COMBINER_SUBARRAY:
        return Datatype::subarray(a.subspan(1, n), a.subspan(1 + n, n), a.subspan(1 + 2 * n, n),
                                  static_cast<int>(a.back()), old);
    case MPI_COMBINER_DARRAY: {
        n = static_cast<size_t>(a[2]);
        std::vector<int> kinds(a.begin() + 3 + n, a.begin() + 3 + 2 * n);
        std::vector<int> arguments(a.begin() + 3 + 2 * n, a.begin() + 3 + 3 * n);
        std::vector<int> processes(a.begin() + 3 + 3 * n, a.begin() + 3 + 4 * n);
        return Datatype::darray({.size = static_cast<int>(a[0]),
                                 .rank = static_cast<int>(a[1]),
                                 .global_sizes = a.subspan(3, n),
                                 .kinds = kinds,
                                 .arguments = arguments,
                                 .process_sizes = processes,
                                 .order = static_cast<int>(a.back())},
                                old);
    }
    default: return Datatype::duplicate(old);
    }
}

TEST(datatype_random, contents_make_the_same_type) {
    each_case([](Random& random, const Sample& s) {
        const auto& call = s.type->made_by();
        if (call.types.empty()) return;  // predefined, or a struct of nothing
        std::vector<Datatype*> types;
        for (const auto& each : call.types) types.push_back(each.get());
        auto made =
            call.combiner == MPI_COMBINER_STRUCT
                ? Datatype::structure(Counts(call.arguments).subspan(1, types.size()),
                                      Counts(call.arguments).subspan(1 + types.size()), types)
                : rebuilt(*s.type);
        ASSERT_TRUE(made.ok());
        EXPECT_EQ((*made)->extent(), s.model.extent());
        EXPECT_EQ((*made)->lb(), s.model.lb());
        Memory memory(s.model, 1);
        memory.fill(random);
        std::vector<std::byte> out(static_cast<size_t>(s.model.size()));
        (*made)->pack(memory.base, 1, 0, out);
        EXPECT_EQ(out, packed(s.model, memory, 1));
    });
}

// A value that every representation holds exactly.
void put_value(const Datatype& basic, std::byte* address, int value) {
    auto put = [&](auto typed) { std::memcpy(address, &typed, sizeof typed); };
    if (&basic == &Datatype::of(MPI_FLOAT)) put(static_cast<float>(value));
    else if (&basic == &Datatype::of(MPI_DOUBLE)) put(static_cast<double>(value) / 3);
    else if (&basic == &Datatype::of(MPI_DOUBLE_COMPLEX))
        put(Complex<double>{value / 7.0, value * 3.0});
    else if (&basic == &Datatype::of(MPI_LONG_DOUBLE)) put(static_cast<long double>(value) / 3);
    else if (basic.size() == 1) put(static_cast<char>(value & 1));
    else if (basic.size() == 2) put(static_cast<short>(value));
    else if (basic.size() == 4) put(value & 0x7fff);
    else put(static_cast<long>(value));
}

TEST(datatype_random, external32_round_trip) {
    each_case([](Random& random, const Sample& s) {
        MPI_Count count = random.between(1, 3);
        if (several(s.model, count).overlaps()) return;
        Memory from(s.model, count), to(s.model, count);
        for (const auto& item : several(s.model, count).items)
            put_value(*item.basic, from.at(item.offset), random.between(-30000, 30000));
        std::vector<std::byte> stream(static_cast<size_t>(count * external_size(*s.type)));
        pack_external(from.base, count, *s.type, stream.data());
        unpack_external(to.base, count, *s.type, stream.data());
        for (const auto& item : several(s.model, count).items) {
            // The unused bytes of an 80-bit long double have no value.
            size_t used = item.basic == &Datatype::of(MPI_LONG_DOUBLE) && __LDBL_MANT_DIG__ == 64
                              ? 10
                              : static_cast<size_t>(item.basic->size());
            EXPECT_EQ(std::memcmp(from.at(item.offset), to.at(item.offset), used), 0);
        }
    });
}

}  // namespace
}  // namespace pomona::test
