// pmix/launch/stack_traces.h: the calls in which processes are, for a job that has run out of time.
// Idea: the system's debugger is a child of the event loop like the ranks: mpirun and its agents go
// on meanwhile. A few run at once. All together have a minute: each as much of what is left as
// those that are still to come leave it, for a debugger may read symbols for half of that.
#pragma once

#include "pmix/launch/forward.h"

#include <deque>
#include <functional>
#include <list>
#include <string>

#include <sys/types.h>

namespace pomona {

class StackTraces {
public:
    using Answer = std::function<void(const std::string&)>;
    // All that are asked for together have so long.
    explicit StackTraces(double all_seconds = 60) : all_seconds_(all_seconds) {}
    ~StackTraces() { end_all(); }
    StackTraces(const StackTraces&) = delete;
    StackTraces& operator=(const StackTraces&) = delete;

    // Answers, later, with what the debugger shows of this process, or why there is nothing to see.
    void ask(event_base* base, const char* const* environment, pid_t process, Answer answer);
    // Ends all, without answers: a process that a debugger holds cannot be reaped.
    void end_all();
    // A child has been reaped: was it one of these?
    bool reap(pid_t process);

private:
    struct Question {
        pid_t process;
        Answer answer;
    };
    struct Debugger {
        StackTraces* owner = nullptr;
        pid_t pid = -1;  // -1: reaped
        int output = -1;
        double begun = 0, seconds = 0;  // it has
        std::string name, text;
        Answer answer;
        EventPtr readable, deadline;
    };
    void begin_more();
    void begin(Question question);
    void read_some(Debugger& debugger);
    void finish(Debugger& debugger, const std::string& last);
    void limit(Debugger& debugger, size_t unseen);
    static std::string cut_off(const Debugger& debugger);

    double all_seconds_;
    event_base* base_ = nullptr;
    const char* const* environment_ = nullptr;
    double all_until_ = 0;
    std::deque<Question> waiting_;
    std::list<Debugger> running_;
};

}  // namespace pomona
