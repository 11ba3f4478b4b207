// btl/base/params.cc: parsing of values and of the three places they come from.
#include "btl/base/params.h"

#include "btl/base/format.h"
#include "btl/base/messages.h"
#include "btl/base/named_file.h"
#include "btl/base/params_handed.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

#include <unistd.h>

namespace pomona {

const std::vector<ParamInfo>& param_table() {
    static const std::vector<ParamInfo> table = {
#define PARAM(name, type, standard, scope, text)                                                   \
    {#name, ParamType::type, #standard, ParamScope::scope, text},
#include "btl/base/params.def"
#undef PARAM
    };
    return table;
}

std::string param_variable(std::string_view name) {
    std::string out = "POMONA_";
    for (char c : name) out += static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
    return out;
}

static Status parse(std::string_view text, uint64_t& value) {
    uint64_t number = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    std::string_view unit = text.substr(end - text.data());
    if (error != std::errc() || text.empty())
        return Error{Code::invalid_argument,
                     "Not a number (expected digits, with K, M or G behind)"};
    int shift = 0;
    if (!unit.empty()) {
        switch (unit.front() | 32) {
        case 'k': shift = 10; break;
        case 'm': shift = 20; break;
        case 'g': shift = 30; break;
        default: return Error{Code::invalid_argument, "Unknown unit (expected K, M or G)"};
        }
        unit.remove_prefix(1);
        if (!unit.empty() && unit != "iB" && unit != "B" && unit != "b")
            return Error{Code::invalid_argument, "Unknown unit (expected K, M or G)"};
    }
    if (number > (UINT64_MAX >> 1) >> shift)
        return Error{Code::invalid_argument, "Number too large"};
    value = number << shift;
    return {};
}

static Status parse(std::string_view text, bool& value) {
    for (const char* yes : {"1", "yes", "true", "on"})
        if (text == yes) return value = true, Status{};
    for (const char* no : {"0", "no", "false", "off"})
        if (text == no) return value = false, Status{};
    return Error{Code::invalid_argument, "Not a flag (expected yes or no)"};
}

static Status parse(std::string_view text, std::string& value) {
    value = text;
    return {};
}

static std::string show(uint64_t value) { return std::to_string(value); }
static std::string show(bool value) { return value ? "yes" : "no"; }
static std::string show(const std::string& value) { return value; }

std::string get_param(const Params& params, std::string_view wanted) {
#define PARAM(name, type, standard, scope, text)                                                   \
    if (wanted == #name) return show(params.name);
#include "btl/base/params.def"
#undef PARAM
    return "";
}

namespace {
struct Words {
    std::string_view name;
    std::vector<std::string_view> words;
    std::string expected{};  // "Expected none, thread or auto"
};

const std::vector<Words>& words_table() {
    static const std::vector<Words> table = [] {
        std::vector<Words> made = {
#define PARAM_WORDS(name, ...) {#name, {__VA_ARGS__}},
#include "btl/base/params_words.def"
#undef PARAM_WORDS
        };
        for (Words& each : made)
            for (size_t i = 0; i < each.words.size(); ++i)
                each.expected += format("{}{}",
                                        i == 0                      ? "Expected "
                                        : i + 1 < each.words.size() ? ", "
                                                                    : " or ",
                                        each.words[i]);
        return made;
    }();
    return table;
}
}  // namespace

Status set_param(Params& params, std::string_view wanted, std::string_view value) {
    for (const Words& each : words_table()) {
        if (wanted != each.name) continue;
        if (value.empty()) return {};  // as one that is not set
        if (std::find(each.words.begin(), each.words.end(), value) == each.words.end())
            return Error{Code::invalid_argument, each.expected.c_str()};
    }
#define PARAM(name, type, standard, scope, text)                                                   \
    if (wanted == #name) return parse(value, params.name);
#include "btl/base/params.def"
#undef PARAM
    return Error{Code::not_found, "No such parameter"};
}

static size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<size_t> row(b.size() + 1);
    for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= a.size(); ++i) {
        size_t diagonal = row[0]++;
        for (size_t j = 1; j <= b.size(); ++j) {
            size_t substitute = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
        }
    }
    return row.back();
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& words) {
    std::string best;
    size_t best_distance = name.size() / 2 + 1;
    for (const std::string& word : words) {
        size_t distance = edit_distance(name, word);
        if (distance < best_distance) {
            best_distance = distance;
            best = word;
        }
    }
    return best;
}

namespace {
// Names that start with POMONA_ and are not parameters: set by mpirun for its ranks, read by tools,
// tests and scripts.
bool reserved(std::string_view variable) {
    for (std::string_view prefix : {"POMONA_JOB_", "POMONA_TEST_"})
        if (variable.starts_with(prefix)) return true;
    for (std::string_view name :
         {"POMONA_CONFIG", "POMONA_SEED", "POMONA_MPIRUN", "POMONA_PYTHON", "POMONA_BUILD",
          "POMONA_VENV", "POMONA_HOME", "POMONA_TRACE", "POMONA_OVERSUBSCRIBED", "POMONA_CC",
          "POMONA_CXX", "POMONA_FC", "POMONA_JOBS", "POMONA_FUZZ_SECONDS", "POMONA_SSH",
          "POMONA_DIAL_BACK", "POMONA_VERBS", "POMONA_SIMULATION"})
        if (variable == name) return true;
    return false;
}

struct Loader {
    Params& params;
    const std::function<void(const std::string&)>& complain;

    // Whether it could be used.
    bool set(std::string_view name, std::string_view value, const std::string& where) {
        Status status = set_param(params, name, value);
        if (status.ok()) {
            params.sources.insert_or_assign(std::string(name), where);
            return true;
        }
        if (status.error().code != Code::not_found) {
            complain(
                format("{}: {} = \"{}\" is ignored: {}", where, name, value, status.error().what));
            return false;
        }
        std::vector<std::string> names;
        for (const ParamInfo& info : param_table()) names.push_back(info.name);
        std::string near = nearest_name(name, names);
        complain(near.empty() ? format(messages::param_unknown, where, name)
                              : format(messages::param_misspelt, where, name, near));
        return false;
    }

    // Its lines that can be used go to `lines` too.
    void file(const std::string& path, std::vector<HandedParams::Entry>& lines) {
        std::string text, line;
        std::string why = read_named_file(path, text);
        // Nobody need have one; that which is there is meant to count.
        if (!why.empty() && access(path.c_str(), F_OK) == 0) complain(format("{} {}", path, why));
        std::istringstream in(text);
        for (int number = 1; std::getline(in, line); ++number) {
            size_t start = line.find_first_not_of(" \t");
            if (start == line.npos || line[start] == '#') continue;
            size_t equals = line.find('=', start);
            if (equals == line.npos) {
                complain(format("{}:{}: expected NAME=VALUE", path, number));
                continue;
            }
            auto trim = [](std::string text) {
                text.erase(0, text.find_first_not_of(" \t"));
                text.erase(text.find_last_not_of(" \t\r") + 1);
                return text;
            };
            HandedParams::Entry entry{trim(line.substr(start, equals - start)),
                                      trim(line.substr(equals + 1)), format("{}:{}", path, number)};
            if (set(entry.name, entry.value, entry.origin)) lines.push_back(std::move(entry));
        }
    }

    // Variables named POMONA_*; those that `handed` has told are known to be of no use.
    void variables(const char* const* environment, HandedParams& handed) {
        for (const char* const* each = environment; each && *each; ++each) {
            std::string_view entry = *each;
            std::string_view variable = entry.substr(0, entry.find('='));
            if (!variable.starts_with("POMONA_") || reserved(variable)) continue;
            if (std::find(handed.told.begin(), handed.told.end(), entry) != handed.told.end())
                continue;
            std::string name(variable.substr(7));
            for (char& c : name) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
            std::string_view value =
                entry.size() > variable.size() ? entry.substr(variable.size() + 1) : "";
            if (!set(name, value, std::string(variable))) handed.told.emplace_back(entry);
            else if (auto* origin = handed.origin_of(name, get_param(params, name)))
                params.sources.insert_or_assign(name, *origin);
        }
    }
};

std::string value_of(const char* const* environment, std::string_view name) {
    for (const char* const* each = environment; each && *each; ++each) {
        std::string_view entry = *each;
        if (entry.size() > name.size() && entry[name.size()] == '=' && entry.starts_with(name))
            return std::string(entry.substr(name.size() + 1));
    }
    return {};
}

std::string config_path(const char* const* environment) {
    std::string named = value_of(environment, "POMONA_CONFIG");
    return named.empty() ? value_of(environment, "HOME") + "/.config/pomona.conf" : named;
}

// What our launcher handed over, if it holds for this environment.
std::optional<HandedParams> handed_to(const char* const* environment,
                                      const std::function<void(const std::string&)>& complain) {
    std::string path = value_of(environment, kHandedVariable);
    if (path.empty()) return std::nullopt;
    std::ifstream in(path, std::ios::binary);
    std::string content{std::istreambuf_iterator<char>(in), {}};
    auto handed = HandedParams::parse(bytes_of(content));
    if (!handed) complain(format(messages::handed_unreadable, path, config_path(environment)));
    else if (handed->config != value_of(environment, "POMONA_CONFIG")) return std::nullopt;
    return handed;
}
}  // namespace

Params read_params(const char* const* environment,
                   const std::function<void(const std::string&)>& complain) {
    auto handed = handed_to(environment, complain);
    HandedParams own;
    if (!handed) return read_params_to_hand(environment, own, complain);
    Params params;
    Loader loader{params, complain};
    for (const HandedParams::Entry& line : handed->lines)
        loader.set(line.name, line.value, line.origin);
    loader.variables(environment, *handed);
    return params;
}

Params read_params_to_hand(const char* const* environment, HandedParams& handed,
                           const std::function<void(const std::string&)>& complain) {
    Params params;
    Loader loader{params, complain};
    handed.config = value_of(environment, "POMONA_CONFIG");
    loader.file(config_path(environment), handed.lines);
    loader.variables(environment, handed);
    return params;
}

}  // namespace pomona
