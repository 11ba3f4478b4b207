// tests/sim/link_shares.cc: one long payload over unlike paths, in virtual time.
// Goal: paths of a link carry nearly the sum of their rates also where one payload alone is on its
// way, since what the slow one begins last ends with what the quick one does; one that carries less
// than a tenth of another takes no part. Method: payloads of 4 MiB one after the other, each when
// the one before was released; the time from the first push to the last byte, against the sum of
// the rates.
#include "tests/sim/link_pair.h"

#include <algorithm>
#include <string>

namespace pomona {
namespace {

// The part of the ways' sum that one payload reached.
double send_one(LinkPair& pair, double sum_of_rates) {
    pair.receiver.arrived = 0;
    double begin = pair.fabric.world().now();
    uint64_t ticket = pair.push_long(kPayload);
    pair.run_while([&] { return pair.receiver.arrived < kPayload; });
    double took = pair.fabric.world().now() - begin;
    pair.run_while([&] { return !pair.sender.back.contains(ticket); });
    return static_cast<double>(kPayload) / took / sum_of_rates;
}

// The least part of the sum, of payloads sent when the rates are known.
double least_part(const std::vector<double>& megabits, size_t buffer) {
    LinkPair pair(megabits, buffer);
    double sum = 0, least = 2, quickest = *std::max_element(megabits.begin(), megabits.end());
    for (double each : megabits)
        if (each * 10 >= quickest) sum += each * kMegabit;
    for (int number = 0; number < 12; ++number) {
        double part = send_one(pair, sum);
        if (number >= 2) least = std::min(least, part);
    }
    return least;
}

TEST(LinkShares, one_payload_reaches_the_sum_of_unlike_rates) {
    for (size_t buffer : {128 << 10, 384 << 10, 1 << 20})
        for (const auto& megabits : std::vector<std::vector<double>>{
                 {500, 500}, {500, 100}, {100, 500}, {500, 250}, {1000, 50}, {500, 100, 100}}) {
            std::string name = std::to_string(buffer >> 10) + " KiB:";
            for (double each : megabits) name += " " + std::to_string(static_cast<int>(each));
            double part = least_part(megabits, buffer);
            EXPECT_GE(part, 0.95) << name;
            EXPECT_LE(part, 1.0) << name;
        }
}

}  // namespace
}  // namespace pomona
