// tests/sim/program_types.cc: random derived datatypes in messages and collectives on simulated
// ranks.
// Goal: what a type names arrives in its place, whatever the type, the network and the call; what
// it does not name stays. Method: types from tests/property/datatype_generator.h beside their
// typemaps; the data of rank r is a function of r; packed by the typemap, not by the library, on
// both sides.
#include "mpi/abi/handle.h"
#include "tests/property/datatype_generator.h"
#include "tests/sim/program_world.h"

#include <gtest/gtest.h>

namespace pomona {
namespace {

using test::Generator;
using test::Model;
using test::Sample;

// Memory that holds `blocks` blocks of `count` elements, as a collective sees its buffer.
struct Buffer {
    const Model* model;
    MPI_Count count;
    std::vector<std::byte> bytes;
    std::byte* base = nullptr;  // address of the first element; may lie outside of `bytes`

    Buffer(const Model& type, MPI_Count of_each, int blocks)
        : model(&type), count(of_each * blocks) {
        MPI_Count last = std::max<MPI_Count>(count - 1, 0) * type.extent();
        MPI_Count low = type.true_lb() + std::min<MPI_Count>(0, last);
        MPI_Count high = type.true_ub() + std::max<MPI_Count>(0, last);
        bytes.assign(static_cast<size_t>(high - low), std::byte{0xee});
        base = reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(bytes.data()) -
                                            static_cast<uintptr_t>(low));
    }
    // Calls visit(address, size) for each item in the order of the typemap.
    template <class Visit> void each(Visit visit) const {
        for (MPI_Count i = 0; i < count; ++i)
            for (const Model::Item& item : model->items) {
                MPI_Count at = i * model->extent() + item.offset;
                visit(reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(base) +
                                                   static_cast<uintptr_t>(at)),
                      static_cast<size_t>(item.basic->size()));
            }
    }
    std::vector<std::byte> packed() const {
        std::vector<std::byte> out;
        each([&](std::byte* at, size_t size) { out.insert(out.end(), at, at + size); });
        return out;
    }
    void unpack(const std::vector<std::byte>& in) {
        size_t from = 0;
        each([&](std::byte* at, size_t size) {
            std::memcpy(at, &in[from], size);
            from += size;
        });
    }
    void fill(uint64_t seed) {
        Random random(seed);
        for (std::byte& each : bytes) each = static_cast<std::byte>(random.next());
    }
};

struct TypeCase {
    Sample sample;
    MPI_Count count;
    int root;
    uint64_t data;  // seed of the data
};

TypeCase make_case(uint64_t seed, int ranks) {
    for (;; ++seed) {
        Generator generator(seed);
        Sample sample = generator.make(generator.random().between(1, 3));
        MPI_Count count = generator.random().between(0, 4);
        Model all;
        all.add_block(sample.model, count * ranks, 0);
        if (all.overlaps()) continue;  // cannot be received into
        int root = static_cast<int>(generator.random().below(static_cast<uint64_t>(ranks)));
        return {std::move(sample), count, root, seed};
    }
}

// The data that rank `from` has for everybody: `blocks` blocks.
std::vector<std::byte> data_of(const TypeCase& c, int from, int blocks) {
    Buffer out(c.sample.model, c.count, blocks);
    out.fill(c.data * 1000 + static_cast<uint64_t>(from));
    return out.packed();
}

std::vector<std::byte> block_of(const std::vector<std::byte>& data, int block, int blocks) {
    size_t n = data.size() / static_cast<size_t>(blocks);
    auto begin = data.begin() + static_cast<ptrdiff_t>(n * static_cast<size_t>(block));
    return {begin, begin + static_cast<ptrdiff_t>(n)};
}

// Compares all of the memory: the data in its places, and the gaps as they were.
void expect(const Buffer& got, const std::vector<std::byte>& data, const char* what) {
    Buffer wanted(*got.model, got.count, 1);
    wanted.unpack(data);
    EXPECT_EQ(got.bytes, wanted.bytes) << what;
}

void pass_on(const TypeCase& c, MPI_Datatype type, int rank, int size) {
    int to = (rank + 1) % size, from = (rank + size - 1) % size, n = static_cast<int>(c.count);
    Buffer out(c.sample.model, c.count, 1), in(c.sample.model, c.count, 1);
    out.unpack(data_of(c, rank, 1));
    MPI_Status status;
    MPI_Sendrecv(out.base, n, type, to, 3, in.base, n, type, from, 3, MPI_COMM_WORLD, &status);
    expect(in, data_of(c, from, 1), "MPI_Sendrecv");
    int received = -1;
    MPI_Get_count(&status, type, &received);
    EXPECT_EQ(received, c.sample.model.size() == 0 ? 0 : n);
    // Once more as a stream of bytes: the other side need not have the type.
    std::vector<std::byte> bytes(data_of(c, from, 1).size());
    MPI_Sendrecv(out.base, n, type, to, 4, bytes.data(), static_cast<int>(bytes.size()), MPI_PACKED,
                 from, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    EXPECT_EQ(bytes, data_of(c, from, 1)) << "to MPI_PACKED";
}

void collectives(const TypeCase& c, MPI_Datatype type, int rank, int size) {
    int n = static_cast<int>(c.count);
    const Model& model = c.sample.model;
    Buffer one(model, c.count, 1), mine(model, c.count, 1), all(model, c.count, size);
    mine.unpack(data_of(c, rank, 1));
    if (rank == c.root) one.unpack(data_of(c, c.root, 1));
    MPI_Bcast(one.base, n, type, c.root, MPI_COMM_WORLD);
    expect(one, data_of(c, c.root, 1), "MPI_Bcast");

    std::vector<std::byte> everyone;
    for (int r = 0; r < size; ++r) {
        auto part = data_of(c, r, 1);
        everyone.insert(everyone.end(), part.begin(), part.end());
    }
    MPI_Request request;
    MPI_Iallgather(mine.base, n, type, all.base, n, type, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect(all, everyone, "MPI_Iallgather");

    Buffer gathered(model, c.count, size);
    MPI_Gather(mine.base, n, type, rank == c.root ? gathered.base : nullptr, n, type, c.root,
               MPI_COMM_WORLD);
    if (rank == c.root) expect(gathered, everyone, "MPI_Gather");
    Buffer back(model, c.count, 1);
    MPI_Scatter(rank == c.root ? gathered.base : nullptr, n, type, back.base, n, type, c.root,
                MPI_COMM_WORLD);
    expect(back, data_of(c, rank, 1), "MPI_Scatter");

    Buffer out(model, c.count, size), in(model, c.count, size);
    out.unpack(data_of(c, rank, size));
    MPI_Alltoall(out.base, n, type, in.base, n, type, MPI_COMM_WORLD);
    std::vector<std::byte> wanted;
    for (int r = 0; r < size; ++r) {
        auto part = block_of(data_of(c, r, size), rank, size);
        wanted.insert(wanted.end(), part.begin(), part.end());
    }
    expect(in, wanted, "MPI_Alltoall");

    Buffer place(model, c.count, size);
    place.unpack(data_of(c, rank, size));
    MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, place.base, n, type, MPI_COMM_WORLD);
    expect(place, wanted, "MPI_Alltoall in place");
}

TEST(ProgramTypes, arrive_in_their_places) {
    Random random(base_seed() ^ 0x7e9e5);
    for (int round = 0; round < 60; ++round) {
        int ranks = random.between(1, 6);
        uint64_t seed = random.next();
        TypeCase shared = make_case(seed, ranks);
        sim::FabricOptions network = random_network(random, ranks);
        RunResult done = run(seed, {network}, [&](int rank) {
            TypeCase c = make_case(seed, ranks);  // each rank its own type
            auto type = handle_of<MPI_Datatype>(c.sample.type.get());
            MPI_Datatype committed = type;
            MPI_Type_commit(&committed);
            pass_on(c, type, rank, ranks);
            collectives(c, type, rank, ranks);
        });
        ASSERT_FALSE(done.stuck) << "round " << round << " POMONA_SEED=" << base_seed();
        ASSERT_FALSE(HasFailure()) << "round " << round << ", " << ranks << " ranks, count "
                                   << shared.count << " POMONA_SEED=" << base_seed();
    }
}

}  // namespace
}  // namespace pomona
