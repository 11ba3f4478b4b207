// coll/forest.cc: reading, checking and fitting forests; bytes from a file that people edit.
#include "coll/forest.h"

#include "btl/base/decimal.h"
#include "btl/base/format.h"
#include "coll/catalog.h"
#include "coll/contributions.h"
#include "coll/verify.h"
#include "coll/words.h"

#include <algorithm>
#include <numeric>

namespace pomona::coll {

namespace {

constexpr int kRanksMost = 64, kTreesMost = 1024, kShareMost = 1000000;
constexpr size_t kNetworksMost = 64;
constexpr int kSegmentsMost = 256;

bool has_forests(Collective collective) {
    return collective == Collective::allreduce || collective == Collective::bcast ||
           collective == Collective::allgather || collective == Collective::reduce_scatter;
}

// "" where the parents make one tree.
std::string check_tree(const Tree& tree) {
    auto size = static_cast<int>(tree.parents.size());
    int roots = 0;
    for (int rank = 0; rank < size; ++rank) {
        int parent = tree.parents[static_cast<size_t>(rank)];
        if (parent >= size)
            return format("rank {} has the parent {}, but there are {} ranks", rank, parent, size);
        roots += parent < 0;
        int at = rank, steps = 0;
        while (at >= 0 && ++steps <= size) at = tree.parents[static_cast<size_t>(at)];
        if (at >= 0) return format("rank {} is on a ring of parents, which is no tree", rank);
    }
    return roots == 1 ? "" : format("a tree has {} roots, which are written -, and not 1", roots);
}

class Reader {
public:
    explicit Reader(std::string& problem) : problem_(problem) {}

    bool read(std::string_view text, std::vector<ForestNetwork>& out) {
        while (!text.empty()) {
            ++line_;
            std::string_view line = take_line(text);
            if (line.empty()) continue;
            std::string_view rest = line, word = take_word(rest);
            if (word.ends_with(':')) {  // no sizes
                word.remove_suffix(1);
                rest = line.substr(word.size());
            }
            if (word == "network") {
                if (out.size() == kNetworksMost || !read_hosts(rest, out.emplace_back()))
                    return out.size() < kNetworksMost ? false : bad("there are too many networks");
                continue;
            }
            if (out.empty()) return bad("a line 'network HOST:RANKS ...' must come first");
            if (word == "gigabits" ? !read_pairs(rest, out.back())
                                   : !read_forest(word, rest, out.back()))
                return false;
        }
        return true;
    }

private:
    bool bad(std::string what) {
        problem_ = format("Line {}: {}", line_, what);
        return false;
    }

    bool read_hosts(std::string_view words, ForestNetwork& out) {
        while (!words.empty()) {
            std::string_view word = take_word(words);
            size_t colon = word.rfind(':'), ranks = 1;
            if (colon != word.npos && !read_count(word.substr(colon + 1), false, kRanksMost, ranks))
                return bad(format("'{}' is no host with its ranks, as in mac1:2", word));
            out.hosts.emplace_back(word.substr(0, colon));
            out.ranks.push_back(static_cast<int>(ranks));
            if (out.hosts.back().empty() || ranks == 0)
                return bad(format("'{}' is no host with its ranks, as in mac1:2", word));
        }
        if (out.size() >= 2 && out.size() <= kRanksMost) return true;
        return bad(format("a network has 2 to {} ranks, not {}", kRanksMost, out.size()));
    }

    bool read_pairs(std::string_view words, ForestNetwork& out) {
        while (!words.empty()) {
            std::string_view word = take_word(words);
            size_t dash = word.find('-'), equals = word.find('=');
            ForestNetwork::Pair pair;
            size_t a = 0, b = 0, most = out.hosts.size() - 1;
            bool two = dash != word.npos && equals != word.npos && dash < equals &&
                       read_count(word.substr(0, dash), false, most, a) &&
                       read_count(word.substr(dash + 1, equals - dash - 1), false, most, b) &&
                       a < b;
            pair.a = static_cast<int>(a), pair.b = static_cast<int>(b);
            if (!two || !read_decimal(word.substr(equals + 1), pair.gigabits) ||
                !(pair.gigabits > 0))
                return bad(
                    format("'{}' is no rate of two hosts, as in 0-1=9.4 (the first two)", word));
            out.pairs.push_back(pair);
        }
        return true;
    }

    bool read_forest(std::string_view name, std::string_view rest, ForestNetwork& out) {
        Forest forest;
        forest.line = line_;
        bool known = false;
        for (int i = 0; i < static_cast<int>(Collective::count_) && !known; ++i) {
            forest.collective = static_cast<Collective>(i);
            known = name == collective_name(forest.collective) && has_forests(forest.collective);
        }
        if (!known)
            return bad(
                format("'{}' is not understood; a line begins with network, gigabits, "
                       "allreduce, bcast, allgather or reduce_scatter",
                       name));
        size_t colon = rest.find(':');
        if (colon == rest.npos)
            return bad("there is no ':' before the trees, as in allreduce 64K..: 1 (- 0 0)");
        std::string_view head = rest.substr(0, colon), trees = trimmed(rest.substr(colon + 1));
        while (!trimmed(head).empty()) {
            std::string_view word = take_word(head);
            std::string wrong;
            if (!word.starts_with("segment=")) wrong = read_range(word, forest.from, forest.to);
            else if (!read_count(word.substr(8), true, SIZE_MAX / 2, forest.segment) ||
                     forest.segment == 0)
                wrong = format("'{}' is no size of pieces, as in segment=32K", word);
            if (!wrong.empty()) return bad(wrong);
        }
        while (!trees.empty())
            if (!read_tree(trees, out.size(), forest)) return false;
        if (forest.trees.empty()) return bad("there is no tree behind the ':'");
        if (!roots_there(forest)) return false;
        out.forests.push_back(std::move(forest));
        return true;
    }

    // "5 (- 0 0 1), "
    bool read_tree(std::string_view& text, int size, Forest& forest) {
        size_t open = text.find('('), close = text.find(')'), share = 0;
        if (open == text.npos || close == text.npos || close < open ||
            !read_count(trimmed(text.substr(0, open)), false, kShareMost, share) || share == 0)
            return bad("a tree is a share and each rank's parent, as in 5 (- 0 0 1)");
        Tree tree;
        tree.share = static_cast<int>(share);
        std::string_view parents = text.substr(open + 1, close - open - 1);
        while (!trimmed(parents).empty()) {
            std::string_view word = take_word(parents);
            size_t parent = 0;
            if (word != "-" && !read_count(word, false, kRanksMost, parent))
                return bad(format("'{}' is no rank", word));
            tree.parents.push_back(word == "-" ? -1 : static_cast<int>(parent));
        }
        if (static_cast<int>(tree.parents.size()) != size)
            return bad(format("a tree names the parents of {} ranks, but the network has {}",
                              tree.parents.size(), size));
        if (std::string wrong = check_tree(tree); !wrong.empty()) return bad(wrong);
        if (forest.trees.size() == kTreesMost) return bad("there are too many trees");
        forest.trees.push_back(std::move(tree));
        text = trimmed(text.substr(close + 1));
        if (text.empty()) return true;
        if (text.front() != ',') return bad("trees are separated by a comma");
        text = trimmed(text.substr(1));
        return !text.empty() || bad("there is nothing behind the last comma");
    }

    bool roots_there(const Forest& forest) {
        if (forest.collective == Collective::allreduce || forest.collective == Collective::bcast)
            return true;
        for (int rank = 0; rank < forest.size(); ++rank)
            if (forest.of_root(rank).empty())
                return bad(format("no tree has the root {}; {} needs one for each rank", rank,
                                  collective_name(forest.collective)));
        return true;
    }

    std::string& problem_;
    int line_ = 0;
};

}  // namespace

int Tree::root() const {
    return static_cast<int>(std::find(parents.begin(), parents.end(), -1) - parents.begin());
}

std::vector<int> Tree::children(int rank) const {
    std::vector<int> below(parents.size()), out;
    for (int parent : parents)
        for (int at = parent; at >= 0; at = parents[static_cast<size_t>(at)])
            ++below[static_cast<size_t>(at)];
    for (size_t r = 0; r < parents.size(); ++r)
        if (parents[r] == rank) out.push_back(static_cast<int>(r));
    std::stable_sort(out.begin(), out.end(), [&](int x, int y) {
        return below[static_cast<size_t>(x)] > below[static_cast<size_t>(y)];
    });
    return out;
}

int Tree::height() const {
    int most = 0;
    for (int rank = 0; rank < static_cast<int>(parents.size()); ++rank) {
        int steps = -1;
        for (int at = rank; at >= 0; at = parents[static_cast<size_t>(at)]) ++steps;
        most = std::max(most, steps);
    }
    return most;
}

bool Forest::serves(const Shape& shape) const {
    return shape.collective == collective && shape.size == size() &&
           (!(collective == Collective::bcast || collective == Collective::reduce) ||
            !of_root(shape.root).empty());
}

int Forest::segments(size_t bytes) const {
    if (segment == 0 || bytes <= segment) return 1;
    return static_cast<int>(std::min<size_t>((bytes + segment - 1) / segment, kSegmentsMost));
}

std::vector<const Tree*> Forest::of_root(int root) const {
    std::vector<const Tree*> out;
    for (const Tree& tree : trees)
        if (root < 0 || tree.parents[static_cast<size_t>(root)] < 0) out.push_back(&tree);
    return out;
}

int ForestNetwork::size() const { return std::accumulate(ranks.begin(), ranks.end(), 0); }

Result<std::vector<ForestNetwork>> parse_forests(std::string_view text, std::string& problem) {
    std::vector<ForestNetwork> out;
    if (trimmed(text) == "none" || Reader(problem).read(text, out)) return out;
    return Error{Code::invalid_argument, "The forests cannot be read"};
}

std::string forest_text(const Forest& forest) {
    std::string text = collective_name(forest.collective);
    if (forest.from > 0 || forest.to != SIZE_MAX) text += " " + range_text(forest.from, forest.to);
    if (forest.segment) text += format(" segment={}", size_text(forest.segment));
    const char* before = ": ";
    for (const Tree& tree : forest.trees) {
        text += format("{}{} (", before, tree.share);
        for (size_t rank = 0; rank < tree.parents.size(); ++rank) {
            if (rank) text += " ";
            text += tree.parents[rank] < 0 ? "-" : std::to_string(tree.parents[rank]);
        }
        text += ")";
        before = ", ";
    }
    return text;
}

std::string network_lines(const ForestNetwork& network) {
    std::string text = "network";
    for (size_t host = 0; host < network.hosts.size(); ++host)
        text += format(" {}:{}", network.hosts[host], network.ranks[host]);
    text += "\n";
    if (!network.pairs.empty()) text += "gigabits";
    for (const ForestNetwork::Pair& pair : network.pairs)
        text += format(" {}-{}={:.3f}", pair.a, pair.b, pair.gigabits);
    if (!network.pairs.empty()) text += "\n";
    for (const Forest& forest : network.forests) text += forest_text(forest) + "\n";
    return text;
}

std::string verify_forest(const Forest& forest) {
    const Algorithm* row = find_algorithm(forest.collective, "forest");
    check(row != nullptr);
    Shape shape;
    shape.collective = forest.collective, shape.size = forest.size();
    Options options;
    options.forest = &forest;
    // Fewer elements than shares, some, and so many that there are several pieces.
    Forest pieces = forest;
    pieces.segment = 32;
    for (size_t count : {size_t{1}, static_cast<size_t>(shape.size) + 1, size_t{131}})
        for (bool in_place : {false, true})
            for (int root = 0; root < shape.size; ++root) {
                shape.count = count, shape.root = root;
                shape.in_place = in_place && forest.collective != Collective::bcast;
                options.forest = count > 64 ? &pieces : &forest;
                bool rooted = forest.collective == Collective::bcast;
                if (rooted ? in_place : root > 0) break;
                if (!forest.serves(shape)) continue;
                std::vector<Schedule> schedules;
                std::vector<Shape> shapes;
                for (shape.rank = 0; shape.rank < shape.size; ++shape.rank) {
                    schedules.push_back(build_schedule(*row, shape, options));
                    shapes.push_back(shape);
                }
                Verdict verdict = verify(schedules);
                if (!verdict.ok()) return verdict.problem;
                std::string wrong = check_contributions(schedules, shapes);
                if (!wrong.empty()) return wrong;
            }
    return "";
}

std::vector<Forest> forests_for(const ForestNetwork& network, std::span<const int> nodes) {
    if (network.size() != static_cast<int>(nodes.size())) return {};
    std::vector<int> places;  // by the network's rank: ours
    for (size_t host = 0; host < network.hosts.size(); ++host) {
        size_t machine = 0;
        if (!read_count(network.hosts[host], false, 1 << 20, machine)) return {};
        int found = 0;
        for (size_t rank = 0; rank < nodes.size(); ++rank)
            if (nodes[rank] == static_cast<int>(machine))
                places.push_back(static_cast<int>(rank)), ++found;
        if (found != network.ranks[host]) return {};
    }
    std::vector<Forest> out;
    for (Forest forest : network.forests) {
        for (Tree& tree : forest.trees) {
            std::vector<int> parents(places.size());
            for (size_t rank = 0; rank < places.size(); ++rank)
                parents[static_cast<size_t>(places[rank])] =
                    tree.parents[rank] < 0 ? -1 : places[static_cast<size_t>(tree.parents[rank])];
            tree.parents = std::move(parents);
        }
        out.push_back(std::move(forest));
    }
    return out;
}

const Forest* find_forest(const Forests& forests, const Shape& shape, size_t bytes, bool any) {
    if (!forests) return nullptr;
    const Forest* other = nullptr;
    for (const Forest& each : *forests) {
        if (!each.serves(shape)) continue;
        if (bytes >= each.from && bytes < each.to) return &each;
        if (!other || (bytes >= each.to && each.to > other->to)) other = &each;
    }
    return any ? other : nullptr;
}

}  // namespace pomona::coll
