// pmix/link_history.h: what links between hosts gave on which day: the history that `pomona links`
// and `pomona tune --host` keep and jobs mend (link_learning.h), and the costs between machines
// that jobs take from it: mpirun hands them to its ranks, under other launchers the first rank
// publishes its history (mpi/runtime/machine_links.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pomona {

// What was measured, or seen by a job, on some day.
struct LinkMemory {
    // doubt: a job has seen so little that another one has to see it as well; it does not count
    // yet.
    enum class Source { measured, job, doubt };
    std::string hosts;  // "a b", in the order of the alphabet
    std::string date;
    double latency_us = 0, gigabits = 0;
    std::string by;  // what messages took first
    Source source = Source::measured;
    int64_t at = 0;  // seconds since 1970, of a doubt
};

// A line for each, "v1 HOST HOST DATE LATENCY_US GIGABITS BY", and of jobs "v2 HOST HOST DATE
// LATENCY_US GIGABITS job|doubt AT BY"; what is damaged or of another version is passed over.
std::vector<LinkMemory> read_link_memory(const std::string& text);
std::string link_memory_text(const std::vector<LinkMemory>& memory);
// Without doubts.
std::vector<LinkMemory> latest_of_each(const std::vector<LinkMemory>& memory);
// Adds today's, which ends a doubt about the pair; keeps the last few of each pair.
void remember(std::vector<LinkMemory>& memory, const LinkMemory& now);
// Hosts are named in several ways: "me@mac1.local" is mac1. Is `pair`, "a b", of these two?
bool is_pair(std::string_view pair, std::string_view a, std::string_view b);
// The same for all names of a pair, in both orders.
std::string pair_key(std::string_view pair);
// What counts for two hosts, the latest; null where there is nothing.
const LinkMemory* latest_of(const std::vector<LinkMemory>& memory, std::string_view a,
                            std::string_view b);

// The costs between these hosts, as the parameter `links` takes them; `missing` names a pair that
// was never measured, if there is one. Where all pairs are about alike, "net=L:o:G" of the slowest;
// else that and each pair's, by the hosts' places in the list, as in "net=...,0-1=L:o:G,...",
// without those never measured. Pairs' numbers are rounded up to a few steps, so that what is alike
// stays so.
std::string net_costs(const std::vector<LinkMemory>& memory, const std::vector<std::string>& hosts,
                      std::string& missing);

}  // namespace pomona
