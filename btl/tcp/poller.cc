// btl/tcp/poller.cc: see poller.h. Level-triggered in both systems: what is not read stays ready.
#include "btl/tcp/poller.h"

#include <algorithm>
#include <fcntl.h>
#include <unistd.h>
#include <cstdint>
#include <utility>
#if defined(__linux__)
#include <sys/epoll.h>
#else
#include <sys/event.h>
#include <sys/time.h>
#endif

namespace pomona::tcp {

static constexpr int kReadyMost = 64;  // answers to one question

Poller::Poller(Poller&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
Poller::~Poller() {
    if (descriptor_ >= 0) close(descriptor_);
}

#if defined(__linux__)

Result<Poller> Poller::make() {
    Poller made(epoll_create1(EPOLL_CLOEXEC));
    if (made.descriptor_ < 0) return os_error(Code::io, "Cannot make an epoll set");
    return made;
}

static Status control(int set, int what, int socket, void* token, bool output) {
    epoll_event event{};
    event.events = EPOLLIN | (output ? EPOLLOUT : 0u);
    event.data.ptr = token;
    if (epoll_ctl(set, what, socket, &event) != 0)
        return os_error(Code::io, "Cannot watch a socket");
    return {};
}

Status Poller::add(int socket, void* token) {
    return control(descriptor_, EPOLL_CTL_ADD, socket, token, false);
}
Status Poller::change(int socket, void* token, bool output) {
    return control(descriptor_, EPOLL_CTL_MOD, socket, token, output);
}
void Poller::remove(int socket) {
    epoll_event ignored{};
    // One that is not there needs no removing.
    if (epoll_ctl(descriptor_, EPOLL_CTL_DEL, socket, &ignored) != 0) return;
}

int Poller::ready(void** tokens, int most) {
    epoll_event events[kReadyMost];
    int found = epoll_wait(descriptor_, events, std::min(most, kReadyMost), 0);
    for (int i = 0; i < found; ++i) tokens[i] = events[i].data.ptr;
    return std::max(found, 0);
}

#else

Result<Poller> Poller::make() {
    Poller made(kqueue());
    if (made.descriptor_ < 0) return os_error(Code::io, "Cannot make a kqueue");
    fcntl(made.descriptor_, F_SETFD, FD_CLOEXEC);
    return made;
}

Status Poller::add(int socket, void* token) { return change(socket, token, false); }
Status Poller::change(int socket, void* token, bool output) {
    struct kevent changes[2];
    auto name = static_cast<uintptr_t>(socket);
    EV_SET(&changes[0], name, EVFILT_READ, EV_ADD, 0, 0, token);
    EV_SET(&changes[1], name, EVFILT_WRITE, output ? EV_ADD : EV_DELETE, 0, 0, token);
    if (kevent(descriptor_, &changes[0], 1, nullptr, 0, nullptr) != 0)
        return os_error(Code::io, "Cannot watch a socket");
    // What was not watched for need not be given up.
    if (kevent(descriptor_, &changes[1], 1, nullptr, 0, nullptr) != 0 && errno != ENOENT)
        return os_error(Code::io, "Cannot watch a socket");
    return {};
}
void Poller::remove(int socket) {
    auto name = static_cast<uintptr_t>(socket);
    for (auto filter : {EVFILT_READ, EVFILT_WRITE}) {
        struct kevent change;
        EV_SET(&change, name, filter, EV_DELETE, 0, 0, nullptr);
        if (kevent(descriptor_, &change, 1, nullptr, 0, nullptr) != 0) continue;
    }
}

int Poller::ready(void** tokens, int most) {
    struct kevent events[kReadyMost];
    timespec at_once{};
    int found = kevent(descriptor_, nullptr, 0, events, std::min(most, kReadyMost), &at_once);
    for (int i = 0; i < found; ++i) tokens[i] = events[i].udata;
    return std::max(found, 0);
}

#endif

}  // namespace pomona::tcp
