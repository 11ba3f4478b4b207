// tests/property/coll_program.cc: random straight-line programs: what the Builder promises,
// directly.
// Method: one list of operations on all ranks' memory is executed in order, and also given to one
// Builder a rank; after a stormy simulated run the memories must be equal.
#include "btl/base/format.h"
#include "tests/property/coll_case.h"

#include <algorithm>

namespace pomona::property {

namespace {

constexpr size_t kBytes = 96;  // of each buffer, in elements of 8

struct Place {
    int buffer;  // 0 result, 1 scratch
    size_t offset;
};

struct Operation {
    int kind;  // 0 message, 1 copy, 2 reduce
    int rank, peer;
    Place from, other, to;
    size_t bytes;
};

struct Memory {
    std::vector<std::byte> buffer[2];
    std::byte* at(Place p) { return buffer[p.buffer].data() + p.offset; }
};

std::vector<Operation> random_operations(Random& random, int p) {
    std::vector<Operation> operations;
    auto place = [&](size_t bytes) {
        return Place{static_cast<int>(random.below(2)), 8 * random.below((kBytes - bytes) / 8 + 1)};
    };
    auto apart = [](Place x, Place y, size_t bytes) {
        return x.buffer != y.buffer || x.offset + bytes <= y.offset || y.offset + bytes <= x.offset;
    };
    for (int i = 0; i < 40; ++i) {
        Operation op;
        op.bytes = 8 * (1 + random.below(5));
        op.kind = static_cast<int>(random.below(4)) ? static_cast<int>(random.below(2)) * 2 : 1;
        op.rank = static_cast<int>(random.below(p));
        op.peer = (op.rank + 1 + static_cast<int>(random.below(p - 1))) % p;
        op.from = place(op.bytes), op.other = place(op.bytes), op.to = place(op.bytes);
        if (op.kind == 2 && random.chance(0.7)) op.to = random.chance(0.5) ? op.from : op.other;
        bool same = op.to.buffer == op.from.buffer && op.to.offset == op.from.offset;
        bool same_other = op.to.buffer == op.other.buffer && op.to.offset == op.other.offset;
        if (op.kind == 2 && !apart(op.from, op.other, op.bytes)) continue;
        if (op.kind == 2 && !same && !apart(op.from, op.to, op.bytes)) continue;
        if (op.kind == 2 && !same_other && !apart(op.other, op.to, op.bytes)) continue;
        operations.push_back(op);
    }
    return operations;
}

void add_all(void* out, const void* left, const void* right, size_t count) {
    for (size_t i = 0; i < count; ++i) {
        uint64_t x, y;
        std::memcpy(&x, static_cast<const std::byte*>(left) + 8 * i, 8);
        std::memcpy(&y, static_cast<const std::byte*>(right) + 8 * i, 8);
        x = x * 3 + y;
        std::memcpy(static_cast<std::byte*>(out) + 8 * i, &x, 8);
    }
}

void execute(std::vector<Memory>& memories, const Operation& op) {
    Memory& mine = memories[op.rank];
    if (op.kind == 2)
        return add_all(mine.at(op.to), mine.at(op.from), mine.at(op.other), op.bytes / 8);
    std::memmove(memories[op.kind ? op.rank : op.peer].at(op.to), mine.at(op.from), op.bytes);
}

}  // namespace

std::string run_random_program(uint64_t seed, coll::HazardRules rules) {
    Random random(seed);
    int p = random.between(2, 4);
    auto operations = random_operations(random, p);
    std::vector<Memory> memories(p);
    for (Memory& memory : memories)
        for (auto& buffer : memory.buffer)
            for (size_t i = 0; i < kBytes; ++i)
                buffer.push_back(static_cast<std::byte>(random.next()));

    std::vector<coll::Schedule> schedules;
    std::vector<coll::Binding> bindings(p);
    std::vector<std::vector<std::byte>> results(p);
    coll::Reducer reducer;
    reducer.into = [](const coll::Reducer*, void* inout, const void* left, size_t count) {
        add_all(inout, left, inout, count);
    };
    reducer.to = [](const coll::Reducer*, void* out, const void* left, const void* right,
                    size_t count) { add_all(out, left, right, count); };
    for (int r = 0; r < p; ++r) {
        // The result buffer begins with memory 0 and ends with a copy of memory 1, the scratch.
        results[r] = memories[r].buffer[0];
        results[r].insert(results[r].end(), memories[r].buffer[1].begin(),
                          memories[r].buffer[1].end());
        coll::Shape shape{.rank = r, .size = p, .element = 8};
        coll::Builder s(shape, rules);
        coll::Region scratch = s.scratch(kBytes);
        auto region = [&](Place at, size_t bytes) {
            return at.buffer ? scratch.slice(at.offset, bytes) : s.result(at.offset, bytes);
        };
        s.copy(s.result(kBytes, kBytes), scratch);
        s.join();
        for (const Operation& op : operations) {
            if (op.kind == 0 && op.rank == r) s.send(op.peer, region(op.from, op.bytes));
            if (op.kind == 0 && op.peer == r) s.recv(op.rank, region(op.to, op.bytes));
            if (op.kind == 1 && op.rank == r)
                s.copy(region(op.from, op.bytes), region(op.to, op.bytes));
            if (op.kind == 2 && op.rank == r)
                s.reduce(region(op.from, op.bytes), region(op.other, op.bytes),
                         region(op.to, op.bytes));
        }
        s.join();
        s.copy(scratch, s.result(kBytes, kBytes));
        schedules.push_back(s.finish());
        bindings[r].result = results[r].data();
        bindings[r].reducer = &reducer;
    }
    for (const Operation& op : operations) execute(memories, op);

    sim::ScheduleOptions options;
    options.ranks = p;
    options.faults.jitter_ns = 1e5 * random.unit();
    options.faults.reorder_chance = 0.3;
    options.rendezvous_chance = random.unit();
    options.immediate_chance = 0.3;
    sim::ScheduleWorld world(seed, options);
    world.run(schedules, bindings);
    if (!world.all_done()) return format("Not every rank finished: POMONA_SEED={:#x}", seed);
    for (int r = 0; r < p; ++r) {
        bool same = std::equal(memories[r].buffer[0].begin(), memories[r].buffer[0].end(),
                               results[r].begin()) &&
                    std::equal(memories[r].buffer[1].begin(), memories[r].buffer[1].end(),
                               results[r].begin() + kBytes);
        if (!same) return format("Rank {}'s memory differs: POMONA_SEED={:#x}", r, seed);
    }
    return "";
}

}  // namespace pomona::property
