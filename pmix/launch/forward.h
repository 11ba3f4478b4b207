// pmix/launch/forward.h: the output of the ranks on mpirun's own streams, and standard input to
// them.
// Idea: a line of one rank is never cut by another's. Lines are collected per rank and stream and
// written whole; a half line waits, unless a person looks on (a terminal), where it is shown after
// a moment so that prompts and progress bars work. When our own reader is slow the ranks' pipes
// are not read, so they wait too.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <event2/event.h>

namespace pomona {

struct EventFree {
    void operator()(event* e) const { event_free(e); }
};
using EventPtr = std::unique_ptr<event, EventFree>;

// One of mpirun's own output streams, or a file for a rank's.
class Output {
public:
    // `closed`: mpirun was started without this stream, and what is written to it is lost.
    Output(event_base* base, int descriptor, bool closed = false);

    // `writer` tells lines of one stream from another's when a half line is open.
    void write(std::string_view text, const void* writer);
    // Of a file: no more will come, and it is closed as soon as all has been written.
    void finish();
    bool congested() const { return pending_.size() - sent_ > (1u << 20); }
    bool idle() const { return pending_.size() == sent_; }
    bool broken() const { return broken_; }  // the reader is gone, or on_failure was called
    bool unread() const { return unread_; }  // it is gone, and something was left for it
    bool terminal() const { return terminal_; }

    std::function<void()> on_relief;  // no longer congested, or broken
    // What is written is lost for another reason than a reader that has gone: a full disk.
    std::function<void(int error)> on_failure;

private:
    void flush();
    void close_file();

    int descriptor_;
    bool terminal_, regular_file_;
    bool broken_ = false, unread_ = false, closed_, finished_ = false;
    std::string pending_;
    size_t sent_ = 0;
    const void* open_line_ = nullptr;  // whose half line is at the end of what was written
    EventPtr writable_;
};

struct ForwardOptions {
    std::string tag;  // "[3]<stdout>: " or empty
    bool timestamp = false;
    bool raw = false;  // the only writer: bytes pass as they come
};

// One output stream of one rank.
class RankStream {
public:
    RankStream(event_base* base, int descriptor, Output& output, ForwardOptions options);
    // Of a rank on another host: its bytes come by feed(), and `taken` is told of those that are on
    // their way, so that more may come.
    RankStream(event_base* base, Output& output, ForwardOptions options,
               std::function<void(size_t)> taken);
    ~RankStream();

    static constexpr size_t kNobodyReads = 0xffffffff;  // instead of what was taken
    void feed(std::string_view bytes);
    void end() { close_stream(); }  // no more will come

    bool open() const { return descriptor_ >= 0 || (taken_ && !ended_); }
    // Takes what is there now, and gives up what is written later.
    void finish();
    // Resumes after the output's congestion is over.
    void resume();
    std::function<void()> on_close;
    std::function<void()> on_first;  // before the first bytes
    std::function<void(std::string_view bytes)> on_bytes;

private:
    void read_some();
    void take(std::string_view bytes);
    void write_line(std::string_view line);
    void flush_partial();
    void close_stream();
    void stop_reading();

    event_base* base_;
    int descriptor_;
    Output& output_;
    ForwardOptions options_;
    std::string line_;
    std::function<void(size_t)> taken_;
    size_t untold_ = 0;  // taken while the output was congested
    bool ended_ = false;
    EventPtr readable_, partial_timer_;
};

// mpirun's standard input, copied to one or several ranks.
class InputCopier {
public:
    // Of a rank on another host; `send` with no bytes is the end.
    struct Far {
        int rank;
        std::function<void(std::string_view bytes)> send;
    };
    // Takes ownership of the write ends.
    InputCopier(event_base* base, std::vector<int> targets, std::vector<Far> far);
    ~InputCopier();
    void resume();  // after SIGCONT: perhaps the terminal is ours now
    // A rank on another host has read so much; or reads no more.
    void taken(int rank, size_t bytes);
    void closed(int rank);

private:
    void read_some();
    void send(size_t index);
    void update();

    struct Target {
        int descriptor;
        std::string pending;
        EventPtr writable;
    };
    struct FarTarget {
        Far far;
        size_t on_the_way = 0;
        bool closed = false;
    };
    std::vector<Target> targets_;
    std::vector<FarTarget> far_;
    EventPtr readable_;
    EventPtr poller_;  // for regular files, which no event mechanism watches
    bool regular_file_ = false;
    bool ended_ = false;
};

}  // namespace pomona
