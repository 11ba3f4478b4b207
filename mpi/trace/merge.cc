// mpi/trace/merge.cc: see merge.h.
#include "mpi/trace/merge.h"

#include "mpi/trace/clocks.h"
#include "mpi/trace/json_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include <dirent.h>
#include <unistd.h>

namespace pomona::trace {

uint64_t names_number() {
    uint64_t out = sizeof(Record);
    for (size_t i = 0; i < kNameCount; ++i)
        for (const char* c = kNames[i]; *c; ++c)
            out = (out ^ static_cast<unsigned char>(*c)) * 0x100000001b3;
    return out;
}

std::string parts_folder(const std::string& file) { return file + ".parts"; }
std::string part_path(const std::string& folder, int rank) {
    return folder + "/rank-" + std::to_string(rank);
}

namespace {

constexpr int64_t kShortest = 1000;  // nanoseconds of waiting that are worth a word

// A record with its times on the one clock and its communicator's number in the trace.
struct Event {
    Record record;
    int32_t rank;
    uint32_t thread;
};

struct Comm {
    std::string name;
    int size = 0;
};

struct Message {
    const Event *send, *receive;
};

// Why a call lasted: the longest of its reasons.
struct Delay {
    const Event* call = nullptr;
    const char* why = nullptr;
    int32_t rank = 0;
    int64_t length = 0;
};

struct Trace {
    std::vector<PartHeader> parts;
    std::vector<Event> events;
    std::vector<Event> open;  // calls that had not returned when the job ended
    std::vector<Comm> comms{{"", 0}};
    std::vector<Message> messages;
    std::map<std::tuple<int32_t, uint32_t, int64_t>, Delay> delays;  // by rank, thread, begin
    std::map<int32_t, int64_t> clock_error;                          // by rank
    uint64_t never_received = 0, never_sent = 0, backward = 0;
};

struct FileCloser {
    void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, FileCloser>;

class Reader {
public:
    explicit Reader(Trace& trace) : trace_(trace) {}
    // False when the file is no part, or was not written by this version.
    bool read(const std::string& path) {
        File file(std::fopen(path.c_str(), "rb"));
        std::vector<char> page(kHeaderBytes);
        if (!file || std::fread(page.data(), 1, kHeaderBytes, file.get()) != kHeaderBytes)
            return false;
        PartHeader header;
        std::memcpy(&header, page.data(), sizeof header);
        if (header.magic != PartHeader::kMagic || header.functions != names_number() ||
            header.points < 1)
            return false;
        header.host[sizeof header.host - 1] = 0;
        header_ = header;
        trace_.parts.push_back(header);
        trace_.clock_error[header.rank] = std::max(header.clock[0].error, header.clock[1].error);
        own_comms_.clear();
        first_ = trace_.events.size();
        std::vector<char> bytes(Chunk::kBytes);
        while (std::fread(bytes.data(), 1, bytes.size(), file.get()) == bytes.size())
            take(bytes.data());
        for (size_t i = first_; i < trace_.events.size(); ++i) number_comm(trace_.events[i]);
        for (Event& event : trace_.open)
            if (event.rank == header_.rank) number_comm(event);
        return true;
    }
    void name_comms() {
        for (size_t i = 1; i < trace_.comms.size(); ++i)
            if (trace_.comms[i].name.empty())
                trace_.comms[i].name = "communicator " + std::to_string(i);
    }

private:
    void number_comm(Event& event) const {
        auto found = own_comms_.find(event.record.comm);
        event.record.comm = found == own_comms_.end() ? 0 : found->second;
    }
    void take(const char* bytes) {
        uint64_t head[2];
        std::memcpy(head, bytes, sizeof head);
        uint64_t count = std::min<uint64_t>(head[1], Chunk::kRecords);
        for (uint64_t i = 0; i < count; ++i) {
            Record record;
            std::memcpy(&record, bytes + sizeof head + i * sizeof record, sizeof record);
            take(record, static_cast<uint32_t>(head[0]));
        }
        if (count == Chunk::kRecords) return;
        Record open;
        std::memcpy(&open, bytes + sizeof head + count * sizeof open, sizeof open);
        if (open.begin == 0 || open.end != 0 || open.kind >= Kind::communicator) return;
        open.end = open.begin;
        take(open, static_cast<uint32_t>(head[0]), trace_.open);
    }
    void take(Record& record, uint32_t thread) { take(record, thread, trace_.events); }
    void take(Record& record, uint32_t thread, std::vector<Event>& events) {
        if (record.kind == Kind::communicator) {
            auto [known, fresh] =
                by_identity_.try_emplace(record.bytes, static_cast<uint32_t>(trace_.comms.size()));
            if (fresh) trace_.comms.push_back({"", record.peer});
            own_comms_[record.comm] = known->second;
            return;
        }
        if (record.kind == Kind::name) {
            char text[33] = {};
            std::memcpy(text, static_cast<const void*>(&record), 32);
            auto found = own_comms_.find(record.comm);
            if (found != own_comms_.end()) trace_.comms[found->second].name = text;
            return;
        }
        if (record.kind > Kind::name || record.function >= kNameCount) return;
        for (int64_t* time : {&record.begin, &record.end, &record.order})
            *time = aligned(header_, *time);
        events.push_back({record, header_.rank, thread});
    }

    Trace& trace_;
    PartHeader header_{};
    size_t first_ = 0;
    std::unordered_map<uint64_t, uint32_t> by_identity_;
    std::unordered_map<uint32_t, uint32_t> own_comms_;  // this rank's numbers
};

bool is_call(const Event& event) { return event.record.kind <= Kind::wait; }

// The longest reason counts: of several messages the last to come.
void delay(Trace& trace, const Event& call, const char* why, int32_t rank, int64_t length) {
    int64_t error = trace.clock_error[call.rank] + trace.clock_error[rank];
    length = std::min(length, call.record.end - call.record.begin);
    if (rank == call.rank || length < kShortest || length < error) return;
    Delay& known = trace.delays[{call.rank, call.thread, call.record.begin}];
    if (length > known.length) known = {&call, why, rank, length};
}

using Key = std::tuple<uint32_t, int32_t, int32_t, int32_t, int64_t>;
Key key_of_send(const Event* e) {
    return {e->record.comm, e->rank, e->record.peer, e->record.tag, e->record.order};
}
Key key_of_receive(const Event* e) {
    return {e->record.comm, e->record.peer, e->rank, e->record.tag, e->record.order};
}
// Without the order.
auto envelope(const Key& key) {
    return std::tuple(std::get<0>(key), std::get<1>(key), std::get<2>(key), std::get<3>(key));
}

void match_messages(Trace& trace) {
    std::vector<const Event*> sends, receives;
    for (const Event& event : trace.events) {
        if (event.record.peer < 0) continue;
        Kind kind = event.record.kind;
        if (kind == Kind::send) sends.push_back(&event);
        if (kind == Kind::receive || kind == Kind::received) receives.push_back(&event);
    }
    auto sort = [](auto& list, auto key) {
        std::sort(list.begin(), list.end(),
                  [&](const Event* a, const Event* b) { return key(a) < key(b); });
    };
    sort(sends, key_of_send);
    sort(receives, key_of_receive);
    size_t s = 0, r = 0;
    while (s < sends.size() && r < receives.size()) {
        auto sent = envelope(key_of_send(sends[s]));
        auto received = envelope(key_of_receive(receives[r]));
        if (sent < received) ++trace.never_received, ++s;
        else if (received < sent) ++trace.never_sent, ++r;
        else trace.messages.push_back({sends[s++], receives[r++]});
    }
    trace.never_received += sends.size() - s;
    trace.never_sent += receives.size() - r;
}

void find_late_partners(Trace& trace) {
    std::map<std::pair<int32_t, int64_t>, const Event*> receive_of;  // by sender's rank and order
    bool waits_for_sends = std::any_of(trace.events.begin(), trace.events.end(),
                                       [](const Event& e) { return e.record.kind == Kind::sent; });
    for (const Message& message : trace.messages) {
        const Record& send = message.send->record;
        const Record& receive = message.receive->record;
        if (receive.end < send.begin) ++trace.backward;
        delay(trace, *message.receive, "late sender", message.send->rank,
              send.begin - receive.begin);
        // It was over before: the message had been taken along.
        if (send.end >= receive.order)
            delay(trace, *message.send, "late receiver", message.receive->rank,
                  receive.order - send.begin);
        if (waits_for_sends) receive_of[{message.send->rank, send.order}] = message.receive;
    }
    for (const Event& event : trace.events) {
        if (event.record.kind != Kind::sent) continue;
        auto found = receive_of.find({event.rank, event.record.order});
        if (found == receive_of.end()) continue;
        int64_t posted = found->second->record.order;
        if (event.record.end >= posted)
            delay(trace, event, "late receiver", found->second->rank, posted - event.record.begin);
    }
}

struct Meeting {
    int arrived = 0;
    int32_t last = 0;  // who came last, and when
    int64_t latest = INT64_MIN;
    int64_t root_came = INT64_MIN;
    int32_t root = kNobody;
    bool from_root = false, to_root = false;
};

bool has_word(std::string_view name, std::string_view word) { return name.find(word) != name.npos; }

void wait_in_meeting(Trace& trace, const Event& event, const Meeting& meeting) {
    if (meeting.to_root && event.rank != meeting.root) return;
    if (meeting.from_root) {
        if (event.rank != meeting.root && meeting.root_came != INT64_MIN)
            delay(trace, event, "late root", meeting.root, meeting.root_came - event.record.begin);
        return;
    }
    delay(trace, event, "late to collective", meeting.last, meeting.latest - event.record.begin);
}

// The n-th collective operation on a communicator is the n-th on all its ranks.
void find_late_members(Trace& trace) {
    std::map<std::pair<uint32_t, int32_t>, std::vector<const Event*>> called;
    for (const Event& event : trace.events)
        if (event.record.kind == Kind::collective && event.record.comm)
            called[{event.record.comm, event.rank}].push_back(&event);
    std::map<std::pair<uint32_t, size_t>, Meeting> meetings;
    std::map<std::pair<int32_t, int64_t>, std::pair<uint32_t, size_t>> meeting_of;
    for (auto& [where, list] : called) {
        std::sort(list.begin(), list.end(),
                  [](const Event* a, const Event* b) { return a->record.order < b->record.order; });
        for (size_t i = 0; i < list.size(); ++i) {
            const Event& event = *list[i];
            Meeting& meeting = meetings[{where.first, i}];
            std::string_view name = kNames[event.record.function];
            ++meeting.arrived;
            if (event.record.begin > meeting.latest)
                meeting.latest = event.record.begin, meeting.last = event.rank;
            meeting.root = event.record.peer;
            if (event.rank == meeting.root) meeting.root_came = event.record.begin;
            meeting.from_root = has_word(name, "cast") || has_word(name, "catter");
            if (has_word(name, "educe_scatter")) meeting.from_root = false;
            meeting.to_root = meeting.root >= 0 && !meeting.from_root;
            meeting_of[{event.rank, event.record.order}] = {where.first, i};
        }
    }
    for (const Event& event : trace.events) {
        if (event.record.kind != Kind::collective && event.record.kind != Kind::collected) continue;
        auto found = meeting_of.find({event.rank, event.record.order});
        if (found == meeting_of.end()) continue;
        const Meeting& meeting = meetings[found->second];
        std::string_view name = kNames[event.record.function];
        bool whole = meeting.arrived == trace.comms[found->second.first].size;
        // Of scans only lower ranks are waited for.
        if (whole && !has_word(name, "can")) wait_in_meeting(trace, event, meeting);
    }
}

const char* category(Kind kind) {
    switch (kind) {
    case Kind::send:
    case Kind::sent: return "send";
    case Kind::receive:
    case Kind::received: return "receive";
    case Kind::collective:
    case Kind::collected: return "collective";
    case Kind::wait: return "completion";
    default: return "call";
    }
}

void write_call(JsonFile& out, const Trace& trace, const Event& event, bool returned) {
    const Record& record = event.record;
    std::string_view kind = category(record.kind);
    out.event(returned ? "X" : "B", kNames[record.function], kind.data(), record.begin, event.rank,
              event.thread);
    if (returned) out.duration(record.end - record.begin);
    out.open("args");
    if (!returned) out.number("not returned", 1);
    if (record.comm) out.text("comm", trace.comms[record.comm].name);
    bool p2p = kind == "send" || kind == "receive";
    if (record.peer >= 0) out.number(kind == "collective" ? "root" : "peer", record.peer);
    else if (record.peer == kElsewhere) out.text("peer", "in another world");
    if (p2p) out.number("tag", record.tag);
    if (p2p || record.bytes) out.number("bytes", static_cast<int64_t>(record.bytes));
    if (record.repeats) out.number("tests in vain", record.repeats);
    out.close();
    out.end();
}

void write_delay(JsonFile& out, const Delay& delay) {
    std::string name = std::string(delay.why) + ": rank " + std::to_string(delay.rank);
    out.event("X", name, "waiting", delay.call->record.begin, delay.call->rank, delay.call->thread);
    out.duration(delay.length);
    out.open("args");
    out.number("for", delay.rank);
    out.text("why", delay.why);
    out.close();
    out.end();
}

void write_message(JsonFile& out, const Message& message, size_t number, bool sent) {
    const Event& event = sent ? *message.send : *message.receive;
    const Record& record = event.record;
    // The end binds to the call around it, so it lies inside.
    int64_t time = sent ? record.begin : std::max(record.begin, record.end - 1);
    out.event(sent ? "s" : "f", "message", "message", time, event.rank, event.thread);
    out.number("id", static_cast<int64_t>(number));
    if (!sent) out.text("bp", "e");
    out.open("args");
    out.number("bytes", static_cast<int64_t>(record.bytes));
    out.close();
    out.end();
}

// What stands in the trace, in order of time.
struct Entry {
    int64_t time;
    enum What : uint8_t { call, open, delayed, start, finish } what;
    size_t place;
};

std::vector<Entry> in_order(const Trace& trace, std::vector<const Delay*>& delays) {
    std::vector<Entry> out;
    for (size_t i = 0; i < trace.events.size(); ++i)
        if (is_call(trace.events[i])) out.push_back({trace.events[i].record.begin, Entry::call, i});
    for (size_t i = 0; i < trace.open.size(); ++i)
        out.push_back({trace.open[i].record.begin, Entry::open, i});
    for (const auto& [where, delay] : trace.delays) {
        if (!delay.call) continue;
        out.push_back({std::get<2>(where), Entry::delayed, delays.size()});
        delays.push_back(&delay);
    }
    for (size_t i = 0; i < trace.messages.size(); ++i) {
        const Record& received = trace.messages[i].receive->record;
        out.push_back({trace.messages[i].send->record.begin, Entry::start, i});
        out.push_back({std::max(received.begin, received.end - 1), Entry::finish, i});
    }
    // At the same time: a call before what is inside it, an outer call before an inner one.
    std::stable_sort(out.begin(), out.end(), [&](const Entry& a, const Entry& b) {
        if (a.time != b.time || a.what != b.what)
            return std::tie(a.time, a.what) < std::tie(b.time, b.what);
        return a.what == Entry::call &&
               trace.events[a.place].record.end > trace.events[b.place].record.end;
    });
    return out;
}

void write_processes(JsonFile& out, const Trace& trace) {
    for (const PartHeader& part : trace.parts) {
        std::string name = "rank " + std::to_string(part.rank) + " (" + part.host + ", pid " +
                           std::to_string(part.process) + ")";
        out.metadata("process_name", part.rank, "name", name);
        out.metadata("process_sort_index", part.rank, "sort_index", part.rank);
    }
}

bool write(const std::string& path, const Trace& trace) {
    JsonFile out(path);
    if (!out.good()) return false;
    std::vector<const Delay*> delays;
    std::vector<Entry> entries = in_order(trace, delays);
    out.begin(entries.empty() ? 0 : entries.front().time);
    write_processes(out, trace);
    for (const Entry& entry : entries) switch (entry.what) {
        case Entry::call: write_call(out, trace, trace.events[entry.place], true); break;
        case Entry::open: write_call(out, trace, trace.open[entry.place], false); break;
        case Entry::delayed: write_delay(out, *delays[entry.place]); break;
        case Entry::start:
        case Entry::finish:
            write_message(out, trace.messages[entry.place], entry.place + 1,
                          entry.what == Entry::start);
        }
    int64_t lost = 0, error = 0;
    for (const PartHeader& part : trace.parts) lost += static_cast<int64_t>(part.lost);
    for (const auto& [rank, each] : trace.clock_error) error = std::max(error, each);
    out.open("otherData", true);
    out.text("made by", "pomona trace");
    out.number("ranks", trace.parts.front().size);
    out.number("messages sent and never received", static_cast<int64_t>(trace.never_received));
    out.number("messages received and never sent", static_cast<int64_t>(trace.never_sent));
    out.number("messages that arrive before they are sent", static_cast<int64_t>(trace.backward));
    out.number("records lost", lost);
    out.number("error of clocks in ns", error);
    return out.finish();
}

// A job that was ended may have left files of ranks on other hosts; those are named so.
std::vector<std::string> part_files(const std::string& folder) {
    std::vector<std::string> out;
    DIR* directory = opendir(folder.c_str());
    if (!directory) return out;
    while (const dirent* entry = readdir(directory))
        if (std::string_view(entry->d_name).starts_with("rank-"))
            out.push_back(folder + "/" + entry->d_name);
    closedir(directory);
    std::sort(out.begin(), out.end());
    return out;
}

// Of one run: that of rank 0's file, or of the first there is.
void read_run(Trace& trace, const std::vector<std::string>& files) {
    uint64_t stamp = 0;
    for (const std::string& path : files) {
        Trace one;
        File file(std::fopen(path.c_str(), "rb"));
        PartHeader header{};
        if (!file || std::fread(&header, sizeof header, 1, file.get()) != 1) continue;
        if (stamp == 0 || header.rank == 0) stamp = header.stamp;
    }
    Reader reader(trace);
    for (const std::string& path : files) {
        PartHeader header{};
        File file(std::fopen(path.c_str(), "rb"));
        if (!file || std::fread(&header, sizeof header, 1, file.get()) != 1) continue;
        if (header.stamp == stamp) reader.read(path);
    }
    reader.name_comms();
}

}  // namespace

MergeResult merge(const std::string& file) {
    MergeResult result;
    std::string folder = parts_folder(file);
    std::vector<std::string> files = part_files(folder);
    Trace trace;
    read_run(trace, files);
    if (trace.parts.empty()) {
        result.remarks.push_back(folder + " holds no records of this version of Pomona");
        return result;
    }
    if (static_cast<int>(trace.parts.size()) < trace.parts.front().size)
        result.remarks.push_back(
            "the records of " +
            std::to_string(trace.parts.front().size - static_cast<int>(trace.parts.size())) +
            " ranks are missing in " + folder);
    match_messages(trace);
    find_late_partners(trace);
    find_late_members(trace);
    result.good = write(file, trace);
    if (!result.good) {
        result.remarks.push_back(file + " cannot be written: " + std::strerror(errno) +
                                 "; the records stay in " + folder);
        return result;
    }
    for (const std::string& path : files) unlink(path.c_str());
    rmdir(folder.c_str());
    return result;
}

}  // namespace pomona::trace
