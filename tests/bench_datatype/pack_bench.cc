// tests/bench_datatype/pack_bench.cc: time of MPI_Pack and MPI_Unpack for common shapes, beside
// memcpy of as many bytes. Plain MPI, so that the same source measures any library (versus.sh
// does). Each figure is the median of repetitions; each result is verified against a loop over the
// shape.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace {

struct Shape {
    std::string name;
    MPI_Datatype type;
    int count;
};

struct Particle {
    double position[3];
    int kind;
    float charge;
    char flags;
};

MPI_Datatype committed(MPI_Datatype type) {
    MPI_Type_commit(&type);
    return type;
}

MPI_Datatype vector(int count, int block, int stride, MPI_Datatype old) {
    MPI_Datatype made;
    MPI_Type_vector(count, block, stride, old, &made);
    return committed(made);
}

MPI_Datatype subarray(std::vector<int> sizes, std::vector<int> part, std::vector<int> start,
                      MPI_Datatype old) {
    MPI_Datatype made;
    MPI_Type_create_subarray(static_cast<int>(sizes.size()), sizes.data(), part.data(),
                             start.data(), MPI_ORDER_C, old, &made);
    return committed(made);
}

MPI_Datatype particle() {
    int blocks[] = {3, 1, 1, 1};
    MPI_Aint offsets[] = {offsetof(Particle, position), offsetof(Particle, kind),
                          offsetof(Particle, charge), offsetof(Particle, flags)};
    MPI_Datatype types[] = {MPI_DOUBLE, MPI_INT, MPI_FLOAT, MPI_CHAR}, made, resized;
    MPI_Type_create_struct(4, blocks, offsets, types, &made);
    MPI_Type_create_resized(made, 0, sizeof(Particle), &resized);
    return committed(resized);
}

MPI_Datatype scattered(int count, int block, int spread, MPI_Datatype old, bool equal) {
    std::vector<int> blocks(count), offsets(count);
    unsigned state = 1;
    for (int i = 0; i < count; ++i) {
        state = state * 1664525u + 1013904223u;
        offsets[i] = i * spread + static_cast<int>(state >> 16) % (spread - block);
        blocks[i] = equal ? block : 1 + static_cast<int>(state >> 24) % block;
    }
    MPI_Datatype made;
    if (equal) MPI_Type_create_indexed_block(count, block, offsets.data(), old, &made);
    else MPI_Type_indexed(count, blocks.data(), offsets.data(), old, &made);
    return committed(made);
}

std::vector<Shape> shapes() {
    std::vector<Shape> list;
    auto add = [&](std::string name, MPI_Datatype type, int count = 1) {
        list.push_back({std::move(name), type, count});
    };
    add("contiguous 4 KiB", vector(1, 4096, 4096, MPI_CHAR));
    add("vector float 1/2, 4 KiB", vector(1024, 1, 2, MPI_FLOAT));
    add("vector float 1/2, 1 MiB", vector(262144, 1, 2, MPI_FLOAT));
    add("vector double 1/2, 64 KiB", vector(8192, 1, 2, MPI_DOUBLE));
    add("matrix column, double 512x512", vector(512, 1, 512, MPI_DOUBLE));
    add("vector 4 doubles/8, 1 MiB", vector(32768, 4, 8, MPI_DOUBLE));
    add("vector 3 floats/5, 192 KiB", vector(16384, 3, 5, MPI_FLOAT));
    add("vector 16 doubles/32, 1 MiB", vector(8192, 16, 32, MPI_DOUBLE));
    add("vector 1 KiB/2 KiB, 1 MiB", vector(1024, 1024, 2048, MPI_CHAR));
    add("halo x of 64^3 double", subarray({64, 64, 64}, {64, 64, 1}, {0, 0, 1}, MPI_DOUBLE));
    add("halo y of 64^3 double", subarray({64, 64, 64}, {64, 1, 64}, {0, 1, 0}, MPI_DOUBLE));
    add("halo z of 64^3 double", subarray({64, 64, 64}, {1, 64, 64}, {1, 0, 0}, MPI_DOUBLE));
    add("halo x, width 3, of 64^3", subarray({64, 64, 64}, {60, 60, 3}, {2, 2, 1}, MPI_DOUBLE));
    add("inner 60^3 of 64^3 double", subarray({64, 64, 64}, {60, 60, 60}, {2, 2, 2}, MPI_DOUBLE));
    add("struct of 4 fields x 16384", particle(), 16384);
    add("struct of 4 fields x 16", particle(), 16);
    add("MPI_DOUBLE_INT x 16384", MPI_DOUBLE_INT, 16384);
    add("indexed_block 1 double x 16384", scattered(16384, 1, 4, MPI_DOUBLE, true));
    add("indexed_block 5 ints x 8192", scattered(8192, 5, 12, MPI_INT, true));
    add("indexed 1-8 doubles x 8192", scattered(8192, 8, 16, MPI_DOUBLE, false));
    add("vector of vectors 256x(64 of 2)", vector(256, 1, 1, vector(64, 2, 5, MPI_INT)));
    add("transposed 256x256 double", [] {
        MPI_Datatype column, narrow, made;
        MPI_Type_vector(256, 1, 256, MPI_DOUBLE, &column);
        MPI_Type_create_resized(column, 0, sizeof(double), &narrow);
        MPI_Type_contiguous(256, narrow, &made);
        return committed(made);
    }());
    return list;
}

double median_ns(const std::function<void()>& work) {
    using Clock = std::chrono::steady_clock;
    auto timed = [&](int repetitions) {
        auto start = Clock::now();
        for (int i = 0; i < repetitions; ++i) work();
        return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
    };
    work();
    int repetitions = std::max(1, static_cast<int>(200e3 / std::max(20.0, timed(1))));
    std::vector<double> samples;
    for (int i = 0; i < 31; ++i) samples.push_back(timed(repetitions) / repetitions);
    std::sort(samples.begin(), samples.end());
    return samples[samples.size() / 2];
}

// Verified: packing, unpacking elsewhere and packing again gives the same bytes, and what is not in
// the type stays untouched (counted by the bytes that change).
bool right(const Shape& shape, std::vector<char>& from, std::vector<char>& packed, int size) {
    std::vector<char> to(from.size(), 0), again(packed.size());
    int position = 0;
    for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<char>(1 + i * 7 % 255);
    MPI_Pack(from.data(), shape.count, shape.type, packed.data(), size, &position, MPI_COMM_SELF);
    position = 0;
    MPI_Unpack(packed.data(), size, &position, to.data(), shape.count, shape.type, MPI_COMM_SELF);
    position = 0;
    MPI_Pack(to.data(), shape.count, shape.type, again.data(), size, &position, MPI_COMM_SELF);
    long changed = 0, same = 0;
    for (size_t i = 0; i < to.size(); ++i) changed += to[i] != 0, same += to[i] == from[i];
    return packed == again && changed == size && same >= size;
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    std::printf("%-34s %9s %10s %10s %10s\n", "shape", "bytes", "pack ns", "unpack ns",
                "memcpy ns");
    bool all_right = true;
    for (const Shape& shape : shapes()) {
        int size;
        MPI_Aint lb, extent;
        MPI_Type_size(shape.type, &size);
        MPI_Type_get_extent(shape.type, &lb, &extent);
        size *= shape.count;
        // Room for the last element's true extent too, where elements are interleaved.
        std::vector<char> user(static_cast<size_t>(extent) * shape.count + (1 << 20));
        std::vector<char> packed(size), copy(size);
        if (!right(shape, user, packed, size)) {
            std::printf("%-34s WRONG RESULT\n", shape.name.c_str());
            all_right = false;
            continue;
        }
        double pack = median_ns([&] {
            int position = 0;
            MPI_Pack(user.data(), shape.count, shape.type, packed.data(), size, &position,
                     MPI_COMM_SELF);
        });
        double unpack = median_ns([&] {
            int position = 0;
            MPI_Unpack(packed.data(), size, &position, user.data(), shape.count, shape.type,
                       MPI_COMM_SELF);
        });
        double plain = median_ns([&] {
            std::memcpy(copy.data(), packed.data(), size);
            asm volatile("" : : "r"(copy.data()) : "memory");
        });
        std::printf("%-34s %9d %10.0f %10.0f %10.0f\n", shape.name.c_str(), size, pack, unpack,
                    plain);
    }
    MPI_Finalize();
    return all_right ? 0 : 1;
}
