// btl/self.cc: a queue in memory. Frames are copied in by push and handed out by poll, like those
// of every other transport; bounded, so that a rank flooding itself is told to wait.
#include "btl/self.h"

#include <deque>

namespace pomona {
namespace {

constexpr size_t kQueuedMax = 4 << 20;  // bytes waiting before push says busy

struct Frame {
    FrameHeader header;
    std::vector<std::byte> payload;
};

class SelfTransport final : public Transport, public Endpoint {
public:
    explicit SelfTransport(int rank) : rank_(rank) { caps_ = {64, 64 << 10, 1 << 20}; }

    const char* name() const override { return "self"; }
    std::vector<std::byte> address() const override { return {}; }
    Result<Endpoint*> connect(int peer, ConstBytes) override {
        if (peer != rank_) return Error{Code::unsupported, "Reaches only this process", peer};
        return static_cast<Endpoint*>(this);
    }

    Push push(const FrameHeader& header, ConstBytes payload) override {
        if (queued_ > kQueuedMax) return Push::busy;
        queue_.push_back({header, {payload.begin(), payload.end()}});
        queued_ += payload.size() + sizeof(Frame);
        return Push::sent;
    }
    Push push_fill(const FrameHeader& header, size_t length, FillFunction fill,
                   void* context) override {
        if (queued_ > kQueuedMax) return Push::busy;
        queue_.push_back({header, std::vector<std::byte>(length)});
        queued_ += length + sizeof(Frame);
        fill(context, queue_.back().payload);
        return Push::sent;
    }

    int poll(Sink& sink, int most) override { return queue_.empty() ? 0 : hand_out(sink, most); }
    bool arm() override { return queue_.empty(); }
    void disarm() override {}

private:
    int hand_out(Sink& sink, int most) {
        int handed = 0;
        while (handed < most && !queue_.empty()) {
            Frame frame = std::move(queue_.front());
            queue_.pop_front();
            queued_ -= frame.payload.size() + sizeof(Frame);
            sink.arrive(rank_, frame.header, frame.payload);
            ++handed;
        }
        return handed;
    }

    int rank_;
    size_t queued_ = 0;
    std::deque<Frame> queue_;
};

}  // namespace

std::unique_ptr<Transport> make_self_transport(int rank) {
    return std::make_unique<SelfTransport>(rank);
}

}  // namespace pomona
