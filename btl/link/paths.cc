// btl/link/paths.cc: times and shares of paths.
#include "btl/link/paths.h"

#include "btl/base/asking.h"

#include <algorithm>

namespace pomona::link {

static constexpr Nanoseconds kPatienceLeast = 3'000'000;
static constexpr Nanoseconds kPatienceFirst = 50'000'000;  // before anything is known
static constexpr Nanoseconds kPatienceMost = 1'000'000'000;

Nanoseconds Path::patience() const {
    if (round_trip == 0) return kPatienceFirst;
    return std::clamp(round_trip + 4 * deviation, kPatienceLeast, kPatienceMost);
}

// Source: RFC 6298, section 2.
void Path::took(Nanoseconds trip) {
    trip = std::max<Nanoseconds>(trip, 1);
    if (shortest_trip == 0 || trip < shortest_trip) shortest_trip = trip;
    if (round_trip == 0) {
        round_trip = trip;
        deviation = trip / 2;
        return;
    }
    Nanoseconds error = trip - round_trip;
    deviation += ((error < 0 ? -error : error) - deviation) / 4;
    round_trip += error / 8;
}

// A piece takes a slow path for so long, if it has so many bytes then; of one whose rate is not
// known.
static constexpr double kPieceTime = 250e3;
static constexpr size_t kPieceLeast = 16 << 10;
static constexpr size_t kPieceUnknown = 128 << 10;

// What may lose has a window of its own; within a machine there is no line to share.
bool Path::is_line() const { return reliable && !rides && description.kind != "loopback"; }

size_t Path::piece_most() const {
    if (!is_line()) return SIZE_MAX;
    if (intake.rate() == 0) return kPieceUnknown;
    if (intake.rate() > asking::kQuick) return SIZE_MAX;
    return std::max(kPieceLeast, static_cast<size_t>(intake.rate() * kPieceTime));
}

size_t Path::unasked_most(size_t under_way, size_t longest) const {
    return asking::unasked_most(is_line() ? intake.rate() : asking::kNoLine, under_way, longest);
}

static int rank_of_kind(const std::string& kind) {
    static constexpr const char* kBest[] = {"thunderbolt", "wired", "wifi", "vpn", "virtual"};
    int rank = 0;
    for (const char* each : kBest) {
        if (kind == each) return rank;
        ++rank;
    }
    return rank;
}

bool quicker(const Path* one, const Path* other) {
    if (one->round_trip != other->round_trip) return one->round_trip < other->round_trip;
    return rank_of_kind(one->description.kind) < rank_of_kind(other->description.kind);
}

namespace {
// When a path is done with so many bytes more.
double end_of(const Path& path, size_t bytes) {
    return static_cast<double>(path.pace.queued + bytes) / path.pace.rate;
}

// When all could be done at once with what they have and `unbegun` bytes more, those left out that
// are busy for longer anyway.
double common_end(const std::vector<const Path*>& paths, size_t unbegun) {
    double end = 0;
    for (size_t left_out = 0, before = 1; left_out != before;) {
        double bytes = static_cast<double>(unbegun), rate = 0;
        before = left_out;
        left_out = 0;
        for (const Path* each : paths) {
            if (end != 0 && end_of(*each, 0) >= end) {
                ++left_out;
                continue;
            }
            bytes += static_cast<double>(each->pace.queued);
            rate += each->pace.rate;
        }
        end = bytes / rate;
    }
    return end;
}
}  // namespace

size_t next_piece(const std::vector<const Path*>& paths, const Path& own, size_t longest,
                  size_t left, size_t unbegun) {
    size_t length = std::min(longest, left);
    if (paths.size() < 2) return length;
    double all = 0;
    bool known = true;
    for (const Path* each : paths) {
        all += each->pace.rate;
        known &= each->pace.rate != 0;
    }
    double share = known ? own.pace.rate / all : 1.0 / static_cast<double>(paths.size());
    auto part = static_cast<size_t>(static_cast<double>(left) * share);
    if (left > 2 * kPieceMin) length = std::min(length, std::max(kPieceMin, part));
    if (!known) return length;
    double room = common_end(paths, unbegun) * own.pace.rate - static_cast<double>(own.pace.queued);
    if (room >= static_cast<double>(length)) return length;
    if (room >= static_cast<double>(kPieceMin)) return static_cast<size_t>(room);
    // The rest goes by whoever is done with it first.
    length = std::min(longest, left > 2 * kPieceMin ? kPieceMin : left);
    double mine = end_of(own, length);
    for (const Path* each : paths)
        if (each != &own && end_of(*each, length) < mine) return 0;
    return length;
}

}  // namespace pomona::link
