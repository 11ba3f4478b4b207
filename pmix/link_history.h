// pmix/link_history.h: what links between hosts gave on which day: the history that `pomona links`
// and `pomona tune --host` keep, and the costs between machines that jobs take from it: mpirun
// hands them to its ranks, under other launchers the first rank publishes its history
// (mpi/runtime/machine_links.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pomona {

// What was measured on some day.
struct LinkMemory {
    std::string hosts;  // "a b", in the order of the alphabet
    std::string date;
    double latency_us = 0, gigabits = 0;
    std::string by;  // what messages took first
};

// A line for each, "v1 HOST HOST DATE LATENCY_US GIGABITS BY"; what is damaged, older or of a later
// version is passed over.
std::vector<LinkMemory> read_link_memory(const std::string& text);
std::string link_memory_text(const std::vector<LinkMemory>& memory);
std::vector<LinkMemory> latest_of_each(const std::vector<LinkMemory>& memory);
// Adds today's; keeps the last few of each pair.
void remember(std::vector<LinkMemory>& memory, const LinkMemory& now);

// The costs between these hosts, as the parameter `links` takes them; `missing` names a pair that
// was never measured, if there is one. Where all pairs are about alike, "net=L:o:G" of the slowest;
// else that and each pair's, by the hosts' places in the list, as in "net=...,0-1=L:o:G,...",
// without those never measured. Pairs' numbers are rounded up to a few steps, so that what is alike
// stays so.
std::string net_costs(const std::vector<LinkMemory>& memory, const std::vector<std::string>& hosts,
                      std::string& missing);

}  // namespace pomona
