// coll/options.cc: the parser of overrides; bytes from users, so it is fuzzed (tests/fuzz).
#include "coll/options.h"

#include "btl/base/format.h"

#include <charconv>

namespace pomona::coll {

namespace {

constexpr int kOptionMax = 65536;

bool is_name(std::string_view text) {
    if (text.empty() || text.size() > 64) return false;
    for (char c : text)
        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '_') return false;
    return true;
}

Error bad(std::string& problem, std::string text) {
    problem = std::move(text);
    return Error{Code::invalid_argument, "An algorithm cannot be read"};
}

}  // namespace

Result<Choice> parse_choice(std::string_view text, std::string& problem) {
    Choice choice;
    size_t colon = text.find(':');
    std::string_view name = text.substr(0, colon);
    if (name.empty() && colon == text.npos) return choice;
    if (!is_name(name))
        return bad(problem,
                   "An algorithm is named in small letters, digits and '_', "
                   "with options as in ring:segments=4");
    if (name != "auto") choice.algorithm = name;
    if (colon == text.npos) return choice;
    if (name == "auto") return bad(problem, "auto takes no options");
    std::string_view rest = text.substr(colon + 1);
    for (bool more = true; more;) {
        size_t comma = rest.find(',');
        more = comma != rest.npos;
        std::string_view option = rest.substr(0, comma);
        if (more) rest.remove_prefix(comma + 1);
        size_t equals = option.find('=');
        std::string_view key = option.substr(0, equals);
        if (key != "segments" && key != "radix")
            return bad(problem, "The options of an algorithm are segments=N and radix=N");
        int value = 0;
        if (equals != option.npos) {
            const char* end = option.data() + option.size();
            auto [stop, error] = std::from_chars(option.data() + equals + 1, end, value);
            if (error != std::errc{} || stop != end) value = 0;
        }
        if (value < 1 || value > kOptionMax)
            return bad(problem, format("{} takes a number from 1 to {}", key, kOptionMax));
        if (key == "segments") choice.options.segments = value, choice.segments_given = true;
        else choice.options.radix = value, choice.radix_given = true;
    }
    return choice;
}

std::string choice_text(const Choice& choice) {
    if (choice.algorithm.empty()) return "auto";
    std::string text = choice.algorithm;
    if (choice.segments_given) text += format(":segments={}", choice.options.segments);
    if (choice.radix_given)
        text += format("{}radix={}", choice.segments_given ? "," : ":", choice.options.radix);
    return text;
}

}  // namespace pomona::coll
