// coll/rules.cc: the parser of rules; bytes from a file that people edit, so it is fuzzed
// (tests/fuzz).
#include "coll/rules.h"

#include "btl/base/format.h"
#include "btl/base/params.h"
#include "coll/select.h"
#include "coll/words.h"

#include <algorithm>

namespace pomona::coll {

namespace {

constexpr size_t kRulesMost = 4096;

class Reader {
public:
    explicit Reader(std::string& problem) : problem_(problem) {}

    bool read(std::string_view text, Rules& out) {
        while (!text.empty()) {
            ++line_;
            std::string_view line = take_line(text);
            if (!line.empty() && !read_line(line, out)) return false;
        }
        return true;
    }

private:
    bool bad(std::string what) {
        problem_ = format("Line {}: {}", line_, what);
        return false;
    }

    bool read_line(std::string_view line, Rules& out) {
        size_t colon = line.find(':');
        if (colon == line.npos)
            return bad(format("'{}' has no ':' behind the collective, as in allreduce: 0..4K board",
                              line));
        std::string_view head = line.substr(0, colon), items = trimmed(line.substr(colon + 1));
        Rule start;
        start.line = line_;
        std::string_view name = take_word(head);
        if (!read_collective(name, start.collective) || !read_where(head, start)) return false;
        if (items.empty())
            return bad("there is nothing behind the ':'; ranges are as in 0..4K board");
        // Options of an algorithm have commas too, without a space behind them.
        while (!items.empty()) {
            size_t comma = items.find(',');
            while (comma != items.npos && comma + 1 < items.size() && items[comma + 1] != ' ' &&
                   items[comma + 1] != '\t')
                comma = items.find(',', comma + 1);
            std::string_view item = trimmed(items.substr(0, comma));
            bool more = comma != items.npos;
            items = more ? items.substr(comma + 1) : "";
            if (more && trimmed(items).empty())
                return bad("there is nothing behind the last comma");
            Rule rule = start;
            if (!read_item(item, rule)) return false;
            if (out.rows.size() == kRulesMost)
                return bad(format("there are more than {} ranges", kRulesMost));
            out.rows.push_back(std::move(rule));
        }
        return true;
    }

    bool read_collective(std::string_view name, Collective& out) {
        std::vector<std::string> names;
        std::string all;
        for (int i = 0; i < static_cast<int>(Collective::neighbor); ++i) {
            out = static_cast<Collective>(i);
            if (name == collective_name(out)) return true;
            names.emplace_back(collective_name(out));
            all += (i ? ", " : "") + names.back();
        }
        std::string near = nearest_name(name, names);
        return bad(format("there is no collective '{}'{}; there are {}", name,
                          near.empty() ? "" : format(" (did you mean {}?)", near), all));
    }

    // "on level NAME of A..B ranks", either part or none.
    bool read_where(std::string_view words, Rule& rule) {
        while (!words.empty()) {
            std::string_view word = take_word(words);
            if (word == "on") {
                if (take_word(words) != "level" || !read_level(take_word(words), rule))
                    return bad(
                        "'on' is followed by level and host, loopback or net, "
                        "as in on level host");
            } else if (word == "of") {
                std::string_view range = take_word(words), unit = take_word(words);
                if (!read_ranks(range, rule) || (unit != "ranks" && unit != "rank"))
                    return bad(
                        "'of' is followed by a number or a range of ranks, "
                        "as in of 2 ranks or of 3..8 ranks");
            } else {
                return bad(
                    format("'{}' is not understood; on level host, loopback or net and of N "
                           "ranks may stand here",
                           word));
            }
        }
        return true;
    }

    static bool read_level(std::string_view name, Rule& rule) {
        for (int i = 0; i < static_cast<int>(Reach::count_); ++i)
            if (name == reach_name(static_cast<Reach>(i))) {
                rule.level = static_cast<Reach>(i);
                return true;
            }
        return false;
    }

    static bool read_ranks(std::string_view text, Rule& rule) {
        size_t dots = text.find(".."), least = 0, most = INT_MAX;
        std::string_view end = dots == text.npos ? text : text.substr(dots + 2);
        if (!read_count(text.substr(0, dots), false, INT_MAX, least)) return false;
        if (!end.empty() && !read_count(end, false, INT_MAX, most)) return false;
        rule.ranks_least = static_cast<int>(least), rule.ranks_most = static_cast<int>(most);
        return least >= 1 && least <= most;
    }

    // "FROM..TO ALGORITHM", "FROM.. ALGORITHM" or "ALGORITHM", and what read_where() reads.
    bool read_item(std::string_view item, Rule& rule) {
        std::string_view word = take_word(item);
        if (word.find("..") != word.npos) {
            if (std::string wrong = read_range(word, rule.from, rule.to); !wrong.empty())
                return bad(wrong);
            word = take_word(item);
        }
        if (word.empty())
            return bad(
                "an algorithm is missing, or a comma too many; ranges are as in 0..4K board");
        std::string problem;
        auto choice = parse_choice_for(rule.collective, word, problem);
        if (!choice.ok()) return bad(problem + " (ranges are separated by a comma and a space)");
        rule.choice = *choice;
        return read_where(item, rule);
    }

    std::string& problem_;
    int line_ = 0;
};

}  // namespace

const char* reach_name(Reach reach) {
    static const char* const names[] = {"host", "loopback", "net"};
    static_assert(std::size(names) == static_cast<size_t>(Reach::count_));
    return names[static_cast<size_t>(reach)];
}

const Rule* Rules::find(Collective collective, Reach level, int ranks,
                        std::optional<size_t> bytes) const {
    for (const Rule& rule : rows) {
        if (rule.collective != collective || (rule.level && *rule.level != level)) continue;
        if (ranks < rule.ranks_least || ranks > rule.ranks_most) continue;
        if (bytes ? *bytes >= rule.from && *bytes < rule.to : rule.all_sizes()) return &rule;
    }
    return nullptr;
}

Result<Rules> parse_rules(std::string_view text, std::string& problem) {
    Rules rules;
    if (trimmed(text) == "none") return rules;
    if (Reader(problem).read(text, rules)) return rules;
    return Error{Code::invalid_argument, "The choices of algorithms cannot be read"};
}

std::string rule_text(const Rule& rule) {
    std::string text = collective_name(rule.collective);
    if (rule.level) text += format(" on level {}", reach_name(*rule.level));
    if (rule.ranks_least == rule.ranks_most) text += format(" of {} ranks", rule.ranks_least);
    else if (rule.ranks_most != INT_MAX)
        text += format(" of {}..{} ranks", rule.ranks_least, rule.ranks_most);
    else if (rule.ranks_least != 1) text += format(" of {}.. ranks", rule.ranks_least);
    text += ": ";
    if (!rule.all_sizes()) text += range_text(rule.from, rule.to) + " ";
    return text + choice_text(rule.choice);
}

std::string rules_text(const Rules& rules) {
    std::string text;
    for (const Rule& rule : rules.rows) text += rule_text(rule) + "\n";
    return text;
}

}  // namespace pomona::coll
