// tests/fuzz/choices.cc: libFuzzer over the rules for choosing algorithms and the file that mpirun
// takes them from. Any bytes end in rules that come back as they were written, or in a problem told
// with its line.
#include "btl/base/choices_file.h"
#include "coll/select.h"

#include <cstdint>
#include <cstdlib>

using namespace pomona;
using namespace pomona::coll;

namespace {

void read_rules(std::string_view text) {
    std::string problem;
    auto rules = parse_rules(text, problem);
    if (!rules.ok()) {
        if (!problem.starts_with("Line ")) std::abort();
        return;
    }
    auto again = parse_rules(rules_text(*rules), problem);
    if (!again.ok() || rules_text(*again) != rules_text(*rules)) std::abort();
    const Rules* list[] = {&*rules};
    for (Collective collective :
         {Collective::allreduce, Collective::barrier, Collective::alltoall}) {
        Shape shape{.collective = collective, .size = 3, .count = 5, .element = 8};
        if (!select(shape, Machine::shared_memory(), {}, list).algorithm) std::abort();
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    std::string_view text(reinterpret_cast<const char*>(data), size);
    read_rules(text);
    auto handed = handed_choices(text, "here");
    if (!handed.ok()) return 0;
    read_rules(*handed);
    // What tune writes stands behind what was there, and is found again.
    std::string file =
        with_tuned_choices(text, "this machine", "here", "2026-01-31", "bcast: linear\n");
    if (with_tuned_choices(file, "this machine", "here", "2026-01-31", "bcast: linear\n") != file)
        std::abort();
    auto kept = handed_choices(file, "here");
    if (kept.ok() && kept->find("bcast: linear") == kept->npos) std::abort();
    return 0;
}
