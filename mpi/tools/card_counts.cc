// mpi/tools/card_counts.cc: see card_counts.h.
#include "mpi/tools/card_counts.h"

#include "btl/base/format.h"

#include <charconv>
#include <fstream>
#include <initializer_list>
#include <system_error>

#if defined(__APPLE__)
#include <cstring>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/socket.h>
#endif

namespace pomona {

int64_t sum_of(const std::vector<CardCount>& counts) {
    if (counts.empty()) return -1;
    int64_t sum = 0;
    for (const CardCount& each : counts) sum += each.value;
    return sum;
}

std::string told_of(const std::vector<CardCount>& counts) {
    std::string out;
    for (const CardCount& each : counts)
        if (each.value > 0)
            out += format("{}{} {}", out.empty() ? "" : ", ", each.name, each.value);
    return out;
}

CardCounts linux_card_counts(const std::string& name,
                             const std::function<std::string(const std::string& path)>& read) {
    auto counts = [&](std::initializer_list<const char*> counters) {
        std::vector<CardCount> out;
        for (const char* counter : counters) {
            std::string text = read(format("/sys/class/net/{}/statistics/{}", name, counter));
            int64_t value = 0;
            auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
            if (parsed.ec == std::errc()) out.push_back({counter, value});
        }
        return out;
    };
    // rx_errors has what the card missed for want of room.
    return {counts({"rx_packets", "tx_packets"}), counts({"rx_errors", "tx_errors", "collisions"}),
            counts({"rx_dropped", "tx_dropped"})};
}

#if defined(__APPLE__)

// The entry of the device itself, not of its addresses, has the counts.
CardCounts card_counts(const std::string& name) {
    ifaddrs* all = nullptr;
    if (getifaddrs(&all) != 0) return {};
    CardCounts out;
    for (ifaddrs* each = all; each; each = each->ifa_next)
        if (each->ifa_addr && each->ifa_addr->sa_family == AF_LINK && each->ifa_data &&
            name == each->ifa_name) {
            if_data data;
            std::memcpy(&data, each->ifa_data, sizeof data);
            out = macos_card_counts(data);
        }
    freeifaddrs(all);
    return out;
}

#else

CardCounts card_counts(const std::string& name) {
    return linux_card_counts(name, [](const std::string& path) {
        std::ifstream file(path);
        std::string line;
        std::getline(file, line);
        return line;
    });
}

#endif

}  // namespace pomona
