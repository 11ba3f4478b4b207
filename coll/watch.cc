// coll/watch.cc: asking, answering, and ending collectives in which members do not meet.
#include "coll/watch.h"

#include "btl/base/check.h"
#include "btl/base/format.h"

#include <algorithm>
#include <utility>

namespace pomona::coll {

static constexpr Nanoseconds kAskLast = 2'000'000'000;     // between rounds, at most
static constexpr Nanoseconds kReasonWait = 1'000'000'000;  // for the reason of a failure
static constexpr size_t kAskAtOnce = 16;                   // processes a round
// Collectives that ask in one look: thousands may be under way (boards of persistent ones are
// agreed on without waiting).
static constexpr size_t kAskedAtOnce = 8;
static constexpr size_t kTextMax = 700, kSentencesMax = 1000;
static constexpr int kMissesMax = 2;

// ---- calls

Call Call::of(const Schedule& schedule, const Shape& shape) {
    Call call;
    bool alike = !shape.irregular && shape.collective != Collective::neighbor;
    call.mark = alike ? schedule.mark() : 0;
    call.collective = shape.collective;
    call.root = has_root(shape.collective) ? shape.root : -1;
    call.bytes = shape.irregular ? 0 : shape.bytes();
    call.algorithm = schedule.algorithm();
    return call;
}

Call Call::preparing(const Shape& shape) {
    Call call;
    call.collective = shape.collective;
    call.prepares = true;
    call.bytes = shape.irregular ? 0 : shape.bytes();
    return call;
}

// What prepares is the same exchange for whatever comes after it.
bool Call::meets(const Call& other) const {
    if (prepares || other.prepares) return prepares == other.prepares;
    if (collective != other.collective) return false;
    return !mark || !other.mark || mark == other.mark;
}

const char* Call::name_of(unsigned label) {
    static const char* const names[] = {
        "MPI_Barrier",   "MPI_Bcast",          "MPI_Reduce",   "MPI_Allreduce",
        "MPI_Allgather", "MPI_Reduce_scatter", "MPI_Alltoall", "MPI_Gather",
        "MPI_Scatter",   "MPI_Scan",           "MPI_Exscan",   "a neighborhood collective"};
    static_assert(std::size(names) == static_cast<size_t>(Collective::count_));
    unsigned collective = label & 15;
    return collective < std::size(names) ? names[collective] : "its first collective";
}

std::string Call::text() const {
    std::string text = name_of(static_cast<unsigned>(collective));
    if (collective != Collective::barrier && bytes) text += format(" of {} bytes", bytes);
    if (root >= 0) text += format(" with root {}", root);
    if (algorithm[0]) text += format(" ({})", algorithm);
    return text;
}

// ---- notes

// What processes tell each other. A question names the message that is waited for.
struct Watch::Note {
    enum class Kind : uint8_t { question, answer, failure };
    // failing: it ends with an error, of which the reason is still to come.
    enum class State : uint8_t { not_begun, under_way, failing, over, failed };
    enum class Awaits : uint8_t { nothing, message, receive };

    Kind kind = Kind::question;
    State state = State::under_way;
    Awaits awaits = Awaits::nothing;
    bool fits = true;   // answer: the message that is waited for belongs to the call here
    bool knows = true;  // answer: `call` is known
    CollectiveId id;
    int from = 0;
    int slot = 0;
    Call call{};       // without the algorithm's name
    std::string said;  // the call in words
    std::string why;   // of a failure
    Code code = Code::ok;
    int process = -1;  // of a failure: whose fault

    std::vector<std::byte> pack() const {
        Writer out;
        out.put(kind), out.put(state), out.put(awaits), out.put(fits), out.put(knows);
        out.put(id.context), out.put(id.number), out.put(from), out.put(slot);
        out.put(call.mark), out.put(call.collective), out.put(call.prepares), out.put(call.bytes);
        out.put(code), out.put(process);
        out.put_text(std::string_view(said).substr(0, kTextMax));
        out.put_text(std::string_view(why).substr(0, kTextMax));
        return out.bytes();
    }
    bool read(ConstBytes bytes) {
        Reader in(bytes);
        kind = in.get<Kind>(), state = in.get<State>(), awaits = in.get<Awaits>();
        fits = in.get<uint8_t>() != 0, knows = in.get<uint8_t>() != 0;
        id.context = in.get<uint64_t>(), id.number = in.get<uint64_t>();
        from = in.get<int>(), slot = in.get<int>();
        call.mark = in.get<uint32_t>(), call.collective = in.get<Collective>();
        call.prepares = in.get<uint8_t>() != 0, call.bytes = in.get<uint64_t>();
        code = in.get<Code>(), process = in.get<int>();
        said = in.get_text(kTextMax), why = in.get_text(kTextMax);
        return !in.failed() && in.left() == 0 && kind <= Kind::failure && state <= State::failed &&
               awaits <= Awaits::receive && call.collective < Collective::count_ &&
               code >= Code::ok && code <= Code::internal;
    }
    // The counterpart of what is waited for.
    bool is_met_by(const Step& step) const {
        return step.kind == (awaits == Awaits::message ? StepKind::send : StepKind::recv) &&
               step.slot == slot;
    }
    bool is_about(const Step& step) const {
        return step.kind == (awaits == Awaits::message ? StepKind::recv : StepKind::send) &&
               step.slot == slot;
    }
};

void Watch::send(int process, const Note& note) {
    if (process != process_ && carrier_.reaches(process)) carrier_.send(process, note.pack());
}

Watch::Note Watch::note_of(const Watched& collective) const {
    Note note;
    note.id = collective.id;
    note.from = process_;
    note.call = collective.call;
    note.said = collective.call.text();
    return note;
}

// ---- groups

WatchedGroup::WatchedGroup(Watch& watch, uint64_t context) : watch_(&watch), context_(context) {
    watch.groups_.push_back(this);
    watch.index_of_.reset();
}

WatchedGroup::~WatchedGroup() {
    if (!watch_) return;
    std::erase(watch_->groups_, this);
    watch_->index_of_.reset();
    auto close = [&](uint64_t context) {
        watch_->closed_[watch_->closed_count_++ % watch_->closed_.size()] = context;
    };
    close(context_);
    for (const Past& each : past_)
        if (each.why && each.id.context != context_) close(each.id.context);
}

Watch::~Watch() {
    for (WatchedGroup* each : groups_) each->watch_ = nullptr;
}

Watched* WatchedGroup::find(const CollectiveId& id) {
    for (Watched* each = under_way_.front(); each; each = under_way_.next(each))
        if (each->id == id) return each;
    return nullptr;
}

const WatchedGroup::Past* WatchedGroup::find_past(const CollectiveId& id) const {
    for (const Past& each : past_)
        if (each.id == id) return &each;
    return nullptr;
}

void WatchedGroup::set_told(const CollectiveId& id, const char* sentence) {
    for (Past& each : past_)
        if (each.id == id && !each.why) each.why = sentence, each.code = Code::data_lost;
}

void Watch::make_index() {
    size_t now = 0;
    for (const WatchedGroup* each : groups_) now += each->started_ + each->ended_;
    if (index_of_ == now) return;
    index_of_ = now;
    index_.clear();
    for (WatchedGroup* group : groups_)
        for (Watched* each = group->under_way_.front(); each; each = group->under_way_.next(each))
            index_.emplace(each->id, each);
}

Watch::Found Watch::find(const CollectiveId& id) {
    make_index();
    if (auto here = index_.find(id); here != index_.end())
        return {here->second->group, here->second, here->second->group->find_past(id)};
    Found found;
    for (WatchedGroup* each : groups_) {
        if (const auto* past = each->find_past(id)) return {each, nullptr, past};
        if (each->context_ == id.context) found.group = each;
    }
    return found;
}

// ---- the end of a collective that failed

// Of errors that another member's call explains: that one is asked, and the end is told later.
bool WatchedGroup::end_failed(Watched& collective, Error& error) {
    bool unclear = error.code == Code::data_lost || error.code == Code::truncated;
    if (!watch_) return List<Watched>::remove(&collective), true;
    Watch& watch = *watch_;
    if (collective.why) {
        error.what = collective.why;
    } else if (unclear && watch.asks_ && error.peer >= 0 && error.peer != watch.process_ &&
               watch.carrier_.reaches(error.peer)) {
        collective.ending = true;
        collective.error = error;
        collective.told_at = watch.clock_.now() + kReasonWait;
        watch.ask(collective, error.peer, nullptr);
        return false;
    }
    collective.ending = false;
    watch.conclude(collective, error);
    return true;
}

// Keeps it among the last ones, tells the others, and its owner if that waits for it.
void Watch::conclude(Watched& collective, Error error) {
    WatchedGroup& group = *collective.group;
    List<Watched>::remove(&collective);
    const char* why = collective.why;
    if (!why) {
        std::string who = error.peer >= 0 && error.peer != process_
                              ? format(" ({})", group.name_of(error.peer))
                              : "";
        why = keep(format("{} failed in {} on {}: {}{}", group.name_of(process_),
                          collective.call.text(), group.name(),
                          error.what[0] ? error.what : "a member has ended", who));
    }
    auto& past = group.past_[group.ended_++ % WatchedGroup::kPast];
    past = {collective.id, collective.call, why, error.code, error.peer};
    tell_partners(collective, past);
    if (std::exchange(collective.ending, false)) collective.told(collective, error);
}

// Those with whom it would have exchanged messages; and who is said to be gone, so that its end is
// found out here too, where the two have never exchanged anything.
void Watch::tell_partners(const Watched& collective, const WatchedGroup::Past& past) {
    std::vector<int> partners;
    for (const Step& step : collective.runner->schedule().steps())
        if (step.kind == StepKind::send || step.kind == StepKind::recv)
            partners.push_back(collective.group->process_of(step.peer));
    if (past.code == Code::peer_gone && past.process >= 0) partners.push_back(past.process);
    std::sort(partners.begin(), partners.end());
    partners.erase(std::unique(partners.begin(), partners.end()), partners.end());
    Note note = note_of(collective);
    note.kind = Note::Kind::failure;
    note.state = Note::State::failed;
    note.why = past.why;
    note.code = past.code;
    note.process = past.process;
    for (int each : partners) send(each, note);
}

// Ends one that is under way, or that waits for the reason of its failure.
void Watch::end(Watched& collective, const Reason& reason) {
    collective.why = keep(reason.text);
    Error error{reason.code, collective.why, reason.process};
    if (!collective.ending) return collective.runner->fail(error);
    error.code = collective.error.code;
    conclude(collective, error);
}

std::string Watch::pair_text(const Watched& collective, const Note& note) const {
    const WatchedGroup& group = *collective.group;
    return format("On {} {} called {}, and {} called {}", group.name(), group.name_of(note.from),
                  note.said, group.name_of(process_), collective.call.text());
}

Watch::Reason Watch::mismatch(const Watched& collective, const Note& note) const {
    const Call& mine = collective.call;
    bool length = mine.collective == note.call.collective && mine.bytes != note.call.bytes;
    return {length ? Code::truncated : Code::data_lost, pair_text(collective, note), note.from};
}

// ---- asking

Watched* Watch::next_expired(Nanoseconds now) {
    for (WatchedGroup* group : groups_)
        for (Watched* each = group->under_way_.front(); each; each = group->under_way_.next(each))
            if (each->ending && now >= each->told_at) return each;
    return nullptr;
}

void Watch::look() {
    Nanoseconds now = clock_.now();
    if (!asks_) return;
    while (Watched* expired = next_expired(now)) conclude(*expired, expired->error);
    std::vector<Watched*> due;
    for (WatchedGroup* group : groups_)
        for (Watched* each = group->under_way_.front(); each; each = group->under_way_.next(each)) {
            if (each->ending) continue;
            if (!each->pause || now < each->ask_at) look_at(*each, now);
            else due.push_back(each);
        }
    // Those that should have asked long ago come first.
    auto last = due.begin() + static_cast<ptrdiff_t>(std::min(due.size(), kAskedAtOnce));
    std::partial_sort(due.begin(), last, due.end(),
                      [](const Watched* a, const Watched* b) { return a->ask_at < b->ask_at; });
    for (auto each = due.begin(); each != last; ++each) look_at(**each, now);
}

// Sends only, so nothing ends here.
void Watch::look_at(Watched& collective, Nanoseconds now) {
    if (!collective.pause) {
        collective.pause = kAskFirst;
        collective.ask_at = now + kAskFirst;
    }
    if (now < collective.ask_at) return;
    collective.pause = std::min(2 * collective.pause, kAskLast);
    collective.ask_at = now + collective.pause;
    std::vector<std::pair<int, const Step*>> awaited;  // each process once
    collective.runner->each_active([&](const Step& step) {
        if (step.kind != StepKind::send && step.kind != StepKind::recv) return;
        int process = collective.group->process_of(step.peer);
        auto same = [&](const auto& each) { return each.first == process; };
        if (process != process_ && std::none_of(awaited.begin(), awaited.end(), same))
            awaited.emplace_back(process, &step);
    });
    size_t first = collective.asked_first;
    for (size_t i = 0; i < std::min(awaited.size(), kAskAtOnce); ++i) {
        const auto& each = awaited[(first + i) % awaited.size()];
        ask(collective, each.first, each.second);
    }
    collective.asked_first = first + kAskAtOnce;
}

void Watch::ask(Watched& collective, int process, const Step* step) {
    auto found = std::find_if(collective.asked.begin(), collective.asked.end(),
                              [&](const auto& each) { return each.process == process; });
    if (found == collective.asked.end())
        found = collective.asked.insert(found, {process, false, 0});
    if (found->open && step) return;
    found->open = true;
    Note note = note_of(collective);
    if (step) {
        bool sends = step->kind == StepKind::send;
        note.awaits = sends ? Note::Awaits::receive : Note::Awaits::message;
        note.slot = step->slot;
    }
    send(process, note);
}

// ---- answering

bool Watch::take(ConstBytes bytes) {
    Note note;
    if (!note.read(bytes)) return false;
    if (note.kind == Note::Kind::question) return answer(note), true;
    const Found found = find(note.id);
    WatchedGroup* group = found.group;
    Watched* collective = found.here;
    if (!collective && group && note.kind == Note::Kind::failure)
        group->set_told(note.id, keep(note.why));
    if (!collective) return true;
    if (note.kind == Note::Kind::answer) {
        take_answer(*collective, note);
    } else if (!collective->call.meets(note.call)) {
        end(*collective, mismatch(*collective, note));
    } else {
        end(*collective, {note.code, note.why, note.process >= 0 ? note.process : note.from});
    }
    return true;
}

void Watch::answer(const Note& question) {
    Note note;
    note.kind = Note::Kind::answer;
    note.id = question.id;
    note.from = process_;
    note.awaits = question.awaits;
    note.slot = question.slot;
    note.knows = false;
    note.state = Note::State::not_begun;
    const Found found = find(question.id);
    WatchedGroup* group = found.group;
    Watched* here = found.here;
    const WatchedGroup::Past* past = found.past;
    bool closed = std::find(closed_.begin(), closed_.end(), question.id.context) != closed_.end();
    if (here || past) {
        note.knows = true;
        note.call = here ? here->call : past->call;
        note.said = note.call.text();
    }
    if (here) {
        bool failing = here->ending || here->runner->failed();
        note.state = failing ? Note::State::failing : Note::State::under_way;
        bool meets = here->call.meets(question.call);
        if (meets && question.awaits != Note::Awaits::nothing) {
            auto steps = here->runner->schedule().steps();
            note.fits = std::any_of(steps.begin(), steps.end(), [&](const Step& step) {
                return question.is_met_by(step) && group->process_of(step.peer) == question.from;
            });
        }
        send(question.from, note);
        if (!meets || !note.fits) end(*here, mismatch(*here, question));
        return;
    }
    auto why = group && !past ? group->closed() : std::nullopt;
    if (past && past->why) {
        note.state = Note::State::failed;
        note.why = past->why;
        note.code = past->code;
        note.process = past->process;
    } else if (why) {
        // It was refused here before it began; whoever asks may not have heard of the reason yet.
        note.state = Note::State::failed;
        note.why = why->what;
        note.code = why->code;
        note.process = why->peer;
    } else if (past || closed ||
               (group && group->context_ == question.id.context &&
                question.id.number < group->begun())) {
        note.state = Note::State::over;
    }
    send(question.from, note);
}

// The step that the note's question was about, if it still waits.
const Step* Watch::active_step(const Watched& collective, const Note& note) const {
    const Step* found = nullptr;
    collective.runner->each_active([&](const Step& step) {
        if (note.is_about(step) && collective.group->process_of(step.peer) == note.from)
            found = &step;
    });
    return found;
}

void Watch::take_answer(Watched& collective, const Note& note) {
    auto asked = std::find_if(collective.asked.begin(), collective.asked.end(),
                              [&](const auto& each) { return each.process == note.from; });
    if (asked == collective.asked.end()) return;
    asked->open = false;
    if (note.knows && !collective.call.meets(note.call))
        return end(collective, mismatch(collective, note));
    if (collective.ending) {
        if (note.awaits != Note::Awaits::nothing) return;  // to an earlier question
        // What it lost it may have lost to a third one.
        if (note.state == Note::State::failing && collective.error.code == Code::data_lost) return;
        std::string why = note.why;
        if (why.empty()) why = pair_text(collective, note) + ": " + collective.error.what;
        if (!note.knows && note.why.empty()) return conclude(collective, collective.error);
        return end(collective, {collective.error.code, why, collective.error.peer});
    }
    if (note.state == Note::State::failed)
        return end(collective, {note.code, note.why, note.process >= 0 ? note.process : note.from});
    if (!active_step(collective, note)) return;
    if (note.state == Note::State::under_way && !note.fits)
        return end(collective, mismatch(collective, note));
    // Looked at twice: what it has sent is here by then.
    if (note.state != Note::State::over || ++asked->missed < kMissesMax) return;
    Reason reason = mismatch(collective, note);
    if (!note.knows)
        reason.text = format("{} is past {} on {}, in which {} waits for it",
                             collective.group->name_of(note.from), collective.call.text(),
                             collective.group->name(), collective.group->name_of(process_));
    else
        reason.text += format(", where {} is over: what it sends and receives does not fit",
                              collective.group->name_of(note.from));
    end(collective, reason);
}

const char* Watch::keep(std::string sentence) {
    if (sentences_.size() >= kSentencesMax && !sentences_.count(sentence))
        return "A member of the communicator is in another collective, or failed in this one";
    return sentences_.insert(std::move(sentence)).first->c_str();
}

}  // namespace pomona::coll
