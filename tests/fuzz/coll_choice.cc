// tests/fuzz/coll_choice.cc: libFuzzer over overrides of algorithms (POMONA_ALLREDUCE=...).
// Any text ends in a choice that can be built, or in a problem told.
#include "coll/select.h"
#include "coll/verify.h"

#include <cstdint>
#include <cstdlib>

using namespace pomona::coll;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    std::string_view text(reinterpret_cast<const char*>(data), size);
    for (Collective collective : {Collective::allreduce, Collective::bcast, Collective::alltoall}) {
        std::string problem;
        auto choice = parse_choice_for(collective, text, problem);
        if (!choice.ok()) {
            if (problem.empty()) std::abort();
            continue;
        }
        if (choice->options.segments > 64) continue;  // large, and nothing new
        Shape shape{.collective = collective, .size = 3, .count = 5, .element = 8};
        Schedule schedules[3];
        for (shape.rank = 0; shape.rank < 3; ++shape.rank) {
            Plan plan = select(shape, Machine::shared_memory(), *choice);
            schedules[shape.rank] = build_schedule(*plan.algorithm, shape, plan.options);
        }
        if (!verify(schedules).ok()) std::abort();
    }
    return 0;
}
