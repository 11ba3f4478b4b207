// btl/base/links_file.h: the costs of links that `pomona tune` measured, as kept for mpirun.
// Idea: mpirun reads the file once and hands its text to all ranks as the parameter `links`, so
// that all choose alike; nobody but mpirun and `pomona` reads it. What the text says is
// coll/cost.h's matter. Form: "pomona-links 1", "machine NAME", "date YYYY-MM-DD", the text in one
// line.
#pragma once

#include "btl/base/result.h"

#include <string>
#include <string_view>

namespace pomona {

struct KeptLinks {
    std::string machine;  // what they hold for: links_machine()
    std::string date;     // of the measurement
    std::string text;     // "shm=60:35:0.08,..."
};

// Processor, its hardware threads, operating system: costs differ with each.
std::string links_machine();

std::string links_file_text(const KeptLinks& links);
Result<KeptLinks> parse_links_file(std::string_view text);

// Only a file of this machine; else Code::not_found and why.
Result<KeptLinks> load_links(const std::string& path);

}  // namespace pomona
