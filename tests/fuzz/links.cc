// tests/fuzz/links.cc: libFuzzer over the parameter `links` and over the file that mpirun takes it
// from. Any bytes end in costs that come back as they were written, or in a problem told.
#include "btl/base/links_file.h"
#include "coll/cost.h"

#include <cstdint>
#include <cstdlib>

using namespace pomona;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    std::string_view text(reinterpret_cast<const char*>(data), size);
    if (auto kept = parse_links_file(text); kept.ok()) {
        auto again = parse_links_file(links_file_text(*kept));
        if (!again.ok() || again->text != kept->text) std::abort();
    }
    std::string problem;
    auto links = coll::parse_links(text, problem);
    if (!links.ok()) {
        if (problem.empty()) std::abort();
        return 0;
    }
    for (const coll::Link& link : {links->shm, links->tcp, links->net})
        if (!(link.message_ns() > 0) || !(link.byte_ns >= 0) || link.byte_ns > 1e9) std::abort();
    // Written with five digits behind the point; what is shorter is not 0 again.
    auto again = coll::parse_links(coll::links_text(*links), problem);
    if (again.ok() && coll::links_text(*again) != coll::links_text(*links)) std::abort();
    return 0;
}
