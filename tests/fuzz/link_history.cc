// tests/fuzz/link_history.cc: libFuzzer over what ranks tell mpirun of lines, and over the history
// that this is merged into: any bytes are refused, or come back as they were written; what is
// learned of them is finite, stays bounded, and never makes the history unreadable.
// Input: how long the ranks' words are (16 bits), these, the file.
#include "coll/cost.h"
#include "pmix/link_learning.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>

using namespace pomona;

static void must(bool holds) {
    if (!holds) std::abort();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    ConstBytes all{reinterpret_cast<const std::byte*>(data), size};
    Reader input(all);
    size_t length = std::min<size_t>(input.get<uint16_t>(), input.left());
    Reader words(input.take(length));
    std::string text(text_of(input.take(input.left())));

    LinesSeen seen;
    if (auto lines = read_lines(words)) {
        Writer again;
        write_lines(again, *lines);
        Reader back(again.bytes());
        auto same = read_lines(back);
        must(same && same->size() == lines->size());
        for (LineTold& line : *lines) {
            double rate = best_rate(line.times);
            must(std::isfinite(rate) && rate >= 0);
            seen.add(0, line.peer, std::move(line));
        }
    }
    const std::vector<std::string> hosts{"a", "me@b.local", "c"};
    std::vector<LinkMemory> memory = read_link_memory(text);
    std::vector<LinkMemory> pairs = seen.pairs(hosts, "2026-11-27");
    pairs.push_back({"a b", "2026-11-27", 20, 0.095, "tcp"});
    for (int round = 0; round < 3; ++round)
        for (const LinkMemory& pair : pairs) {
            must(pair.gigabits > 0 && std::isfinite(pair.gigabits));
            size_t before = memory.size();
            learn(memory, pair, 2 * round, 2 * round + 1);
            must(memory.size() <= before + 1);
        }
    learn_all(memory, pairs, 8, 9);
    std::string kept = link_memory_text(memory);
    std::vector<LinkMemory> again = read_link_memory(kept);
    must(again.size() == memory.size() && link_memory_text(again) == kept);
    std::string missing, problem;
    std::string costs = net_costs(again, hosts, missing);
    must(costs.empty() || coll::parse_links(costs, problem).ok());
    return 0;
}
