// pmix/launch/frame_channel.h: frames over two descriptors of the event loop, or over a connection,
// as mpirun and its agents exchange them (agent_words.h).
#pragma once

#include "btl/tcp/socket.h"
#include "pmix/control.h"
#include "pmix/launch/agent_words.h"
#include "pmix/launch/forward.h"

#include <functional>
#include <string>

namespace pomona {

class FrameChannel {
public:
    // Takes ownership of both. With `greeting`, what comes before that line is kept as noise().
    FrameChannel(event_base* base, int in, int out, std::string_view greeting);
    FrameChannel(event_base* base, tcp::Socket socket, std::string_view greeting);
    ~FrameChannel();

    void send(AgentWord word, const Writer& payload = {});
    void send_text(std::string_view text);
    bool closed() const { return closed_; }
    const std::string& noise() const { return noise_; }
    // Reads what is there, and waits no more.
    void read_some();
    void shut();  // without a call of on_closed

    std::function<void(AgentWord word, Reader& payload)> on_frame;
    // The other end is gone, or talks nonsense (`why` is "" or says so). Called once.
    std::function<void(const std::string& why)> on_closed;

private:
    void begin(event_base* base);
    // As the system's calls.
    ssize_t take(std::byte* buffer, size_t length);
    ssize_t give(const char* bytes, size_t length);
    void flush();
    void close_both(const std::string& why);
    ConstBytes skip_noise(ConstBytes bytes);

    tcp::Socket socket_;  // closed: there are two descriptors
    int in_, out_descriptor_;
    std::string greeting_, noise_;
    bool closed_ = false;
    ControlParser parser_;
    std::string out_;
    EventPtr readable_, writable_;
};

}  // namespace pomona
