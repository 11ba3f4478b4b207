// btl/link/paths.cc: times and shares of paths.
#include "btl/link/paths.h"

#include "btl/base/asking.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace pomona::link {

static constexpr Nanoseconds kPatienceLeast = 3'000'000;
static constexpr Nanoseconds kPatienceFirst = 50'000'000;  // before anything is known
static constexpr Nanoseconds kPatienceMost = 1'000'000'000;

Nanoseconds Path::patience() const {
    if (round_trip == 0) return kPatienceFirst;
    return std::clamp(round_trip + 4 * deviation, kPatienceLeast, kPatienceMost);
}

// Source of round_trip and deviation: RFC 6298, section 2.
void Path::took(Nanoseconds trip, size_t before, Nanoseconds now) {
    trip = std::max<Nanoseconds>(trip, 1);
    if (shortest_trip == 0 || trip < shortest_trip) shortest_trip = trip;
    bool tells = trip > 2 * shortest_trip || trial >= kTrialPieceMost;
    // What lines and systems buffer goes more quickly than what follows: a pace says more.
    if (before >= kTimedLeast && tells && (measured == 0 || by_question)) {
        Nanoseconds time = std::max(trip - shortest_trip, trip / 2);
        note_rate(static_cast<double>(before) / static_cast<double>(time), now);
        by_question = true;
    }
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

// What paths of a kind carry before anything is measured, in bytes a nanosecond: so that the first
// messages go by the likely quicker one, and another one is tried when that disappoints.
static double rate_of_kind(const std::string& kind) {
    struct Kind {
        const char* name;
        double rate;
    };
    static constexpr Kind kKinds[] = {
        {"thunderbolt", 2}, {"wifi", 0.04}, {"vpn", 0.0125}, {"virtual", 0.01}};
    static constexpr double kWired = 0.125;
    for (const Kind& each : kKinds)
        if (kind == each.name) return each.rate;
    return kWired;
}

void Path::look_at_pace(Nanoseconds now) {
    pace = endpoint->pace();
    if (pace.rate != 0) {
        if (std::exchange(by_question, false)) measured = 0;
        note_rate(pace.rate, now);
    } else {
        pace.rate = measured;
    }
}

// A peer that does not read for a while makes a path look slow, which nothing else tells from a
// slow line: so the best of the last seconds counts.
void Path::note_rate(double rate, Nanoseconds now) {
    static constexpr double kHalved = 1e9;
    static constexpr Nanoseconds kStepMost = 100'000'000;
    auto step = static_cast<double>(std::min(now - measured_at, kStepMost));
    measured = std::max(rate, measured * std::exp2(-step / kHalved));
    measured_at = now;
}

// Doubled each time.
static constexpr Nanoseconds kAgainFirst = 100'000'000, kAgainMost = 60'000'000'000;

void Path::forget_old_rate(Nanoseconds now, int times) {
    Nanoseconds pause = times * std::max(measure_again, kAgainFirst);
    if (measured == 0 || now - measured_at < pause) return;
    measure_again = std::clamp(2 * measure_again, kAgainFirst, kAgainMost);
    measured = 0;
    by_question = false;
    trial = 0;
}

double Path::rate() const { return measured != 0 ? measured : rate_of_kind(description.kind); }

// Longer ones ask, and go in pieces.
static constexpr double kTypical = 64 << 10;
static constexpr double kMuchQuicker = 0.8;
static constexpr int kRarely = 10;
// So many times as much as a path carries the first may, and it still takes messages.
static constexpr double kMessagesLeast = 4;
// The same of pieces. It would add a tenth at most.
static constexpr double kShareLeast = 10;

double Path::message_time(bool with_latency) const {
    double latency = with_latency ? static_cast<double>(shortest_trip) / 2 : 0;
    return latency + kTypical / rate();
}

void order_by_time(std::vector<Path*>& paths, const Path* front, Nanoseconds now) {
    // One of a better kind is tried again when the first one is slow: more rarely than by a trial,
    // as a message cannot go in short pieces.
    for (Path* each : paths)
        if (front && each != front && rate_of_kind(each->description.kind) > front->rate())
            each->forget_old_rate(now, kRarely);
    bool latencies = std::all_of(paths.begin(), paths.end(),
                                 [](const Path* each) { return each->shortest_trip != 0; });
    std::stable_sort(paths.begin(), paths.end(), [&](const Path* one, const Path* other) {
        return one->message_time(latencies) < other->message_time(latencies);
    });
    auto at = std::find(paths.begin(), paths.end(), front);
    if (at == paths.begin() || at == paths.end()) return;
    double best = paths.front()->message_time(latencies);
    if (best > kMuchQuicker * front->message_time(latencies))
        std::rotate(paths.begin(), at, at + 1);
}

size_t message_paths(const std::vector<Path*>& ordered) {
    size_t number = 0;
    while (number < ordered.size() &&
           ordered[number]->rate() * kMessagesLeast >= ordered.front()->rate())
        ++number;
    return number;
}

std::vector<Path*> sharers(const std::vector<Path*>& ordered) {
    auto known = [&](const Path* each) { return each->measured != 0 || each == ordered.front(); };
    double best = 0;
    for (const Path* each : ordered)
        if (known(each)) best = std::max(best, each->rate());
    std::vector<Path*> out;
    for (Path* each : ordered) {
        if (!known(each) || each->rate() * kShareLeast < best) continue;
        each->measure_again = 0;
        each->trial = 0;
        out.push_back(each);
    }
    return out;
}

size_t trial_piece(Path& path, Nanoseconds now) {
    path.forget_old_rate(now);
    if (path.measured != 0 || path.pace.queued >= kTimedLeast || path.asked_at != 0) return 0;
    path.trial = std::clamp(2 * path.trial, kTrialPiece, kTrialPieceMost);
    return path.trial;
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
