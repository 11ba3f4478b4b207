// btl/tcp/poller.h: which of many sockets have something to read: epoll on Linux, kqueue on macOS.
// Idea: sockets are added once and stay in the kernel's set, so that a question costs what there is
// to answer, not what is watched. The set's own descriptor becomes readable when a socket in it is
// ready: the Sleeper watches that one.
#pragma once

#include "btl/base/result.h"

namespace pomona::tcp {

// What an entry of the Poller belongs to.
struct Watched {
    enum class Kind { listener, stranger, endpoint } kind;
};

class Poller {
public:
    static Result<Poller> make();
    Poller(Poller&& other) noexcept;
    Poller& operator=(Poller&& other) = delete;
    ~Poller();

    int descriptor() const { return descriptor_; }
    // `token` comes back from ready(). A socket leaves the set when it is closed.
    Status add(int socket, void* token);
    // Its token has changed, or whether room for output is waited for too.
    Status change(int socket, void* token, bool output);
    void remove(int socket);
    // The tokens of sockets that are ready, `most` at the most; those not returned come first next
    // time. Does not wait.
    int ready(void** tokens, int most);

private:
    explicit Poller(int descriptor) : descriptor_(descriptor) {}
    int descriptor_;
};

}  // namespace pomona::tcp
