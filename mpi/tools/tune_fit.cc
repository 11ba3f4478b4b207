// mpi/tools/tune_fit.cc: from times to L, o and G.
// Idea: with y = a + n G and weights 1/y the relative errors are minimized, a linear problem in
// two unknowns. Where its solution is negative the nearest line that makes sense is taken.
#include "mpi/tools/tune.h"

#include "btl/base/format.h"
#include "btl/base/kept_file.h"
#include "coll/catalog.h"

#include <algorithm>
#include <cstdio>

namespace pomona {

coll::Link fit_link(const std::vector<LinkPoint>& points, double gap_ns) {
    // Sums of u = 1/y and v = n/y: minimize the sum of (a u + G v - 1)^2.
    double uu = 0, uv = 0, vv = 0, u1 = 0, v1 = 0;
    for (const LinkPoint& point : points) {
        double u = 1 / std::max(point.ns, 1.0), v = static_cast<double>(point.bytes) * u;
        uu += u * u, uv += u * v, vv += v * v, u1 += u, v1 += v;
    }
    double determinant = uu * vv - uv * uv;
    double start = uu > 0 ? u1 / uu : 1, slope = 0;
    if (determinant > 1e-9 * uu * vv) {
        start = (u1 * vv - v1 * uv) / determinant;
        slope = (v1 * uu - u1 * uv) / determinant;
        if (slope < 0) start = u1 / uu, slope = 0;
        if (start < 1) start = 1, slope = std::max((v1 - uv) / vv, 0.0);
    }
    double overhead = std::clamp(gap_ns, 0.0, start / 2);
    return {start - 2 * overhead, overhead, slope};
}

namespace {

// What an allreduce in place or a bcast takes through chunks: links.hand times the handing over and
// the links' other factors times the bytes, beside the rest.
struct ChunkParts {
    double rest, handing, bytes;
    ChunkParts(coll::Links links, size_t length,
               coll::Collective collective = coll::Collective::allreduce) {
        coll::Shape shape{.collective = collective,
                          .size = 2,
                          .count = length / sizeof(float),
                          .element = sizeof(float),
                          .in_place = collective == coll::Collective::allreduce,
                          .board = true};
        auto reckoned = [&](double hand, double chunk) {
            links.hand = hand, links.chunk = links.chunk_far = links.bcast_far = chunk;
            coll::Facts facts(shape, coll::Machine::of(links, true, false), {});
            return coll::find_algorithm(collective, "chunks")->cost(facts);
        };
        rest = reckoned(0, 0);
        handing = reckoned(1, 0) - rest, bytes = reckoned(0, 1) - rest;
    }
};

void fit_chunks(const LinkMeasurement& measured, coll::Links& links) {
    ChunkParts one(links, kTuneShort), near(links, kTuneNear), far(links, kTuneFar);
    // Two lengths, two unknowns; what disturbed the machine must not make one of them negative.
    double one_ns = measured.chunks_short - one.rest, near_ns = measured.chunks_near - near.rest;
    double both = one.handing * near.bytes - near.handing * one.bytes;
    if (both <= 0) return;
    links.hand = std::clamp((one_ns * near.bytes - near_ns * one.bytes) / both, 0.1, 4.0);
    auto times = [&](const ChunkParts& parts, double ns) {
        return std::clamp((ns - parts.rest - links.hand * parts.handing) / parts.bytes, 0.25, 4.0);
    };
    links.chunk = times(near, measured.chunks_near);
    links.chunk_far = times(far, measured.chunks_far);
    links.bcast_far =
        times(ChunkParts(links, kTuneFar, coll::Collective::bcast), measured.bcast_far);
}

}  // namespace

void fit_shared_memory(const LinkMeasurement& measured, coll::Links& links) {
    auto at = [&](size_t bytes) {
        for (const LinkPoint& point : measured.points)
            if (point.bytes >= bytes) return point.ns;
        return measured.points.back().ns;
    };
    constexpr double kib = 1024;
    double start = std::max(at(64), 1.0);
    double slope = std::max((at(256 << 10) - at(64 << 10)) / (192 * kib), 1e-3);
    double overhead = std::clamp(measured.gap_ns, 0.0, start / 2);
    links.shm = {start - 2 * overhead, overhead, slope};
    links.ask_ns = std::max(at(64 << 10) - start - 64 * kib * slope, 0.0);
    links.fresh_ns = std::max(measured.fresh_ns, 0.0);
    links.byte_eager_ns = std::max((at(4 << 10) - start) / (4 * kib), slope);
    double far = static_cast<double>(kTuneFar);
    links.byte_far_ns = std::max((at(kTuneFar) - start - links.ask_ns) / far, slope);
    links.copy_ns = measured.copy_near, links.copy_far_ns = measured.copy_far;
    links.reduce_ns = measured.reduce_near, links.reduce_far_ns = measured.reduce_far;
    // Neither way takes less than alone, nor much more than one after the other.
    auto times = [](double time, double alone) { return std::clamp(time / alone, 1.0, 3.0); };
    links.both = times(measured.both_near, at(kTuneNear));
    links.both_far = times(measured.both_far, at(kTuneFar));
    fit_chunks(measured, links);
}

double shared_memory_ns(const coll::Links& links, size_t bytes) {
    auto length = static_cast<double>(bytes);
    if (length < coll::kAskBytes) return links.shm.message_ns() + length * links.byte_eager_ns;
    double away = coll::distance_from_cache(length);
    double byte = links.shm.byte_ns + (links.byte_far_ns - links.shm.byte_ns) * away;
    return links.shm.message_ns() + links.ask_ns + length * byte;
}

std::string measurement_text(const LinkMeasurement& measured) {
    std::string text;
    for (const LinkPoint& point : measured.points)
        text += pomona::format("half {} {:.3f}\n", point.bytes, point.ns);
    text += pomona::format("gap {:.3f}\n", measured.gap_ns);
    text += pomona::format("fresh {:.6f}\n", measured.fresh_ns);
    text += pomona::format("copy {:.6f} {:.6f}\n", measured.copy_near, measured.copy_far);
    text += pomona::format("reduce {:.6f} {:.6f}\n", measured.reduce_near, measured.reduce_far);
    text += pomona::format("both {:.1f} {:.1f}\n", measured.both_near, measured.both_far);
    text += pomona::format("chunks {:.1f} {:.1f} {:.1f}\n", measured.chunks_short,
                           measured.chunks_near, measured.chunks_far);
    text += pomona::format("bcast {:.1f}\n", measured.bcast_far);
    return text + "end\n";
}

bool parse_measurement(std::string_view text, LinkMeasurement& measured) {
    while (!text.empty()) {
        std::string line(take_piece(text, '\n'));
        if (line == "end") return text.empty() && !measured.points.empty();
        double one = 0, two = 0, three = 0;
        if (std::sscanf(line.c_str(), "half %lf %lf", &one, &two) == 2 && one >= 0)
            measured.points.push_back({static_cast<size_t>(one), two});
        else if (std::sscanf(line.c_str(), "gap %lf", &one) == 1) measured.gap_ns = one;
        else if (std::sscanf(line.c_str(), "fresh %lf", &one) == 1) measured.fresh_ns = one;
        else if (std::sscanf(line.c_str(), "copy %lf %lf", &one, &two) == 2)
            measured.copy_near = one, measured.copy_far = two;
        else if (std::sscanf(line.c_str(), "reduce %lf %lf", &one, &two) == 2)
            measured.reduce_near = one, measured.reduce_far = two;
        else if (std::sscanf(line.c_str(), "both %lf %lf", &one, &two) == 2)
            measured.both_near = one, measured.both_far = two;
        else if (std::sscanf(line.c_str(), "chunks %lf %lf %lf", &one, &two, &three) == 3)
            measured.chunks_short = one, measured.chunks_near = two, measured.chunks_far = three;
        else if (std::sscanf(line.c_str(), "bcast %lf", &one) == 1) measured.bcast_far = one;
        else return false;
    }
    return false;
}

}  // namespace pomona
