// mpi/tools/card_counts.h: what a network card has counted since it was set up: packets, damaged
// ones and dropped ones, both ways. For `pomona doctor` and `pomona links`.
// Idea: each system names counters of its own, in files on Linux and in what getifaddrs says on
// macOS; what these say becomes the same lists by functions over plain values, which the tests call
// on both systems.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace pomona {

struct CardCount {
    std::string name;  // as the system has it
    int64_t value = 0;
};
// Empty: the system does not tell.
struct CardCounts {
    std::vector<CardCount> packets{}, damaged{}, dropped{};
};

// -1: not known.
int64_t sum_of(const std::vector<CardCount>& counts);
// "rx_errors 77, collisions 2": those that are not 0.
std::string told_of(const std::vector<CardCount>& counts);

// `read`: what a file says; "" if there is none.
CardCounts linux_card_counts(const std::string& name,
                             const std::function<std::string(const std::string& path)>& read);

// `data`: macOS's if_data, whose names are BSD's. They have 32 bits, and begin anew at 0 then.
template <class Data> CardCounts macos_card_counts(const Data& data) {
    auto count = [](const char* name, auto value) {
        return CardCount{name, static_cast<int64_t>(value)};
    };
    CardCounts out;
    out.packets = {count("input", data.ifi_ipackets), count("output", data.ifi_opackets)};
    out.damaged = {count("input errors", data.ifi_ierrors),
                   count("output errors", data.ifi_oerrors),
                   count("collisions", data.ifi_collisions)};
    out.dropped = {count("input drops", data.ifi_iqdrops)};
    return out;
}

// Of this machine's interface of that name.
CardCounts card_counts(const std::string& name);

}  // namespace pomona
