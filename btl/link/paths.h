// btl/link/paths.h: one path of a link, and how long payloads are shared among several.
#pragma once

#include "btl/base/intake.h"
#include "btl/link/window.h"

namespace pomona::link {

// Pieces shorter than this cost more than they spread.
inline constexpr size_t kPieceMin = 64 << 10;
// The first by which the rate of a path is found that does not share a payload: short, since others
// wait for it.
inline constexpr size_t kTrialPiece = 32 << 10, kTrialPieceMost = 512 << 10;
// What stands before a question tells a rate from so many bytes on.
inline constexpr size_t kTimedLeast = 16 << 10;

// Of one payload that push_bulk() took.
struct Outgoing {
    pomona::Bulk bulk;
    size_t begun = 0;    // bytes in pieces
    size_t arrived = 0;  // bytes of pieces that were acknowledged
    // It is alone: the caller gets its memory back by a copy if its acknowledgement does not come
    // soon after all has been pushed.
    bool copies = false;
    Nanoseconds pushed_at = 0;
    std::unique_ptr<std::byte[]> own{};  // the copy
};

struct Piece {
    Outgoing* of = nullptr;  // null: it has arrived
    size_t offset = 0, length = 0;
    int path = kUnsent;
    int sendings = 0;
    Nanoseconds sent_at = 0;
};

struct Path {
    enum class State { down, connecting, up };

    Transport* transport = nullptr;
    int index = 0;
    bool rides = false;  // its transport does (transport.h, rule 14)
    Endpoint* endpoint = nullptr;
    State state = State::down;
    PathDescription description{};
    bool reliable = true;  // as it describes itself
    bool settled = false;  // since it is up: what the other side has is known (or nothing was sent)
    bool stalled = false;  // nothing gets through although others do
    Nanoseconds stalled_at = 0;  // since then, while it is

    // Making it again.
    std::vector<std::byte> address;  // what it is made to; empty: only the other side can make it
    bool was_up = false;
    bool dialled = false;  // by this process, the last time
    Nanoseconds retry_at = 0, pause = 0;
    int refusals = 0;  // one after the other
    Error why{};       // it is down

    // How quick it is.
    Pace pace{};
    double measured = 0;            // what it carries, see note_rate(); 0: not known
    Nanoseconds measured_at = 0;    // the last time
    bool by_question = false;       // it is what one answer showed, not its pace
    Nanoseconds measure_again = 0;  // after so long, of one that carries too little to be used
    size_t trial = 0;               // bytes of the last piece of a trial; 0: there is none
    size_t before_question = 0;     // bytes that stood before the last question
    Intake intake{};                // of long payloads
    LineSeen seen{};                // since it came up; the job's end asks for it
    Nanoseconds round_trip = 0, deviation = 0;  // 0: not known
    Nanoseconds shortest_trip = 0;              // since it came up
    Nanoseconds asked_at = 0;                   // the first question without an answer; 0: none
    Nanoseconds asked_last = 0;
    bool question_waits = false;  // it goes as soon as the path takes a frame
    bool owes_answer = false;     // a question came by it, of this time
    uint64_t answer_time = 0;
    Nanoseconds answered_at = 0;  // the last answer came
    Nanoseconds heard_at = 0;     // the last frame came
    Nanoseconds moved_at = 0;     // bytes got through, or none had to
    uint64_t arrived = 0;         // Pace::arrived then

    // What it has begun to take: a piece of `sending`, or, where that is null, the message `begun`.
    Outgoing* sending = nullptr;
    uint64_t begun = 0;
    size_t rest_offset = 0;  // in the long payload, or in the message's bytes
    size_t rest_length = 0;

    // A piece that is being read from it to its place.
    bool placing = false;
    uint64_t placed_number = 0;
    FrameHeader placed_header{};
    size_t placed_length = 0;

    bool usable() const { return state == State::up && settled; }
    bool busy() const { return rest_length != 0; }
    bool is_line() const;
    // Asks what it has to do, and how quick it is; what has not been used for a while is as it was.
    void look_at_pace(Nanoseconds now);
    // It has carried so many bytes a nanosecond for a while.
    void note_rate(double rate, Nanoseconds now);
    // What one that is not used carries was found too long ago: it is not known any more. `times`:
    // of the usual pause.
    void forget_old_rate(Nanoseconds now, int times = 1);
    // Bytes a nanosecond: as measured, else as those of its kind do.
    double rate() const;
    // How long a message takes by it, when nothing else does.
    double message_time(bool with_latency) const;
    // It has taken so much of a long payload; `full`: and no more for now, though there is more.
    void note_intake(size_t taken, bool full, Nanoseconds now) {
        bool line = full && is_line();
        intake.took(taken, full, now, line ? endpoint->kept() : 0, line ? &seen : nullptr);
    }
    // The longest piece that leaves it soon for something else, as an answer that lets the other
    // side send at the same time.
    size_t piece_most() const;
    // The longest message, up to `longest`, that takes it in one frame, without having asked.
    size_t unasked_most(size_t under_way, size_t longest) const;
    // When a frame that was not acknowledged is taken for lost, by a path that may lose.
    Nanoseconds patience() const;
    // A question was answered after so long, before which so many bytes stood; 0: not known.
    void took(Nanoseconds trip, size_t before, Nanoseconds now);
};

// Orders paths, of which `front` messages take now: the one by which a message of kTypical bytes is
// there first is the first, by what has been measured, or as its kind has it; but `front` stays the
// first while another one is not much quicker.
void order_by_time(std::vector<Path*>& paths, const Path* front, Nanoseconds now);
// Of ordered ones, so many may take a message when those before have no room: the others would keep
// what follows it waiting for longer than those before do.
size_t message_paths(const std::vector<Path*>& ordered);
// Those that share long payloads. Others carry so little that the sum would gain less than a single
// late piece costs.
std::vector<Path*> sharers(const std::vector<Path*>& ordered);
// The longest piece that one may take which does not share, as its rate is not known, or has not
// been looked at for long; 0: none now. A question goes behind it. An answer that comes as soon as
// without it tells no rate but that the path is no slow one: the next piece is longer.
size_t trial_piece(Path& path, Nanoseconds now);

// How long the next piece for `own` is, at most `longest`, of `left` bytes, when `unbegun` bytes
// wait in all; 0: it is better left to the others. With several paths the pieces get shorter
// towards the end, and none is longer than its path brings until all can be done, so that all are
// done at about the same time.
size_t next_piece(const std::vector<const Path*>& paths, const Path& own, size_t longest,
                  size_t left, size_t unbegun);

}  // namespace pomona::link
