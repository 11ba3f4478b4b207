// meeting.cc: see meeting.h.
#include "torch_glue/meeting.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <thread>

#include "torch_glue/world.h"

namespace pomona::glue {
namespace {

using Clock = std::chrono::steady_clock;

// How long a member waits beyond its time for the word of who has not come.
constexpr std::chrono::seconds kTold{1};
constexpr uint64_t kMeeting = 1;  // as whom a failed meeting gives MPI_Finalize up

// The leader: ask, go, late. The others: come, here.
enum class Kind : uint32_t { come, ask, here, go, late };

struct Word {
    uint64_t from = 0, to = 0;  // the sender's try, and the receiver's; 0: any
    uint32_t name = 0;          // the hash of the group's: tags are fewer
    Kind kind{};
    std::array<char, 232> text{};  // late: who has not come
};

// This process's words of one meeting. What is not sent at its end stays MPI's, with its memory.
class Post {
public:
    Post(MPI_Comm comm, uint32_t name) : name(name), comm_(comm), sent_(new std::deque<Sent>) {}
    Post(const Post&) = delete;
    Post& operator=(const Post&) = delete;
    ~Post() {
        if (sent_all()) delete sent_;
    }

    const uint32_t name;
    const uint64_t self = ++tries();

    void send(int peer, Kind kind, uint64_t to, const std::string& text = {}) {
        Sent& sent = sent_->emplace_back();
        sent.word.from = self;
        sent.word.to = to;
        sent.word.name = name;
        sent.word.kind = kind;
        text.copy(sent.word.text.data(), sent.word.text.size() - 1);
        mpi().Isend(&sent.word, sizeof(Word), MPI_BYTE, peer, tag(), comm_, &sent.request);
    }
    bool sent_all() {
        for (Sent& sent : *sent_) {
            int done = 0;
            MPI_Status status;
            // One that fails is over: its request is null from then on.
            if (mpi().Test(&sent.request, &done, &status) == MPI_SUCCESS && !done) return false;
        }
        return true;
    }
    int tag() const { return static_cast<int>(name % 32768u); }  // the least MPI_TAG_UB allowed
    MPI_Comm comm() const { return comm_; }

private:
    struct Sent {
        MPI_Request request = MPI_REQUEST_NULL;
        Word word;
    };
    static std::atomic<uint64_t>& tries() {
        static std::atomic<uint64_t> count{0};
        return count;
    }
    const MPI_Comm comm_;
    std::deque<Sent>* const sent_;
};

// Takes words of one other member, one at a time. None is waited for that nobody asks for, so that
// the words of the next meeting are left to that.
class Ear {
public:
    Ear(Post& post, int peer) : post_(post), peer_(peer) {}
    Ear(const Ear&) = delete;
    Ear& operator=(const Ear&) = delete;
    Ear(Ear&&) = delete;
    Ear& operator=(Ear&&) = delete;
    ~Ear() { stop(); }

    std::optional<Word> look() {
        if (request_ == MPI_REQUEST_NULL)
            note(mpi().Irecv_c(&word_, sizeof(Word), MPI_BYTE, peer_, post_.tag(), post_.comm(),
                               &request_));
        int done = 0;
        MPI_Status status;
        if (request_ == MPI_REQUEST_NULL || !note(mpi().Test(&request_, &done, &status)) || !done)
            return {};
        return meant();
    }
    // A word that has come meanwhile.
    std::optional<Word> stop() {
        if (request_ == MPI_REQUEST_NULL) return {};
        int cancelled = 0;
        MPI_Status status;
        std::memset(&status, 0, sizeof status);
        mpi().Cancel(&request_);
        if (!note(mpi().Wait(&request_, &status))) return {};
        mpi().Test_cancelled(&status, &cancelled);
        if (cancelled) return {};
        return meant();
    }
    const std::string& failure() const { return failure_; }  // MPI's, of the first error

private:
    std::optional<Word> meant() const {
        return word_.name == post_.name ? std::optional<Word>(word_) : std::nullopt;
    }
    bool note(int error) {
        if (error == MPI_SUCCESS) return true;
        request_ = MPI_REQUEST_NULL;
        if (failure_.empty()) failure_ = error_text(error);
        return false;
    }
    Post& post_;
    const int peer_;
    MPI_Request request_ = MPI_REQUEST_NULL;
    Word word_;
    std::string failure_;
};

// Between two looks.
class Naps {
public:
    void rest() {
        if (++turns_ < 1000) std::this_thread::yield();
        else std::this_thread::sleep_for(std::chrono::microseconds(500));
    }

private:
    int turns_ = 0;
};

std::string give_up(std::string why) {
    give_up_finalize("a group could not be made", kMeeting);
    return why;
}

class Leader {
public:
    Leader(MPI_Comm comm, uint32_t name, const std::vector<int>& ranks) : post_(comm, name) {
        for (size_t i = 1; i < ranks.size(); ++i) members_.emplace_back(post_, ranks[i]);
    }

    std::string lead(std::chrono::milliseconds timeout) {
        const auto begin = Clock::now();
        std::string late = hear(deadline_in(timeout), [](const Member& m) { return m.their != 0; });
        if (!late.empty()) {
            const bool over = Clock::now() - begin >= timeout;
            late += " did not come" + (over ? " within " + limit_text(timeout) : reason());
        } else {
            // Who had come long before may have given up, and the others would wait for it in MPI.
            asked_ = true;
            for (Member& member : members_) post_.send(member.rank, Kind::ask, member.their);
            late = hear(Clock::now() + kLeaveGrace, [](const Member& m) { return m.here; });
            if (!late.empty()) late += " did not wait until all ranks had come" + reason();
        }
        for (Member& member : members_) {
            if (auto word = member.ear.stop()) take_in(member, *word);
            post_.send(member.rank, late.empty() ? Kind::go : Kind::late, member.their, late);
        }
        if (!late.empty()) return give_up(late);
        // Short words leave by themselves, so this ends unless a rank has died.
        Naps naps;
        for (const auto until = Clock::now() + kLeaveGrace; !post_.sent_all(); naps.rest())
            if (Clock::now() > until) return give_up("a rank has gone while the group was made");
        return {};
    }

    static std::string limit_text(std::chrono::milliseconds timeout) {
        return std::to_string(timeout.count()) + " ms";
    }

private:
    struct Member {
        Member(Post& post, int rank) : rank(rank), ear(post, rank) {}
        const int rank;
        uint64_t their = 0;  // number of the member's last try
        bool here = false;   // and it has answered this leader's question
        Ear ear;
    };

    void take_in(Member& member, const Word& word) {
        if (word.kind == Kind::come) {
            member.their = word.from;
            member.here = false;
            if (asked_) post_.send(member.rank, Kind::ask, member.their);
        } else if (word.kind == Kind::here && word.to == post_.self && word.from == member.their) {
            member.here = true;
        }
    }

    // Until `enough` holds of all, or cannot; the places of those of whom it does not.
    template <class Enough> std::string hear(Clock::time_point deadline, Enough enough) {
        Naps naps;
        for (;; naps.rest()) {
            std::vector<int> silent;
            bool dead = false;
            int place = 0;
            for (Member& member : members_) {
                ++place;
                while (!enough(member)) {
                    const auto word = member.ear.look();
                    if (!word) break;
                    take_in(member, *word);
                }
                if (enough(member)) continue;
                silent.push_back(place);
                dead |= !member.ear.failure().empty();
            }
            if (silent.empty() || dead || Clock::now() > deadline) return list_ranks(silent);
        }
    }
    std::string reason() const {
        for (const Member& member : members_)
            if (!member.ear.failure().empty()) return ": " + member.ear.failure();
        return {};
    }

    Post post_;
    std::deque<Member> members_;
    bool asked_ = false;
};

// One that does not lead. `again`: who leads may try again after it has given up.
std::string follow(MPI_Comm comm, uint32_t name, int leader, bool again,
                   std::chrono::milliseconds timeout) {
    Post post(comm, name);
    Ear ear(post, leader);
    auto until = deadline_in(timeout) + kTold;
    uint64_t their = 0;  // number of the leader's try
    bool over = false;
    std::string why, earlier;
    const auto take_in = [&](const Word& word) {
        const bool answers = word.to == post.self;
        if (word.kind == Kind::ask && answers) {
            their = word.from;
            post.send(leader, Kind::here, their);
            until = Clock::now() + kLeaveGrace + kTold;
        } else if (word.kind == Kind::go && answers && word.from == their) {
            over = true;
        } else if (word.kind == Kind::late && (answers || word.to == 0)) {
            (answers || !again ? why : earlier) = word.text.data();
        }
    };
    post.send(leader, Kind::come, 0);
    Naps naps;
    while (!over && why.empty() && ear.failure().empty() && Clock::now() <= until) {
        if (const auto word = ear.look()) take_in(*word);
        else naps.rest();
    }
    if (!over)
        if (const auto word = ear.stop()) take_in(*word);
    if (over) return {};
    if (!why.empty()) return give_up(why);
    why = "rank 0 did not tell ";
    why += ear.failure().empty() ? "within " + Leader::limit_text(timeout) + " " : "";
    why += "that all ranks have come";
    if (!ear.failure().empty()) why += ": " + ear.failure();
    if (!earlier.empty()) why += "; to an earlier call it had said: " + earlier;
    return give_up(why);
}

}  // namespace

std::string meet_members(MPI_Comm comm, const std::vector<int>& ranks, const std::string& name,
                         std::chrono::milliseconds timeout) {
    int self = 0;
    mpi().Comm_rank(comm, &self);
    const uint32_t hash = hash_name(name);
    if (ranks.front() == self) return Leader(comm, hash, ranks).lead(timeout);
    // On it names come again after destroy_process_group, and the default group's at each try.
    return follow(comm, hash, ranks.front(), comm == world_aside(), timeout);
}

std::string meet_world(std::chrono::milliseconds timeout) {
    std::vector<int> everyone(static_cast<size_t>(world_info().size));
    for (size_t i = 0; i < everyone.size(); ++i) everyone[i] = static_cast<int>(i);
    std::string late = meet_members(world_aside(), everyone, "world", timeout);
    if (late.empty()) forgive_meetings();
    return late;
}

void forgive_meetings() { take_back_finalize(kMeeting); }

}  // namespace pomona::glue
