// btl/base/links_file.cc: see links_file.h; bytes from a file that anybody may have edited, so the
// parser is fuzzed (tests/fuzz/links.cc).
#include "btl/base/links_file.h"

#include "btl/base/format.h"
#include "btl/base/kept_file.h"

#include <sys/utsname.h>
#include <unistd.h>

namespace pomona {

namespace {

constexpr std::string_view first_line = "pomona-links 1";
constexpr size_t line_bytes_max = 512;

// A line "WORD rest": the rest, if it is short and printable.
bool read_line(std::string_view& text, std::string_view word, std::string& out) {
    std::string_view line = take_piece(text, '\n');
    if (line.substr(0, word.size()) != word || line.size() > line_bytes_max) return false;
    out = line.substr(word.size());
    for (char c : out)
        if (c < ' ' || c > '~') return false;
    return !out.empty();
}

}  // namespace

std::string links_machine() {
    utsname system{};
    uname(&system);
    return format("{}, {} hardware threads, {} {}", processor_name(), sysconf(_SC_NPROCESSORS_CONF),
                  system.sysname, system.machine);
}

std::string links_file_text(const KeptLinks& links) {
    return format("{}\nmachine {}\ndate {}\n{}\n", first_line, links.machine, links.date,
                  links.text);
}

Result<KeptLinks> parse_links_file(std::string_view text) {
    constexpr Error malformed{Code::malformed, "The file of measured links does not parse"};
    if (take_piece(text, '\n') != first_line) return malformed;
    KeptLinks links;
    if (!read_line(text, "machine ", links.machine) || !read_line(text, "date ", links.date) ||
        !read_line(text, "", links.text) || !text.empty())
        return malformed;
    return links;
}

Result<KeptLinks> load_links(const std::string& path) {
    KeptLinks links = TRY(parse_links_file(TRY(read_kept(path))));
    if (links.machine == links_machine()) return links;
    return Error{Code::not_found, "The links were measured on another machine"};
}

}  // namespace pomona
