// pmix/launch/listener.cc: see listener.h.
#include "pmix/launch/listener.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace pomona {

namespace {
constexpr timeval kPause{0, 50000};

int accept_one(int listener) {
#if defined(__linux__)
    return accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
#else
    int descriptor = accept(listener, nullptr, nullptr);
    if (descriptor >= 0) {
        fcntl(descriptor, F_SETFD, FD_CLOEXEC);
        fcntl(descriptor, F_SETFL, O_NONBLOCK);
    }
    return descriptor;
#endif
}
}  // namespace

Listener::~Listener() {
    readable_.reset();
    if (descriptor_ >= 0) close(descriptor_);
}

void Listener::start(event_base* base, int descriptor, std::function<void(int)> on_connection) {
    base_ = base;
    descriptor_ = descriptor;
    on_connection_ = std::move(on_connection);
    auto take = [](int, short, void* data) {
        auto* self = static_cast<Listener*>(data);
        self->accept_all();
        if (self->on_round) self->on_round();
    };
    readable_.reset(event_new(base, descriptor, EV_READ | EV_PERSIST, take, this));
    resume_.reset(event_new(
        base, -1, EV_TIMEOUT,
        [](int, short, void* data) {
            event_add(static_cast<Listener*>(data)->readable_.get(), nullptr);
        },
        this));
    event_add(readable_.get(), nullptr);
}

void Listener::accept_all() {
    if (descriptor_ < 0) return;
    int accepted = -1;
    while ((accepted = accept_one(descriptor_)) >= 0) on_connection_(accepted);
    if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM) return;
    event_del(readable_.get());
    timeval pause = kPause;
    event_add(resume_.get(), &pause);
}

}  // namespace pomona
