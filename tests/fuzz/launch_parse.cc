// tests/fuzz/launch_parse.cc: libFuzzer over everything the launcher parses: command lines,
// hostfiles, host lists, invitations of agents, node runs and frames of the job's socket. Any input
// must end in a value or a mistake told, never in a crash; the first byte chooses the parser.
#include "pmix/control.h"
#include "pmix/launch/dial_back.h"
#include "pmix/launch/hosts.h"
#include "pmix/launch/options.h"
#include "pmix/launch/options_table.h"
#include "pmix/wireup/origin.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

using namespace pomona;

namespace {
void must(bool holds) {
    if (!holds) std::abort();
}

// Words separated by line ends.
void command_line(std::string_view text) {
    const char* environment[] = {"HOME=/home/a", nullptr};
    std::vector<std::string> words;
    while (!text.empty()) {
        size_t end = std::min(text.find('\n'), text.size());
        std::string word(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
        // No reading of arbitrary files.
        std::string attached;
        const OptionInfo* option = find_option(word, attached);
        if (!option || std::string_view(option->value) != "FILE") words.push_back(word);
    }
    auto parsed = parse_command_line(words, environment);
    must(parsed.exit_code >= 0 ? !parsed.text.empty() : !parsed.options.programs.empty());
    for (const Program& program : parsed.options.programs)
        must(parsed.exit_code >= 0 || !program.command.empty());
}

void frames(ConstBytes bytes) {
    ControlParser parser;
    size_t taken = 0;
    for (std::byte byte : bytes) {
        parser.feed({&byte, 1});
        while (auto frame = parser.next()) taken += frame->payload.size() + 5;
    }
    must(taken <= bytes.size());
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) return 0;
    std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
    switch (data[0]) {
    case 'c': command_line(text); break;
    case 'f': {
        HostList list = parse_hostfile(text);
        must(list.mistake.empty() != list.hosts.empty());
        break;
    }
    case 'h': {
        HostList list = parse_host_option(text);
        must(list.mistake.empty() != list.hosts.empty());
        break;
    }
    case 'd': {
        auto invitation = parse_invitation(text);
        if (!invitation) break;
        std::string line = invitation_line(*invitation);
        line.pop_back();  // its end
        must(parse_invitation(line).has_value());
        break;
    }
    case 'n': {
        auto nodes = parse_node_runs(text, 8);
        must(!nodes.ok() || nodes.value().size() == 8);
        break;
    }
    default: frames({reinterpret_cast<const std::byte*>(data) + 1, size - 1}); break;
    }
    return 0;
}
