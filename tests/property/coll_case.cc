// tests/property/coll_case.cc: the sequential reference and the comparison.
#include "tests/property/coll_case.h"

#include "btl/base/format.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>

namespace pomona::property {

namespace {

constexpr size_t kGuard = 32;
constexpr std::byte kUntouched{0x5c};

// 2x2 matrices modulo a prime: the product tells order.
struct Matrix {
    uint32_t cell[4];
};
Matrix operator*(const Matrix& x, const Matrix& y) {
    constexpr uint64_t prime = 2147483647;
    Matrix out;
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j)
            out.cell[2 * i + j] =
                static_cast<uint32_t>((uint64_t{x.cell[2 * i]} * y.cell[j] % prime +
                                       uint64_t{x.cell[2 * i + 1]} * y.cell[2 + j] % prime) %
                                      prime);
    return out;
}

template <class T, class F>
void apply(void* out, const void* left, const void* right, size_t count, F f) {
    for (size_t i = 0; i < count; ++i) {
        T x, y;
        std::memcpy(&x, static_cast<const std::byte*>(left) + i * sizeof(T), sizeof(T));
        std::memcpy(&y, static_cast<const std::byte*>(right) + i * sizeof(T), sizeof(T));
        T z = f(x, y);
        std::memcpy(static_cast<std::byte*>(out) + i * sizeof(T), &z, sizeof(T));
    }
}

void combine(TestOp op, void* out, const void* left, const void* right, size_t count) {
    if (op == TestOp::matrix)
        apply<Matrix>(out, left, right, count, [](Matrix x, Matrix y) { return x * y; });
    else if (op == TestOp::sum_u64)
        apply<uint64_t>(out, left, right, count, [](uint64_t x, uint64_t y) { return x + y; });
    else apply<float>(out, left, right, count, [](float x, float y) { return x + y; });
}

template <TestOp op> coll::Reducer reducer_of() {
    coll::Reducer reducer;
    reducer.into = [](const coll::Reducer*, void* inout, const void* left, size_t count) {
        combine(op, inout, left, inout, count);
    };
    reducer.to = [](const coll::Reducer*, void* out, const void* left, const void* right,
                    size_t count) { combine(op, out, left, right, count); };
    return reducer;
}

bool reduces(Collective kind) {
    return kind == Collective::reduce || kind == Collective::allreduce ||
           kind == Collective::reduce_scatter || kind == Collective::scan ||
           kind == Collective::exscan;
}

// In vectors that all ranks have, not in blocks.
bool reduces_whole(Collective kind) { return reduces(kind) && kind != Collective::reduce_scatter; }

void fill(std::vector<std::byte>& bytes, TestOp op, Random random) {
    if (op == TestOp::sum_f32) {
        for (size_t i = 0; i + 4 <= bytes.size(); i += 4) {
            float value = static_cast<float>((random.unit() - 0.5) * 1e3);
            std::memcpy(&bytes[i], &value, 4);
        }
        return;
    }
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
}

size_t end_of(const std::vector<Block>& blocks) {
    size_t end = 0;
    for (const Block& block : blocks) end = std::max(end, block.offset + block.length);
    return end;
}

}  // namespace

uint64_t base_seed() {
    const char* text = std::getenv("POMONA_SEED");
    return text ? std::strtoull(text, nullptr, 0) : 0x706f6d6f6e61;
}

std::string text_of(const Case& c) {
    const char* ops[] = {"sum_u64", "matrix", "sum_f32"};
    return format(
        "{} {}:segments={},radix={} p={} root={} count={} op={}{}{} nodes={}{} seed={:#x}",
        collective_name(c.algorithm->collective), c.algorithm->name, c.options.segments,
        c.options.radix, c.p, c.root, c.count, ops[static_cast<int>(c.op)],
        c.in_place ? " in_place" : "", c.irregular ? " irregular" : "", c.ranks_per_node,
        c.ring ? " ring" : "", c.seed);
}

const coll::Forest* random_forest(Collective collective, int p, Random& random) {
    static std::deque<coll::Forest> made;
    coll::Forest& forest = made.emplace_back();
    forest.collective = collective;
    forest.segment = random.chance(0.5) ? 16 * (1 + random.below(20)) : 0;
    for (int root = 0; root < p; ++root)
        for (int trees = random.between(1, 3); trees > 0; --trees) {
            coll::Tree tree{random.between(1, 9), std::vector<int>(static_cast<size_t>(p), -1)};
            std::vector<int> joined{root};
            for (int rank = 0; rank < p; ++rank)
                if (rank != root) joined.push_back(rank);
            for (size_t i = joined.size(); i > 2; --i)
                std::swap(joined[i - 1], joined[1 + random.below(i - 1)]);
            for (size_t i = 1; i < joined.size(); ++i)
                tree.parents[static_cast<size_t>(joined[i])] = joined[random.below(i)];
            forest.trees.push_back(std::move(tree));
        }
    return &forest;
}

void give_trees(Case& c, Random& random) {
    if (c.algorithm->tunables & coll::by_trees)
        c.options.forest = random_forest(c.algorithm->collective, c.p, random);
}

Setup::Setup(const Case& wanted) : c(wanted) {
    Random random(c.seed);
    const size_t sizes[] = {1, 3, 8, 24};
    element = reduces(c.algorithm->collective) ? (c.op == TestOp::matrix    ? 16
                                                  : c.op == TestOp::sum_u64 ? 8
                                                                            : 4)
                                               : sizes[random.below(4)];
    // Machines are filled one after the other, or in turn.
    int machines = c.ranks_per_node ? (c.p + c.ranks_per_node - 1) / c.ranks_per_node : 1;
    bool in_turn = c.seed % 3 == 1;
    for (int r = 0; r < c.p && c.ranks_per_node; ++r)
        nodes.push_back(in_turn ? r % machines : r / c.ranks_per_node);
    places = nodes;
    std::vector<int> order;
    for (int machine = 0; machine < machines && c.ring && c.ranks_per_node; ++machine)
        order.insert(order.begin() + static_cast<ptrdiff_t>(random.below(order.size() + 1)),
                     machine);
    for (int machine : order)
        for (int r = 0; r < c.p; ++r)
            if (nodes[r] == machine) places.push_back(r);
    reducer = c.op == TestOp::matrix    ? reducer_of<TestOp::matrix>()
              : c.op == TestOp::sum_u64 ? reducer_of<TestOp::sum_u64>()
                                        : reducer_of<TestOp::sum_f32>();
    input_blocks.resize(c.p), result_blocks.resize(c.p);
    sources.resize(c.p), destinations.resize(c.p);
    make_lengths();
    make_buffers();
    expect();
}

// Block tables: regular ones from `count`, irregular ones random, with gaps where MPI allows them.
void Setup::make_lengths() {
    Random random(c.seed ^ 0x1e);
    Collective kind = c.algorithm->collective;
    auto length = [&] {
        return c.irregular ? random.below(c.count + 2) * element : c.count * element;
    };
    auto gap = [&] { return c.irregular && random.chance(0.3) ? random.below(3) * element : 0; };
    auto table = [&](const std::vector<size_t>& lengths, bool gaps) {
        std::vector<Block> blocks;
        size_t at = 0;
        for (size_t bytes : lengths) {
            if (gaps) at += gap();
            blocks.push_back({at, bytes});
            at += bytes;
        }
        return blocks;
    };
    if (kind == Collective::neighbor) {
        for (int r = 0; r < c.p; ++r)
            for (uint64_t n = random.below(5); n > 0; --n)
                destinations[r].push_back(static_cast<int>(random.below(c.p)));
        std::vector<std::vector<size_t>> in(c.p), out(c.p);
        for (int r = 0; r < c.p; ++r)
            for (int to : destinations[r]) {
                in[r].push_back(length());
                out[to].push_back(in[r].back());
                sources[to].push_back(r);
            }
        for (int r = 0; r < c.p; ++r)
            input_blocks[r] = table(in[r], true), result_blocks[r] = table(out[r], true);
        return;
    }
    std::vector<std::vector<size_t>> matrix(c.p, std::vector<size_t>(c.p));
    for (auto& row : matrix)
        for (size_t& bytes : row) bytes = length();
    for (int r = 0; r < c.p; ++r) {
        std::vector<size_t> column;
        for (int from = 0; from < c.p; ++from)
            column.push_back(kind == Collective::alltoall
                                 ? c.in_place ? matrix[std::min(from, r)][std::max(from, r)]
                                              : matrix[from][r]
                                 : matrix[0][from]);
        bool gaps = kind != Collective::reduce_scatter;
        input_blocks[r] = table(kind == Collective::alltoall ? matrix[r] : matrix[0], gaps);
        result_blocks[r] = table(column, gaps);
    }
    if (kind == Collective::reduce_scatter)
        for (auto& blocks : input_blocks) blocks = input_blocks[0];
}

coll::Shape Setup::shape(int r) const {
    coll::Shape shape;
    Collective kind = c.algorithm->collective;
    shape.collective = kind;
    shape.rank = r, shape.size = c.p, shape.root = c.root;
    shape.count = c.count, shape.element = element;
    shape.commutative = c.op != TestOp::matrix;
    bool rooted =
        kind == Collective::reduce || kind == Collective::gather || kind == Collective::scatter;
    shape.in_place = c.in_place && (!rooted || r == c.root);
    shape.board = c.board;
    shape.irregular = c.irregular;
    shape.place(places);
    shape.sources = sources[r], shape.destinations = destinations[r];
    bool lists = c.irregular || kind == Collective::neighbor;
    bool at_root = r == c.root;
    if (lists && (kind == Collective::alltoall || kind == Collective::reduce_scatter ||
                  kind == Collective::neighbor || (kind == Collective::scatter && at_root)))
        shape.input_blocks = input_blocks[r];
    if (lists && (kind == Collective::alltoall || kind == Collective::allgather ||
                  kind == Collective::neighbor || (kind == Collective::gather && at_root)))
        shape.result_blocks = result_blocks[r];
    if (c.irregular && kind == Collective::gather)
        shape.count = result_blocks[c.root][r].length / element;
    if (c.irregular && kind == Collective::scatter)
        shape.count = input_blocks[c.root][r].length / element;
    return shape;
}

void Setup::make_buffers() {
    Collective kind = c.algorithm->collective;
    Random random(c.seed ^ 0xda7a);
    size_t vector = c.count * element;
    buffers.resize(c.p);
    for (int r = 0; r < c.p; ++r) {
        size_t in = vector, out = vector;
        if (kind == Collective::allgather || kind == Collective::gather) {
            in = result_blocks[kind == Collective::gather ? c.root : r][r].length;
            out = end_of(result_blocks[r]);
        } else if (kind == Collective::reduce_scatter || kind == Collective::scatter) {
            in = end_of(input_blocks[r]);
            out = input_blocks[kind == Collective::scatter ? c.root : r][r].length;
        } else if (kind == Collective::alltoall || kind == Collective::neighbor) {
            in = end_of(input_blocks[r]), out = end_of(result_blocks[r]);
        }
        buffers[r].input.resize(in);
        fill(buffers[r].input, c.op, random.split());
        buffers[r].result.assign(std::max(out, c.in_place ? in : 0) + kGuard, kUntouched);
    }
}

void Setup::expect() {
    Collective kind = c.algorithm->collective;
    for (int r = 0; r < c.p; ++r) expected.push_back(buffers[r].result);
    // The bytes a rank contributes at each place, where the reference needs them.
    auto put = [](std::vector<std::byte>& to, size_t at, const std::byte* from, size_t bytes) {
        if (bytes) std::memcpy(to.data() + at, from, bytes);
    };
    auto total = [&](int first, int last, size_t at, size_t bytes) {  // ranks first .. last - 1
        std::vector<std::byte> sum(buffers[first].input.begin() + at,
                                   buffers[first].input.begin() + at + bytes);
        for (int r = first + 1; r < last; ++r)
            combine(c.op, sum.data(), sum.data(), buffers[r].input.data() + at, bytes / element);
        return sum;
    };
    size_t n = c.count * element;
    for (int r = 0; r < c.p; ++r) {
        auto& out = expected[r];
        std::vector<std::byte> sum;
        switch (kind) {
        case Collective::bcast: put(out, 0, buffers[c.root].input.data(), n); break;
        case Collective::reduce:
            if (r == c.root) sum = total(0, c.p, 0, n);
            break;
        case Collective::allreduce: sum = total(0, c.p, 0, n); break;
        case Collective::scan: sum = total(0, r + 1, 0, n); break;
        case Collective::exscan:
            if (r) sum = total(0, r, 0, n);
            break;
        case Collective::reduce_scatter:
            sum = total(0, c.p, input_blocks[r][r].offset, input_blocks[r][r].length);
            break;
        case Collective::allgather:
        case Collective::gather:
            for (int from = 0; from < c.p && (kind == Collective::allgather || r == c.root); ++from)
                put(out, result_blocks[r][from].offset, buffers[from].input.data(),
                    result_blocks[r][from].length);
            break;
        case Collective::scatter:
            put(out, 0, buffers[c.root].input.data() + input_blocks[c.root][r].offset,
                input_blocks[c.root][r].length);
            break;
        case Collective::alltoall:
            for (int from = 0; from < c.p && !c.in_place; ++from)
                put(out, result_blocks[r][from].offset,
                    buffers[from].input.data() + input_blocks[from][r].offset,
                    result_blocks[r][from].length);
            break;
        case Collective::neighbor: {
            std::vector<size_t> next(c.p);  // the k-th edge from a to b, on both sides
            for (size_t i = 0; i < sources[r].size(); ++i) {
                int from = sources[r][i];
                size_t& j = next[from];
                while (destinations[from][j] != r) ++j;
                put(out, result_blocks[r][i].offset,
                    buffers[from].input.data() + input_blocks[from][j].offset,
                    result_blocks[r][i].length);
                ++j;
            }
            break;
        }
        default: break;
        }
        put(out, 0, sum.data(), sum.size());
    }
    // In place, the input stands in the result buffer, and what is not result stays as it was.
    for (int r = 0; r < c.p; ++r) {
        coll::Shape s = shape(r);
        auto& mine = buffers[r].result;
        if (kind == Collective::bcast && r == c.root) put(mine, 0, buffers[r].input.data(), n);
        if (!s.in_place) continue;
        if (kind == Collective::allgather || kind == Collective::gather) {
            put(mine, result_blocks[r][r].offset, buffers[r].input.data(),
                result_blocks[r][r].length);
        } else if (kind == Collective::scatter) {
            put(mine, 0, buffers[r].input.data(), buffers[r].input.size());
            expected[r] = mine;
        } else if (kind == Collective::alltoall) {
            for (const Block& b : result_blocks[r])  // the buffer's own bytes are what is sent
                for (size_t i = 0; i < b.length; ++i)
                    mine[b.offset + i] = static_cast<std::byte>(r * 31 + b.offset + i);
        } else {
            put(mine, 0, buffers[r].input.data(), buffers[r].input.size());
            if (kind == Collective::reduce_scatter) {
                auto sum = expected[r];
                expected[r] = mine;
                put(expected[r], 0, sum.data(), input_blocks[r][r].length);
            }
            if (kind == Collective::exscan && !r) expected[r] = mine;
        }
    }
    if (kind == Collective::alltoall && c.in_place)
        for (int r = 0; r < c.p; ++r)
            for (int from = 0; from < c.p; ++from)
                put(expected[r], result_blocks[r][from].offset,
                    buffers[from].result.data() + result_blocks[from][r].offset,
                    result_blocks[r][from].length);
}

coll::Binding Setup::binding(int r) {
    coll::Binding binding;
    bool in_place = shape(r).in_place;
    binding.input = in_place ? buffers[r].result.data() : buffers[r].input.data();
    binding.result = buffers[r].result.data();
    binding.reducer = &reducer;
    binding.stream = r % 2;  // the same bytes either way
    return binding;
}

bool legal(const Case& c) {
    Setup setup(c);
    for (int r = 0; r < c.p; ++r) {
        coll::Facts facts(setup.shape(r), coll::Machine::shared_memory(), c.options);
        if (!c.algorithm->legal(facts)) return false;
    }
    return true;
}

std::vector<Case> legal_forms(const coll::Algorithm& row, int p, size_t count, uint64_t seed,
                              const FormOptions& options) {
    Random random(seed);
    Collective kind = row.collective;
    bool no_in_place = kind == Collective::bcast || kind == Collective::neighbor;
    bool no_lists = kind == Collective::bcast || reduces_whole(kind);
    std::vector<Case> out;
    for (bool in_place : {false, true})
        for (bool irregular : {false, true})
            for (TestOp op : {TestOp::sum_u64, TestOp::matrix}) {
                Case c;
                c.algorithm = &row;
                c.p = p, c.count = count, c.op = op;
                c.root = options.root ? *options.root : static_cast<int>(random.below(p));
                c.in_place = in_place, c.irregular = irregular, c.board = options.board;
                c.options.segments = row.uses_segments ? random.between(1, 4) : 1;
                c.options.radix = row.uses_radix ? random.between(1, 4) : 2;
                bool hierarchical = std::string_view(row.name).starts_with("hierarchical");
                c.ranks_per_node = random.chance(0.5) || hierarchical ? random.between(2, 4) : 0;
                c.ring = random.chance(0.5);
                if (c.ring && c.ranks_per_node) c.ranks_per_node = random.between(1, 3);
                c.seed = random.next();
                give_trees(c, random);
                if ((in_place && no_in_place) || (irregular && no_lists)) continue;
                if (kind == Collective::barrier && (in_place || irregular)) continue;
                if (legal(c)) out.push_back(c);
            }
    return out;
}

std::string run_case_by(const Case& c, const Execute& execute,
                        std::vector<std::vector<std::byte>>* results) {
    Setup setup(c);
    std::vector<coll::Schedule> schedules;
    std::vector<coll::Binding> bindings;
    for (int r = 0; r < c.p; ++r) {
        schedules.push_back(build_schedule(*c.algorithm, setup.shape(r), c.options, c.rules));
        bindings.push_back(setup.binding(r));
    }
    bool all_done = execute(schedules, bindings);
    if (results)
        for (int r = 0; r < c.p; ++r) results->push_back(setup.buffers[r].result);
    std::string repeat =
        format(": {}\n  repeat with POMONA_SEED={:#x} and the same filter: {}", text_of(c),
               base_seed(), ::testing::UnitTest::GetInstance()->current_test_info()->name());
    if (!all_done) return "Not every rank finished" + repeat;
    bool bitwise = c.op != TestOp::sum_f32 || !reduces(c.algorithm->collective);
    for (int r = 0; r < c.p && bitwise; ++r)
        for (size_t i = 0; i < setup.expected[r].size(); ++i)
            if (setup.buffers[r].result[i] != setup.expected[r][i])
                return format("Rank {} byte {} differs", r, i) + repeat;
    return "";
}

std::string run_case(const Case& c, uint64_t* event_hash,
                     std::vector<std::vector<std::byte>>* results) {
    Random random(c.seed ^ 0x4e7);
    sim::ScheduleOptions options;
    options.ranks = c.p;
    options.nodes = Setup(c).nodes;
    if (!c.calm) {
        options.faults.jitter_ns = random.chance(0.8) ? 1e5 * random.unit() : 0;
        options.faults.reorder_chance = random.chance(0.5) ? 0.3 : 0;
        options.rendezvous_chance = random.chance(0.5) ? random.unit() : 0;
        options.immediate_chance = random.chance(0.5) ? random.unit() : 0;
        options.ahead_chance = c.seed % 3 == 0 ? 0.8 : 0;
        options.start_spread_ns = random.chance(0.5) ? 2e4 : 0;
        if (random.chance(0.2)) options.faults.slow_rank = static_cast<int>(random.below(c.p));
    }
    sim::ScheduleWorld world(c.seed, options);
    auto execute = [&](const auto& schedules, const auto& bindings) {
        world.run(schedules, bindings);
        if (event_hash) *event_hash = world.world().hash();
        return world.all_done();
    };
    return run_case_by(c, execute, results);
}

}  // namespace pomona::property
