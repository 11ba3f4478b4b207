// mpi/tools/json_text.cc: see json_text.h.
#include "mpi/tools/json_text.h"

#include "btl/base/format.h"

#include <algorithm>
#include <cctype>
#include <cstddef>

namespace pomona {

using nlohmann::json;

json parse_json(const std::string& text, std::string& problem) try {
    return json::parse(text);
} catch (const json::parse_error& mistake) {
    size_t at = std::min(text.size(), mistake.byte > 0 ? mistake.byte - 1 : 0);
    auto begin = text.begin(), end = begin + static_cast<ptrdiff_t>(at);
    auto line = std::count(begin, end, '\n') + 1;
    size_t before = at > 0 ? text.rfind('\n', at - 1) : std::string::npos;
    size_t column = before == std::string::npos ? at + 1 : at - before;
    problem = format("It is no JSON: line {}, column {}{}", line, column,
                     at == text.size() ? ", where it ends" : "");
    return json(json::value_t::discarded);
}

namespace {
// One begins with the other, whatever case the key has: "rank", "latency", "Hosts".
bool is_meant(std::string_view key, std::string_view known) {
    constexpr size_t kLettersLeast = 3;
    auto same = [](unsigned char a, unsigned char b) { return std::tolower(a) == b; };
    size_t common = std::min(key.size(), known.size());
    return common >= kLettersLeast &&
           std::equal(key.begin(), key.begin() + static_cast<ptrdiff_t>(common), known.begin(),
                      same);
}
}  // namespace

std::string mistaken_key(const json& object, std::span<const std::string_view> known) {
    if (!object.is_object()) return "";
    for (const auto& [key, value] : object.items()) {
        if (std::find(known.begin(), known.end(), key) != known.end()) continue;
        for (std::string_view each : known)
            if (is_meant(key, each))
                return format("there is no \"{}\" (did you mean \"{}\"?)", key, each);
    }
    return "";
}

}  // namespace pomona
