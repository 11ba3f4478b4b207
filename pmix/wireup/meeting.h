// pmix/wireup/meeting.h: the table by which ranks meet that were started one at a time, as rank 0
// keeps it, and the frames in which the others speak with it.
// Idea: who is there, what was put under which key, and what each rank waits for are plain values:
// frames in, frames out, no socket and no clock. A rank may come, end and come again until all are
// there; from then on one that ends before it has said bye is lost, and all hear of it.
//
// A frame is length u32 (of what follows), word u8, contents. By the time one is read, both ends
// have proved the job's secret (by_hand.h).
#pragma once

#include "btl/base/bytes.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pomona {

inline constexpr int kMeetingMost = 1024;                  // ranks
inline constexpr size_t kMeetingFrameMost = 1u << 20;      // bytes
inline constexpr size_t kMeetingKeyMost = 1024;            // bytes
inline constexpr size_t kMeetingKeysOfRank = 64;           // that one rank may put
inline constexpr size_t kMeetingKept = size_t{256} << 20;  // bytes of all values

enum class MeetingWord : uint8_t {
    // A rank's.
    put = 1,  // key, value
    get,      // key; one at a time
    bye,      // it needs the table no more
    // Rank 0's.
    all_here,
    missing,  // a sentence, for the user: who has not come so far
    value,    // of the key asked for
    failed    // a sentence: the meeting is over
};

std::vector<std::byte> meeting_frame(MeetingWord word, ConstBytes contents);
// Contents of a put.
std::vector<std::byte> meeting_entry(std::string_view key, ConstBytes value);

// What comes by a connection, in whatever pieces.
class MeetingFrames {
public:
    void feed(ConstBytes bytes);
    struct Frame {
        MeetingWord word;
        std::vector<std::byte> contents;
    };
    // The next whole frame; none: more must come, or what came is none (failed()).
    std::optional<Frame> next();
    bool failed() const { return failed_; }

private:
    std::vector<std::byte> in_;
    bool failed_ = false;
};

// Numbers in a sentence: "1, 2, 5 to 7", at most some ten of them.
std::string list_of_ranks(const std::vector<int>& ranks);

class MeetingBoard {
public:
    explicit MeetingBoard(int size);

    // A rank has proved who it is. False: that one is here, or was.
    bool arrive(int rank);
    // What it says; false where that is nothing it may say: its connection ends.
    bool take(int rank, MeetingWord word, ConstBytes contents);
    // Its connection has ended.
    void leave(int rank);
    // Tells this to all that are here; they end.
    void fail(const std::string& sentence);
    void tell_missing(const std::string& sentence);

    // Rank 0's own.
    bool put(const std::string& key, ConstBytes value) { return put_of(0, key, value); }
    const std::vector<std::byte>* find(const std::string& key) const;

    bool complete() const { return complete_; }
    bool over() const;  // all others have said bye, or are lost
    int lost() const { return lost_; }
    std::vector<int> missing() const;

    struct Said {
        int rank;
        std::vector<std::byte> frame;
    };
    std::vector<Said> take_output() { return std::exchange(output_, {}); }

private:
    enum class Place : uint8_t { empty, here, left, lost };
    struct Seat {
        Place place = Place::empty;
        std::optional<std::string> wanted;
        size_t keys = 0;
    };
    Seat& seat(int rank) { return seats_[static_cast<size_t>(rank)]; }
    bool put_of(int rank, const std::string& key, ConstBytes value);
    void say(int rank, MeetingWord word, ConstBytes contents);
    void say_all(MeetingWord word, ConstBytes contents);

    std::vector<Seat> seats_;
    std::map<std::string, std::vector<std::byte>> values_;
    size_t kept_ = 0;
    bool complete_ = false;
    int lost_ = -1;
    std::vector<Said> output_;
};

}  // namespace pomona
