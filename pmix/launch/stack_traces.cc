// pmix/launch/stack_traces.cc: see stack_traces.h.
#include "pmix/launch/stack_traces.h"

#include "btl/base/clock.h"
#include "btl/base/format.h"
#include "btl/base/messages.h"
#include "pmix/launch/agent.h"
#include "pmix/launch/spawn.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace pomona {

namespace {
constexpr size_t kAtOnce = 4;
constexpr size_t kOutputMax = 1 << 20;

double steady_now() { return static_cast<double>(RealClock().now()) * 1e-9; }

// The command line of the first debugger that there is; false: none.
bool find_debugger(SpawnRequest& request, pid_t process) {
    struct Known {
        const char* name;
        std::vector<std::string> arguments;  // before or after the process's number
        bool number_last;
    };
    static const std::vector<Known> known = {
        {"gdb", {"-nx", "-batch", "-ex", "thread apply all backtrace", "-p"}, true},
        {"eu-stack", {"-p"}, true},
        {"pstack", {}, true},
        {"sample", {"1", "-mayDie"}, false},
    };
    for (const Known& each : known) {
        request.path = find_program(each.name, "", request.environment);
        if (request.path.empty()) continue;
        request.arguments = {each.name};
        request.arguments.insert(request.arguments.end(), each.arguments.begin(),
                                 each.arguments.end());
        auto place = each.number_last ? request.arguments.end() : request.arguments.begin() + 1;
        request.arguments.insert(place, std::to_string(process));
        return true;
    }
    return false;
}
}  // namespace

void StackTraces::end_all() {
    waiting_.clear();
    for (Debugger& each : running_) {
        if (each.pid > 0) kill(-each.pid, SIGKILL);
        each.readable.reset();
        close(each.output);
    }
    running_.clear();
}

void StackTraces::ask(event_base* base, const char* const* environment, pid_t process,
                      Answer answer) {
    base_ = base;
    environment_ = environment;
    if (running_.empty() && waiting_.empty()) all_until_ = steady_now() + all_seconds_;
    waiting_.push_back({process, std::move(answer)});
    begin_more();
    for (Debugger& each : running_) limit(each, running_.size() + waiting_.size());
}

bool StackTraces::reap(pid_t process) {
    auto found = std::find_if(running_.begin(), running_.end(),
                              [&](const Debugger& each) { return each.pid == process; });
    if (found == running_.end()) return false;
    found->pid = -1;
    return true;  // its output may go on, by what it has started
}

void StackTraces::begin_more() {
    while (!waiting_.empty() && running_.size() < kAtOnce) {
        Question question = std::move(waiting_.front());
        waiting_.pop_front();
        if (steady_now() > all_until_)
            question.answer(format(messages::no_time_for_stacks, all_seconds_));
        else begin(std::move(question));
    }
}

void StackTraces::begin(Question question) {
    SpawnRequest request;
    for (const char* const* entry = environment_; entry && *entry; ++entry)
        request.environment.emplace_back(*entry);
    if (!find_debugger(request, question.process))
        return question.answer(messages::no_stack_program);
    int read_end = -1, write_end = -1;
    if (!make_pipe(read_end, write_end)) return question.answer(os_text(errno) + "\n");
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    request.input = nothing;
    request.output = request.error = write_end;
    auto started = spawn(request);
    close(write_end);
    if (nothing >= 0) close(nothing);
    if (!started.ok()) {
        close(read_end);
        return question.answer(started.error().text() + "\n");
    }
    fcntl(read_end, F_SETFL, O_NONBLOCK);
    Debugger& debugger = running_.emplace_back();
    debugger.owner = this;
    debugger.pid = *started;
    debugger.output = read_end;
    debugger.begun = steady_now();
    debugger.name = request.arguments[0];
    debugger.answer = std::move(question.answer);
    auto readable = [](int, short, void* data) {
        auto* self = static_cast<Debugger*>(data);
        self->owner->read_some(*self);
    };
    auto late = [](int, short, void* data) {
        auto* self = static_cast<Debugger*>(data);
        self->owner->finish(*self, cut_off(*self));
    };
    debugger.readable.reset(event_new(base_, read_end, EV_READ | EV_PERSIST, readable, &debugger));
    event_add(debugger.readable.get(), nullptr);
    debugger.deadline.reset(event_new(base_, -1, EV_TIMEOUT, late, &debugger));
    limit(debugger, waiting_.size() + 1);
}

// Its time ends when that of those who come after it must begin, kAtOnce at a time. `unseen` are it
// and these.
void StackTraces::limit(Debugger& debugger, size_t unseen) {
    double rounds = static_cast<double>((unseen + kAtOnce - 1) / kAtOnce);
    double seconds = (all_until_ - debugger.begun) / rounds;
    if (debugger.seconds > 0 && seconds >= debugger.seconds) return;
    debugger.seconds = seconds;
    double left = std::max(debugger.begun + seconds - steady_now(), 0.001);
    timeval delay{};
    delay.tv_sec = static_cast<time_t>(left);
    delay.tv_usec = static_cast<suseconds_t>((left - static_cast<double>(delay.tv_sec)) * 1e6);
    event_add(debugger.deadline.get(), &delay);
}

std::string StackTraces::cut_off(const Debugger& debugger) {
    return format(messages::debugger_cut_off, debugger.name, debugger.seconds);
}

void StackTraces::read_some(Debugger& debugger) {
    char buffer[16384];
    ssize_t count = read(debugger.output, buffer, sizeof buffer);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (count <= 0) return finish(debugger, "");
    if (debugger.text.size() < kOutputMax) debugger.text.append(buffer, static_cast<size_t>(count));
}

void StackTraces::finish(Debugger& debugger, const std::string& last) {
    if (debugger.pid > 0) kill(-debugger.pid, SIGKILL);
    debugger.readable.reset();
    close(debugger.output);
    std::string text = std::move(debugger.text) + last;
    Answer answer = std::move(debugger.answer);
    running_.remove_if([&](const Debugger& each) { return &each == &debugger; });
    answer(text);
    begin_more();
}

}  // namespace pomona
