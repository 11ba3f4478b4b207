// coll/watch.h: finds members that do not meet in a collective, and tells all when one has failed,
// where no board shows it: on different machines, over TCP, or where a communicator has no board.
// Idea: each process keeps which of its collectives go by messages: those under way, and the last
// 64. One that has waited for a while asks those whose messages it waits for; a process answers
// what it has called under the same number, whether it failed, and whether it has the counterpart
// of the message at all. Where two calls do not meet, both sides end theirs with an error that
// names both. One that fails says so to all with whom it exchanges messages in this collective,
// with the reason. Nothing here waits. A process has at most one question open to another for each
// collective, so one that is outside MPI, and does not answer, costs nothing; the others go on
// waiting for it. A collective that goes well costs a place in two lists.
#pragma once

#include "btl/base/clock.h"
#include "btl/base/list.h"
#include "coll/run.h"
#include "coll/shape.h"

#include <array>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace pomona::coll {

class Watch;
class WatchedGroup;

// What a member has called, as others are told.
struct Call {
    static Call of(const Schedule& schedule, const Shape& shape);
    // The exchange before a communicator's first collective, which is this one.
    static Call preparing(const Shape& shape);

    uint32_t mark = 0;  // Schedule::mark(); 0: only the kind of collective can be compared
    Collective collective = Collective::barrier;
    bool prepares = false;
    int32_t root = -1;   // of collectives with a root
    uint64_t bytes = 0;  // of the vector, or of a rank's block
    const char* algorithm = "";

    bool meets(const Call& other) const;
    // "MPI_Bcast of 40 bytes with root 0 (binomial)"
    std::string text() const;
    // "MPI_Bcast", of a label (coll/shape.h).
    static const char* name_of(unsigned label);
};

// By what all members know a collective.
struct CollectiveId {
    uint64_t context = 0, number = 0;
    bool operator==(const CollectiveId&) const = default;
};

// One collective under way; part of what executes it, which fills in the first ones.
class Watched : public ListNode {
public:
    WatchedGroup* group = nullptr;  // null: it is not watched
    Call call;
    Runner* runner = nullptr;
    CollectiveId id;
    // Called with the error when end() has said that the error is told later; may destroy this.
    void (*told)(Watched& self, const Error& error) = nullptr;

private:
    friend class Watch;
    friend class WatchedGroup;
    struct Asked {
        int process;
        bool open;   // it has not answered
        int missed;  // so often it was past this collective
    };
    Nanoseconds ask_at = 0, pause = 0;  // 0: not seen waiting yet
    size_t asked_first = 0;             // of those awaited: where the next round begins
    std::vector<Asked> asked;
    const char* why = nullptr;  // the watch has ended it: the sentence
    bool ending = false;        // failed, and somebody has been asked why
    Error error;                // then
    Nanoseconds told_at = 0;    // then: at the latest
};

// Those who call collectives together: a communicator. Processes have numbers that all know alike.
class WatchedGroup {
public:
    // `context`: of most of its collectives.
    WatchedGroup(Watch& watch, uint64_t context);
    virtual ~WatchedGroup();
    WatchedGroup(const WatchedGroup&) = delete;
    WatchedGroup& operator=(const WatchedGroup&) = delete;

    // Around each execution. end() is false when the error will be told later, by Watched::told;
    // else it may have been replaced by one that says more.
    void begin(Watched& collective) {
        collective.ask_at = collective.pause = 0;
        collective.why = nullptr;
        collective.asked.clear();
        under_way_.push_back(&collective);
        ++started_;
    }
    bool end(Watched& collective, Error* error) {
        if (__builtin_expect(error != nullptr, 0)) return end_failed(collective, *error);
        List<Watched>::remove(&collective);
        over(collective.id, collective.call);
        return true;
    }
    // In place of both for one that is over at once.
    void over(const CollectiveId& id, const Call& call) {
        size_t place = ended_++ % kPast;
        past_[place] = {id, call};
        if (__builtin_expect(place == kPast - 1, 0)) look_back();
    }
    // Is it over here, and failed?
    template <class Id> bool failed(Id is_it) const {
        for (const Past& each : past_)
            if (each.why && is_it(each.id)) return true;
        return false;
    }

protected:
    virtual int process_of(int member) const = 0;
    virtual std::string name_of(int process) const = 0;  // "rank 2"
    virtual std::string name() const = 0;
    virtual uint64_t begun() const = 0;  // so many collectives of its context have begun here
    // Why no collective of the group begins here any more: a member has failed, or it was revoked.
    virtual std::optional<Error> closed() const = 0;
    // After each 64 collectives, of which it is still known what was called.
    virtual void look_back() {}
    // What was called here, and has gone well; null: it is long ago, or not over.
    const Call* past_call(const CollectiveId& id) const {
        const Past* past = find_past(id);
        return past && !past->why ? &past->call : nullptr;
    }
    bool is_under_way(const CollectiveId& id) { return find(id) != nullptr; }

private:
    friend class Watch;
    // Another member has told what was wrong, and it is over here: counted as failed.
    void set_told(const CollectiveId& id, const char* sentence);
    struct Past {
        CollectiveId id{0, ~uint64_t{0}};
        Call call{};
        const char* why = nullptr;  // it has failed
        Code code = Code::ok;
        int process = -1;  // whose fault
    };
    static constexpr size_t kPast = 64;
    bool end_failed(Watched& collective, Error& error);
    Watched* find(const CollectiveId& id);
    const Past* find_past(const CollectiveId& id) const;

    Watch* watch_;  // null: it has ended
    const uint64_t context_;
    List<Watched> under_way_;
    std::array<Past, kPast> past_;
    size_t started_ = 0, ended_ = 0;
};

// How notes reach other processes.
class NoteCarrier {
public:
    virtual ~NoteCarrier() = default;
    virtual bool reaches(int process) const = 0;
    virtual void send(int process, ConstBytes note) = 0;
};

// Of a process.
class Watch {
public:
    Watch(int process, Clock& clock, NoteCarrier& carrier)
        : process_(process), clock_(clock), carrier_(carrier) {}
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

    static constexpr Nanoseconds kAskFirst = 100'000'000;  // after so long a wait
    // False: asks nobody, since no time passes that it could wait.
    void set_asking(bool asks) { asks_ = asks; }
    // From time to time while somebody waits.
    void look();
    // What another process has sent. False when it does not parse.
    bool take(ConstBytes note);
    const std::vector<WatchedGroup*>& groups() const { return groups_; }

private:
    friend class WatchedGroup;
    struct Note;
    struct Reason {
        Code code;
        std::string text;
        int process;  // whose fault
    };

    // A collective that another process names: the group that has it under way or among the last,
    // else the group whose context it is.
    struct Found {
        WatchedGroup* group = nullptr;
        Watched* here = nullptr;
        const WatchedGroup::Past* past = nullptr;
    };
    Found find(const CollectiveId& id);
    void make_index();
    Watched* next_expired(Nanoseconds now);
    void look_at(Watched& collective, Nanoseconds now);
    void ask(Watched& collective, int process, const Step* step);
    void answer(const Note& question);
    void take_answer(Watched& collective, const Note& note);
    void end(Watched& collective, const Reason& reason);
    void conclude(Watched& collective, Error error);
    void tell_partners(const Watched& collective, const WatchedGroup::Past& past);
    const Step* active_step(const Watched& collective, const Note& note) const;
    std::string pair_text(const Watched& collective, const Note& note) const;
    Reason mismatch(const Watched& collective, const Note& note) const;
    Note note_of(const Watched& collective) const;
    void send(int process, const Note& note);
    const char* keep(std::string sentence);

    const int process_;
    Clock& clock_;
    NoteCarrier& carrier_;
    bool asks_ = true;
    std::vector<WatchedGroup*> groups_;
    // Of all that are under way, by what others name: questions come by hundreds where thousands
    // are. `index_of_`: how many had started and ended when it was made.
    struct HashOfId {
        size_t operator()(const CollectiveId& id) const {
            return static_cast<size_t>(id.context * 0x9e3779b97f4a7c15 ^ id.number);
        }
    };
    std::unordered_map<CollectiveId, Watched*, HashOfId> index_;
    std::optional<size_t> index_of_;
    std::array<uint64_t, 64> closed_{};  // contexts of groups that have gone
    size_t closed_count_ = 0;
    std::set<std::string> sentences_;  // of errors, which refer to them for good
};

}  // namespace pomona::coll
