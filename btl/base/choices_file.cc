// btl/base/choices_file.cc: see choices_file.h; bytes from a file that people edit, so it is fuzzed
// (tests/fuzz/choices.cc).
#include "btl/base/choices_file.h"

#include "btl/base/format.h"
#include "btl/base/kept_file.h"
#include "btl/base/links_file.h"

#include <algorithm>

namespace pomona {

namespace {

constexpr std::string_view kHead =
    "# Which algorithm each collective takes: docs/tuning.md says how to write rules. The first range\n"
    "# that fits counts; what no rule speaks of is chosen by costs. pomona tune writes only what stands\n"
    "# between two lines of its own below; your rules above them come first.\n";
constexpr std::string_view kBegin = "# measured by pomona tune",
                           kEnd = "# end of what was measured";

}  // namespace

Result<std::string> handed_choices(std::string_view file, std::string_view machine) {
    std::string out;
    bool here = true, any = false;
    while (!file.empty()) {
        std::string_view line = take_piece(file, '\n');
        bool begins = line.starts_with(kBegin), ends = line.starts_with(kEnd);
        line = bare_line(line);
        if (!may_be_handed(line))
            return Error{Code::malformed, "A line has characters that belong to no rule"};
        if (begins || ends) here = true;
        if (line.starts_with("machine ")) here = line.substr(8) == machine, line = {};
        if (here && !line.empty()) out += line, any = true;
        out += ';';
        if (out.size() > kHandedMost)
            return Error{Code::malformed, "It is longer than 64 KiB without comments"};
    }
    if (!any) return std::string();
    out.resize(out.find_last_not_of(';') + 1);
    return out;
}

Result<std::string> load_choices_file(const std::string& path) {
    return handed_choices(TRY(read_kept(path)), links_machine());
}

std::string with_tuned_choices(std::string_view file, std::string_view what,
                               std::string_view machine, std::string_view date,
                               std::string_view rules) {
    std::string out, begin = format("{}, {}, on ", kBegin, what);
    bool inside = false;
    while (!file.empty()) {
        std::string_view line = take_piece(file, '\n');
        if (line.starts_with(begin)) inside = true;
        if (!inside) out += format("{}\n", line);
        if (line.starts_with(kEnd)) inside = false;
    }
    if (out.empty()) out = kHead;
    return out + format("{}{}\nmachine {}\n{}{}\n", begin, date, machine, rules, kEnd);
}

}  // namespace pomona
