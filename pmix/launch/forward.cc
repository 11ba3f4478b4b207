// pmix/launch/forward.cc: see forward.h.
#include "pmix/launch/forward.h"

#include "btl/base/format.h"
#include "pmix/launch/read_buffer.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <ctime>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

namespace pomona {

namespace {
// A writable pipe takes this much without blocking (macOS: 512); the descriptor is shared with
// whoever started us, so it must not be made non-blocking.
constexpr size_t kPieceMax = PIPE_BUF;
constexpr size_t kLineMax = 1u << 20;    // a longer line is cut
constexpr size_t kFarMost = 128u << 10;  // of input on its way to a rank on another host
constexpr timeval kPartialDelay{0, 100000};

EventPtr make_event(event_base* base, int descriptor, short what, event_callback_fn function,
                    void* data) {
    return EventPtr(event_new(base, descriptor, what, function, data));
}

std::string time_now() {
    timeval now{};
    gettimeofday(&now, nullptr);
    tm parts{};
    time_t seconds = now.tv_sec;
    localtime_r(&seconds, &parts);
    char text[40];
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
    char milliseconds[16];
    snprintf(milliseconds, sizeof milliseconds, ".%03d ", static_cast<int>(now.tv_usec / 1000));
    return std::string(text) + milliseconds;
}
}  // namespace

Output::Output(event_base* base, int descriptor, bool closed)
    : descriptor_(descriptor), closed_(closed) {
    struct stat status {};
    regular_file_ = fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
    terminal_ = isatty(descriptor) == 1;
    if (!regular_file_ && !closed)
        writable_ = make_event(
            base, descriptor, EV_WRITE,
            [](int, short, void* self) { static_cast<Output*>(self)->flush(); }, this);
}

void Output::write(std::string_view text, const void* writer) {
    if (broken_ || text.empty()) return;
    if (open_line_ && open_line_ != writer) pending_ += '\n';
    pending_ += text;
    open_line_ = text.back() == '\n' || text.back() == '\r' ? nullptr : writer;
    flush();
}

void Output::flush() {
    bool was_congested = congested();
    int failure = 0;
    if (closed_ && !idle()) broken_ = true, failure = EBADF;
    while (!idle() && !broken_) {
        size_t size = pending_.size() - sent_;
        if (!regular_file_) {
            pollfd entry{descriptor_, POLLOUT, 0};
            if (poll(&entry, 1, 0) != 1) break;
            size = std::min(size, kPieceMax);
        }
        ssize_t count = ::write(descriptor_, pending_.data() + sent_, size);
        if (count > 0) sent_ += static_cast<size_t>(count);
        else if (count < 0 && errno == EAGAIN) break;
        else if (count < 0 && errno != EINTR) {
            broken_ = true;
            failure = errno;
            unread_ = failure == EPIPE;
        }
    }
    if (idle() || broken_) {
        pending_.clear();
        sent_ = 0;
    } else {
        if (sent_ > (1u << 20)) {
            pending_.erase(0, sent_);
            sent_ = 0;
        }
        event_add(writable_.get(), nullptr);
    }
    if (was_congested && !congested() && on_relief) on_relief();
    if (failure && failure != EPIPE && on_failure) on_failure(failure);
    if (finished_ && idle()) close_file();
}

void Output::finish() {
    finished_ = true;
    if (idle()) close_file();
}

// File systems of other machines may say only now that they had no room.
void Output::close_file() {
    if (descriptor_ < 0) return;
    writable_.reset();
    bool failed = close(std::exchange(descriptor_, -1)) != 0 && errno != EINTR;
    if (!failed || broken_) return;
    broken_ = true;
    if (on_failure) on_failure(errno);
}

RankStream::RankStream(event_base* base, int descriptor, Output& output, ForwardOptions options)
    : base_(base), descriptor_(descriptor), output_(output), options_(std::move(options)) {
    fcntl(descriptor, F_SETFL, O_NONBLOCK);
    readable_ = make_event(
        base, descriptor, EV_READ | EV_PERSIST,
        [](int, short, void* self) { static_cast<RankStream*>(self)->read_some(); }, this);
    event_add(readable_.get(), nullptr);
}

RankStream::RankStream(event_base* base, Output& output, ForwardOptions options,
                       std::function<void(size_t)> taken)
    : base_(base), descriptor_(-1), output_(output), options_(std::move(options)),
      taken_(std::move(taken)) {}

void RankStream::feed(std::string_view bytes) {
    if (ended_) return;
    if (output_.broken()) return stop_reading();
    take(bytes);
    untold_ += bytes.size();
    if (!output_.congested()) taken_(std::exchange(untold_, 0));
}

// Of a rank on another host: the agent closes its pipe, and the rank gets SIGPIPE as it would
// alone.
void RankStream::stop_reading() {
    taken_(kNobodyReads);
    close_stream();
}

RankStream::~RankStream() {
    readable_.reset();
    if (descriptor_ >= 0) close(descriptor_);
}

void RankStream::read_some() {
    ReadBuffer buffer;
    for (int i = 0; i < 4 && descriptor_ >= 0; ++i) {
        if (output_.broken()) return close_stream();  // the rank gets SIGPIPE, as it would alone
        if (output_.congested()) {
            event_del(readable_.get());
            return;
        }
        ssize_t count = read(descriptor_, buffer.data(), buffer.kSize);
        if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (count <= 0) return close_stream();
        take(buffer.first(count));
        if (static_cast<size_t>(count) < buffer.kSize) return;
    }
}

void RankStream::take(std::string_view bytes) {
    if (on_first) std::exchange(on_first, nullptr)();
    if (on_bytes) on_bytes(bytes);
    if (options_.raw) return output_.write(bytes, this);
    bool decorated = !options_.tag.empty() || options_.timestamp;
    while (!bytes.empty()) {
        // A carriage return ends a line too: progress bars live by it.
        size_t end = bytes.find_first_of("\n\r");
        if (end == bytes.npos) {
            line_ += bytes;
            if (line_.size() > kLineMax) flush_partial();
            break;
        }
        // All whole lines at once, unless each needs its beginning.
        if (!decorated) end = bytes.find_last_of("\n\r");
        line_ += bytes.substr(0, end + 1);
        bytes.remove_prefix(end + 1);
        write_line(line_);
        line_.clear();
    }
    if (!line_.empty() && output_.terminal()) {
        if (!partial_timer_)
            partial_timer_ = make_event(
                base_, -1, EV_TIMEOUT,
                [](int, short, void* self) { static_cast<RankStream*>(self)->flush_partial(); },
                this);
        timeval delay = kPartialDelay;
        event_add(partial_timer_.get(), &delay);
    }
}

void RankStream::write_line(std::string_view line) {
    if (options_.tag.empty() && !options_.timestamp) return output_.write(line, this);
    std::string text = options_.timestamp ? time_now() : "";
    text += options_.tag;
    text += line;
    output_.write(text, this);
}

void RankStream::flush_partial() {
    if (line_.empty()) return;
    write_line(line_);
    line_.clear();
}

void RankStream::close_stream() {
    if (!open()) return;
    // The last line of a rank may lack its end; others' lines must not be glued to it.
    if (!line_.empty() && !options_.raw) line_ += '\n';
    flush_partial();
    readable_.reset();
    partial_timer_.reset();
    if (descriptor_ >= 0) close(descriptor_);
    descriptor_ = -1;
    ended_ = true;
    if (on_close) on_close();
}

// No more than is there now: a process that outlives its rank may write for ever.
void RankStream::finish() {
    int there = 0;
    if (descriptor_ < 0 || ioctl(descriptor_, FIONREAD, &there) != 0) there = 0;
    ReadBuffer buffer;
    while (descriptor_ >= 0 && there > 0) {
        ssize_t count =
            read(descriptor_, buffer.data(), std::min(buffer.kSize, static_cast<size_t>(there)));
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) break;
        there -= static_cast<int>(count);
        take(buffer.first(count));
    }
    close_stream();
}

void RankStream::resume() {
    if (taken_ && !ended_ && output_.broken()) return stop_reading();
    if (untold_ > 0 && !ended_) taken_(std::exchange(untold_, 0));
    if (descriptor_ < 0) return;
    if (output_.broken()) return close_stream();
    event_add(readable_.get(), nullptr);
}

InputCopier::InputCopier(event_base* base, std::vector<int> targets, std::vector<Far> far) {
    for (Far& each : far) far_.push_back({std::move(each)});
    for (int target : targets) {
        fcntl(target, F_SETFL, O_NONBLOCK);
        targets_.push_back({target, {}, nullptr});
    }
    for (size_t i = 0; i < targets_.size(); ++i)
        targets_[i].writable = make_event(
            base, targets_[i].descriptor, EV_WRITE | EV_PERSIST,
            [](int, short, void* self) {
                auto* copier = static_cast<InputCopier*>(self);
                for (size_t k = 0; k < copier->targets_.size(); ++k) copier->send(k);
                copier->update();
            },
            this);
    struct stat status {};
    // Files, and devices like /dev/null, are always readable, and no event mechanism watches them.
    bool watched =
        fstat(0, &status) != 0 || S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode) || isatty(0);
    regular_file_ = !watched;
    auto read = [](int, short, void* self) { static_cast<InputCopier*>(self)->read_some(); };
    readable_ = make_event(base, 0, EV_READ | EV_PERSIST, read, this);
    poller_ = make_event(base, -1, EV_TIMEOUT, read, this);
    update();
}

InputCopier::~InputCopier() {
    for (Target& target : targets_) {
        target.writable.reset();
        if (target.descriptor >= 0) close(target.descriptor);
    }
}

void InputCopier::resume() { update(); }

void InputCopier::taken(int rank, size_t bytes) {
    for (FarTarget& target : far_)
        if (target.far.rank == rank) target.on_the_way -= std::min(bytes, target.on_the_way);
    update();
}

void InputCopier::closed(int rank) {
    for (FarTarget& target : far_)
        if (target.far.rank == rank) target.closed = true;
    update();
}

void InputCopier::read_some() {
    // A background process that reads its terminal is stopped: only read when we are in front.
    // (-1: a terminal, but not the one that controls us.)
    pid_t front = isatty(0) ? tcgetpgrp(0) : -1;
    if (front >= 0 && front != getpgrp()) {
        event_del(readable_.get());
        return;
    }
    ReadBuffer buffer;
    ssize_t count = read(0, buffer.data(), buffer.kSize);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return update();
    if (count <= 0) ended_ = true;
    else
        for (Target& target : targets_)
            if (target.descriptor >= 0) target.pending.append(buffer.first(count));
    for (size_t i = 0; i < targets_.size(); ++i) send(i);
    for (FarTarget& target : far_) {
        if (target.closed) continue;
        std::string_view bytes = buffer.first(std::max<ssize_t>(count, 0));
        target.far.send(bytes);
        target.on_the_way += bytes.size();
        target.closed = bytes.empty();
    }
    update();
}

void InputCopier::send(size_t index) {
    Target& target = targets_[index];
    while (target.descriptor >= 0 && !target.pending.empty()) {
        ssize_t count = write(target.descriptor, target.pending.data(), target.pending.size());
        if (count < 0 && errno == EINTR) continue;
        if (count < 0 && errno == EAGAIN) break;
        if (count < 0) {  // this rank reads no more
            target.writable.reset();
            close(target.descriptor);
            target.descriptor = -1;
            break;
        }
        target.pending.erase(0, static_cast<size_t>(count));
    }
}

// Which events are wanted now: reading while no rank lags, writing while bytes wait.
void InputCopier::update() {
    bool lagging = false, wanted = false;
    for (Target& target : targets_) {
        if (target.descriptor < 0) continue;
        if (target.pending.empty() && ended_) {
            target.writable.reset();
            close(target.descriptor);
            target.descriptor = -1;
            continue;
        }
        wanted = true;
        lagging = lagging || !target.pending.empty();
        if (target.pending.empty()) event_del(target.writable.get());
        else event_add(target.writable.get(), nullptr);
    }
    for (const FarTarget& target : far_) {
        wanted = wanted || !target.closed;
        lagging = lagging || (!target.closed && target.on_the_way > kFarMost);
    }
    if (!wanted || lagging || ended_) {
        event_del(readable_.get());
        return;
    }
    timeval now{0, 0};
    if (regular_file_) event_add(poller_.get(), &now);  // epoll refuses it
    else event_add(readable_.get(), nullptr);
}

}  // namespace pomona
