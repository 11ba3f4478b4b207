// btl/base/forests_file.cc: see forests_file.h.
#include "btl/base/forests_file.h"

#include "btl/base/format.h"
#include "btl/base/kept_file.h"

#include <algorithm>
#include <vector>

namespace pomona {

namespace {

constexpr std::string_view kHead =
    "# Trees by which collectives go on a network of yours: docs/tuning.md says how to read them.\n"
    "# pomona synthesize writes them; jobs of mpirun on these hosts use them.\n";

// "network a:2 b" with numbers for names; "" where a host is none of these.
std::string by_number(std::string_view words, std::span<const std::string> hosts) {
    std::string out(take_piece(words, ' '));
    while (!words.empty()) {
        std::string_view word = take_piece(words, ' ');
        if (word.empty()) continue;
        size_t colon = std::min(word.rfind(':'), word.size());
        auto at = std::find(hosts.begin(), hosts.end(), word.substr(0, colon));
        if (at == hosts.end()) return {};
        out += format(" {}{}", at - hosts.begin(), word.substr(colon));
    }
    return out;
}

// What a forest's line is for: "allreduce 64K..16M".
std::string_view purpose(std::string_view line) {
    line = line.substr(0, line.find(':'));
    return bare_line(line.substr(0, line.find(" segment=")));
}

}  // namespace

Result<std::string> handed_forests(std::string_view file, std::span<const std::string> hosts) {
    std::string out;
    bool here = false, any = false;
    while (!file.empty()) {
        std::string_view line = bare_line(take_piece(file, '\n'));
        if (!may_be_handed(line))
            return Error{Code::malformed, "A line has characters that belong to no forest"};
        if (line.starts_with("network ")) {
            std::string numbered = by_number(line, hosts);
            here = !numbered.empty();
            out += numbered;
        } else if (here && !line.empty()) {
            out += line, any = true;
        }
        out += ';';
        if (out.size() > kHandedMost)
            return Error{Code::malformed, "It is longer than 64 KiB without comments"};
    }
    if (!any) return std::string();
    out.resize(out.find_last_not_of(';') + 1);
    return out;
}

std::string with_forest(std::string_view file, std::string_view network, std::string_view forest,
                        std::string_view why) {
    std::string head(bare_line(network.substr(0, network.find('\n'))));
    std::string out, added = format("# {}\n{}\n", why, forest);
    bool inside = false, put = false;
    std::vector<std::string> comments;  // that belong to the next line
    auto flush = [&] {
        for (const std::string& each : comments) out += each + "\n";
        comments.clear();
    };
    while (!file.empty()) {
        std::string_view line = take_piece(file, '\n'), words = bare_line(line);
        if (words.starts_with("network ")) {
            if (inside && !put) out += added, put = true;
            inside = words == head;
            if (inside) {  // with today's rates
                flush();
                out += network;
                continue;
            }
        }
        if (inside && words.starts_with("gigabits ")) continue;
        if (inside && words.empty() && !line.empty()) {
            comments.emplace_back(line);
            continue;
        }
        if (inside && !words.empty() && purpose(words) == purpose(forest)) {
            comments.clear();
            continue;
        }
        flush();
        out += format("{}\n", line);
    }
    flush();
    if (out.empty()) out = kHead;
    if (inside && !put) out += added, put = true;
    if (!put) out += format("{}{}", network, added);
    return out;
}

}  // namespace pomona
