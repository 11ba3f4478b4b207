// pmix/launch/frame_channel.h: frames over two descriptors of the event loop, as mpirun and its agents
// exchange them (agent_words.h).
#pragma once

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
    void flush();
    void close_both(const std::string& why);
    ConstBytes skip_noise(ConstBytes bytes);

    int in_, out_descriptor_;
    std::string greeting_, noise_;
    bool closed_ = false;
    ControlParser parser_;
    std::string out_;
    EventPtr readable_, writable_;
};

}  // namespace pomona
