// coll/algorithms/pairwise.cc: p-1 steps, in each of which everyone talks to one partner.
#include "coll/algorithms/algorithms.h"

#include <algorithm>

namespace pomona::coll {

// Idea: `radix` exchanges are under way at a time, so that no rank is flooded; partners are
// r ^ step for powers of two, else r + step and r - step.
// Source: Thakur, Rabenseifner, Gropp, IJHPCA 19(1):49-66, 2005, section 4.3.
// Cost: (p-1)(a + m b)     Limits: none
void alltoall_pairwise(Builder& s, const Shape& shape, const Options& options) {
    auto in = shape.in_place ? result_blocks(shape) : input_blocks(shape);
    auto out = result_blocks(shape);
    copy_input_aside(s, shape, out);
    int p = shape.size, r = shape.rank;
    std::vector<StepId> sends(p, kNoStep), receives(p, kNoStep);
    for (int step = 1; step < p; ++step) {
        int to = is_power_of_two(p) ? r ^ step : (r + step) % p;
        int from = is_power_of_two(p) ? to : mod(r - step, p);
        receives[step] = s.recv(from, result(s, out[from]));
        sends[step] = s.send(to, input(s, in[to]));
        if (step <= options.radix) continue;
        for (StepId later : {sends[step], receives[step]})
            for (StepId earlier : {sends[step - options.radix], receives[step - options.radix]})
                s.after(later, earlier);
    }
    s.copy(input(s, in[r]), result(s, out[r]));  // while messages come
}

// Idea: all messages at once, the nearest first, so that ranks do not all begin with rank 0.
// Source: Culler et al., LogP, PPoPP 1993 (staggered all-to-all).
// Cost: a + (p-1)(o + m b)     Limits: none
void alltoall_linear(Builder& s, const Shape& shape, const Options&) {
    auto in = shape.in_place ? result_blocks(shape) : input_blocks(shape);
    auto out = result_blocks(shape);
    copy_input_aside(s, shape, out);
    int p = shape.size, r = shape.rank;
    for (int step = 1; step < p; ++step) s.recv(mod(r - step, p), result(s, out[mod(r - step, p)]));
    for (int step = 1; step < p; ++step) s.send((r + step) % p, input(s, in[(r + step) % p]));
    s.copy(input(s, in[r]), result(s, out[r]));
}

// Idea: each rank sends every other its block of the input, and adds what it gets.
// Source: Thakur, Rabenseifner, Gropp, 2005, section 4.4.
// Cost: (p-1)(a + m (b + r))     Limits: commutative
void reduce_scatter_pairwise(Builder& s, const Shape& shape, const Options&) {
    auto blocks = input_blocks(shape);
    int p = shape.size, r = shape.rank;
    Block own = blocks[r];
    Region mine = input(s, own), target = s.result(0, own.length);
    if (p == 1) return void(s.copy(mine, target));
    Region sum = shape.in_place ? s.scratch(own.length) : target;
    Landings landings(s, own.length);
    StepId before = kNoStep;
    for (int step = 1; step < p; ++step) {
        int to = (r + step) % p, from = mod(r - step, p);
        Region theirs = landings.next();
        StepId received = s.recv(from, theirs);
        s.after(s.send(to, input(s, blocks[to])), before);
        before = received;
        s.reduce(theirs, mine, sum);
        mine = sum;
    }
    s.copy(sum, target);
}

}  // namespace pomona::coll
