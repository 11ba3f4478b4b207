// mpi/tools/doctor_cards.cc: the doctor's look at what network cards have counted.
#include "mpi/tools/doctor.h"

#include "btl/base/format.h"

#include <algorithm>
#include <string>
#include <vector>

namespace pomona::doctor {

// Shares of the packets above which a card's counts are told.
static constexpr double kDamagedMost = 1e-6, kDroppedMost = 1e-3;

std::vector<Finding> card_checks(const Probes& probes) {
    bool macos = probes.system() == System::macos;
    std::vector<Finding> out;
    std::string seen;
    std::vector<std::string> names;
    for (const tcp::Interface& each :
         tcp::choose_interfaces(probes.interfaces(), {}, probes.system()))
        if (std::find(names.begin(), names.end(), each.name) == names.end())
            names.push_back(each.name);
    for (const std::string& name : names) {
        CardCounts counts = probes.card_counts(name);
        std::string packets = told_of(counts.packets);
        auto all = static_cast<double>(sum_of(counts.packets));
        auto too_many = [&](const std::vector<CardCount>& those, double most) {
            return all >= 0 && static_cast<double>(sum_of(those)) > most * all;
        };
        if (too_many(counts.damaged, kDamagedMost))
            out.push_back({"network card", State::hint,
                           pomona::format("{} counts damaged packets: {} ({})", name,
                                          told_of(counts.damaged), packets),
                           pomona::format("another cable, transceiver or port; {} {} tells more",
                                          macos ? "netstat -I" : "ethtool -S", name)});
        if (too_many(counts.dropped, kDroppedMost))
            out.push_back(
                {"network card", State::hint,
                 pomona::format("{} counts dropped packets: {} ({})", name, told_of(counts.dropped),
                                packets),
                 pomona::format("give both ends of the cable and the switch the same MTU{}",
                                macos ? ""
                                      : pomona::format(", and the card longer queues (ethtool -G "
                                                       "{} rx 4096)",
                                                       name))});
        if (!packets.empty()) seen += (seen.empty() ? "" : ", ") + name;
    }
    if (out.empty())
        out.push_back(
            {"network card", State::good,
             seen.empty() ? std::string("no counts to read") : "few errors, few drops: " + seen,
             ""});
    return out;
}

}  // namespace pomona::doctor
