// mpi/tools/tune.h: `pomona tune`: measures the links of this machine, fits coll/cost.h's numbers
// to them and keeps these for mpirun (btl/base/links_file.h).
#pragma once

#include "coll/cost.h"

#include <cstddef>
#include <string>
#include <vector>

namespace pomona {

// One size of message: half of a round trip.
struct LinkPoint {
    size_t bytes = 0;
    double ns = 0;
};

// The link whose message_ns() + n G has the least sum of squared relative errors, so that short
// messages count as much as long ones. `gap_ns`, the time from message to message in a stream,
// stands for o, but for no more than half of the line's start.
coll::Link fit_link(const std::vector<LinkPoint>& points, double gap_ns);

// One chunk; what stays in the caches; and what does not.
inline constexpr size_t kTuneShort = 16 << 10, kTuneNear = 256 << 10, kTuneFar = 16 << 20;

struct LinkMeasurement;
// The same for shared memory, whose line has a step where messages ask first and bends where data
// leaves the caches, and what one core does by itself: sets all of `links` but tcp, net and crowd.
void fit_shared_memory(const LinkMeasurement& measured, coll::Links& links);
// Of a message of so many bytes, as fitted there.
double shared_memory_ns(const coll::Links& links, size_t bytes);

// What the two ranks found, as lines of words and numbers; false when a line is none of ours.
struct LinkMeasurement {
    std::vector<LinkPoint> points;
    double gap_ns = 0;
    double fresh_ns = 0;  // per byte of data that its sender has just made, more than of other data
    // Nanoseconds per byte, in arrays that stay in the second-level cache and in longer ones.
    double copy_near = 0, copy_far = 0, reduce_near = 0, reduce_far = 0;
    // Nanoseconds that a message takes while another comes, and an allreduce in place through
    // chunks, of kTuneNear and kTuneFar bytes; the latter of kTuneShort too.
    double both_near = 0, both_far = 0, chunks_short = 0, chunks_near = 0, chunks_far = 0;
    double bcast_far = 0;  // a bcast through chunks of kTuneFar bytes, to who receives it
};
std::string measurement_text(const LinkMeasurement& measured);
bool parse_measurement(std::string_view text, LinkMeasurement& measured);

struct TuneOptions {
    bool json = false;
    bool dry_run = false;     // measure and print, keep nothing
    bool once = false;        // nothing to do where figures of this machine are kept
    bool force = false;       // keep the figures of a busy machine too
    bool links_only = false;  // do not time algorithms
    std::string hosts, ssh;   // between these hosts, as for mpirun; "": this machine
};
// What it returns when the machine was busy and nothing was kept.
inline constexpr int kTuneBusy = 3;
// `links`, `choices`: the files that it keeps.
int tune(const TuneOptions& options, const std::string& links, const std::string& choices);

// The part of one of the two ranks that tune() starts under mpirun: `pomona tune --rank`.
int tune_rank();

}  // namespace pomona
