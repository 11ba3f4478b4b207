// tests/property/coll_case.h: one collective on one configuration: inputs, reference, run, compare.
// Idea: everything follows from a Case, which prints as text; results are compared byte for byte,
// gaps and guards included, with what sequential loops over all ranks' inputs give.
#pragma once

#include "coll/catalog.h"
#include "tests/sim/schedule_world.h"

#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace pomona::property {

using coll::Block;
using coll::Collective;

// Operations that reveal mistakes: lost or doubled contributions, wrong order, changed order.
enum class TestOp { sum_u64, matrix, sum_f32 };

struct Case {
    const coll::Algorithm* algorithm = nullptr;
    coll::Options options;
    int p = 1, root = 0;
    size_t count = 1;
    TestOp op = TestOp::sum_u64;
    bool in_place = false, irregular = false;
    int ranks_per_node = 0;  // 0: nodes are not known
    bool ring = false;       // rings go through the machines in a drawn order
    uint64_t seed = 1;       // of the data and of the network
    bool calm = false;
    bool board = true;  // the ranks of a node share memory
    coll::HazardRules rules;
};
std::string text_of(const Case& c);
// Random trees for as many ranks, of which each rank is a root; they live as long as the test.
const coll::Forest* random_forest(Collective collective, int p, Random& random);
// Gives trees to a case whose row needs some.
void give_trees(Case& c, Random& random);
// May the row be used for the case at all ranks?
bool legal(const Case& c);
// One configuration in all forms (in place, irregular, by both operations) for which the row may be
// used; the root is drawn unless given.
struct FormOptions {
    std::optional<int> root = {};
    bool board = true;
};
std::vector<Case> legal_forms(const coll::Algorithm& row, int p, size_t count, uint64_t seed,
                              const FormOptions& options = {});

struct Buffers {
    std::vector<std::byte> input, result;
};

// All ranks' buffers and shapes of a case, and what result buffers must hold at the end.
struct Setup {
    explicit Setup(const Case& c);
    coll::Shape shape(int rank) const;
    coll::Binding binding(int rank);

    Case c;
    size_t element;
    std::vector<Buffers> buffers;  // by rank
    std::vector<std::vector<std::byte>> expected;
    std::vector<std::vector<Block>> input_blocks, result_blocks;  // bytes, by rank (v-forms)
    std::vector<std::vector<int>> sources, destinations;
    std::vector<int> nodes, places;  // the latter for Shape::place
    coll::Reducer reducer;

private:
    void make_lengths();
    void make_buffers();
    void expect();
};

// Runs all ranks' schedules to their end; false: they did not come to one.
using Execute =
    std::function<bool(const std::vector<coll::Schedule>&, const std::vector<coll::Binding>&)>;
// "" when all ranks ended with what the reference says; else what is wrong and how to repeat it.
std::string run_case_by(const Case& c, const Execute& execute,
                        std::vector<std::vector<std::byte>>* results = nullptr);
// On simulated ranks.
std::string run_case(const Case& c, uint64_t* event_hash = nullptr,
                     std::vector<std::vector<std::byte>>* results = nullptr);

// A random straight-line program of messages, copies and reductions over few, overlapping regions
// of a few ranks, against its execution one step after the other. "" or the problem.
std::string run_random_program(uint64_t seed, coll::HazardRules rules = {});

// The seed of this run: POMONA_SEED, or the test's own.
uint64_t base_seed();

}  // namespace pomona::property
