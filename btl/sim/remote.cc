// btl/sim/remote.cc: turns as a rank sees them.
#include "btl/sim/remote.h"

#include "btl/base/log.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

namespace pomona::sim {

// What a rank may push in one turn; then its line is busy, as a socket is when its buffer is full.
static constexpr size_t kPushedMost = 4 << 20;
static constexpr size_t kEagerMost = 16 << 10, kFragmentMost = 64 << 10;
// Tests in vain take longer and longer, since each costs two changes of processes; what arrives
// ends them.
static constexpr Nanoseconds kTestLeast = 100, kTestMost = 1'000'000;

static Nanoseconds processor_time() {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

class RemoteTransport final : public Transport {
public:
    explicit RemoteTransport(Remote& remote) : remote_(remote) {
        size_t ranks = remote.beginning().hosts.size();
        for (size_t to = 0; to < ranks; ++to) ways_.emplace_back(*this, static_cast<int>(to));
    }
    ~RemoteTransport() override {
        remote_.channel_->put({.word = Word::leave, .worked = remote_.turn_ns()});
        remote_.channel_->flush();
        remote_.channel_.reset();
    }
    const char* name() const override { return "simulated"; }
    std::vector<std::byte> address() const override { return {}; }
    Result<Endpoint*> connect(int peer, ConstBytes) override {
        if (static_cast<size_t>(peer) >= ways_.size())
            return Error{Code::unsupported, "A simulated job has no further processes", peer};
        return static_cast<Endpoint*>(&ways_[static_cast<size_t>(peer)]);
    }
    bool simulated() const override { return true; }
    int poll(Sink& sink, int most) override;
    bool arm() override {
        if (remote_.inbox_.empty()) remote_.hand_over(Word::wait, 0);
        return false;  // there is something now, or it is time to look at the clock
    }
    void disarm() override {}

private:
    class Way final : public Endpoint {
    public:
        Way(RemoteTransport& owner, int to) : owner_(owner), to_(to) {
            caps_ = {64, kEagerMost, kFragmentMost};
        }
        Push push(const FrameHeader& header, ConstBytes payload) override {
            auto copy = [](void* context, Bytes target) {
                auto* from = static_cast<ConstBytes*>(context);
                std::copy(from->begin(), from->end(), target.begin());
            };
            return push_fill(header, payload.size(), copy, &payload);
        }
        Push push_fill(const FrameHeader& header, size_t length, FillFunction fill,
                       void* context) override {
            if (owner_.gone(to_)) return Push::gone;
            Remote& remote = owner_.remote_;
            if (remote.pushed_ > kPushedMost) {
                remote.refused_ = true;
                return Push::busy;
            }
            remote.pushed_ += length + sizeof header;
            Record record{.word = Word::frame, .peer = to_, .value = remote.turn_ns()};
            record.header = header;
            Bytes room = remote.channel_->put_room(record, length);
            if (length) fill(context, room);
            return Push::sent;
        }
        void abandon(const Error&) override { owner_.give_up(to_); }
        std::string state_text() const override { return "simulated"; }
        bool is_gone = false;

    private:
        RemoteTransport& owner_;
        int to_;
    };

    bool gone(int peer) const { return ways_[static_cast<size_t>(peer)].is_gone; }
    void give_up(int peer) {
        if (!gone(peer)) remote_.inbox_.push_front({peer, {}, {}, true});
    }

    Remote& remote_;
    std::deque<Way> ways_;
    bool looked_ = false;  // in vain, since something came
    Nanoseconds test_ns_ = kTestLeast;
};

int RemoteTransport::poll(Sink& sink, int most) {
    if (remote_.inbox_.empty()) {
        // The first look in vain is free: whoever waits calls arm() next. So is one between two
        // parts of a computation.
        if (sink.busy || !std::exchange(looked_, true)) return 0;
        remote_.hand_over(Word::test, test_ns_);
        test_ns_ = std::min(2 * test_ns_, kTestMost);
    }
    int handed = 0;
    while (handed < most && !remote_.inbox_.empty()) {
        auto next = std::move(remote_.inbox_.front());
        remote_.inbox_.pop_front();
        looked_ = false, test_ns_ = kTestLeast;
        if (gone(next.from)) continue;
        ++handed;
        if (next.gone) {
            ways_[static_cast<size_t>(next.from)].is_gone = true;
            sink.gone(next.from, {Code::peer_gone, "The simulated rank has died", next.from, 0});
            continue;
        }
        size_t length = next.payload.size();
        std::byte* place = length ? sink.place(next.from, next.header, length) : nullptr;
        if (place) std::copy(next.payload.begin(), next.payload.end(), place);
        sink.arrive(next.from, next.header,
                    place ? ConstBytes{place, length} : ConstBytes(next.payload));
    }
    return handed;
}

std::unique_ptr<Transport> Remote::make_transport() {
    return std::make_unique<RemoteTransport>(*this);
}

Status Remote::enter(int rank) {
    if (std::exchange(entered_, true))
        return Error{
            Code::unsupported,
            "A rank of a simulated job initializes MPI once; after its end it cannot again"};
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    int descriptor = socket(AF_UNIX, SOCK_STREAM, 0);
    if (descriptor < 0) return os_error(Code::io, "No socket to the simulator can be made");
    channel_ = std::make_unique<Channel>(descriptor);
    if (socket_.size() >= sizeof address.sun_path)
        return Error{Code::invalid_argument, "POMONA_SIMULATION is no path of a socket"};
    std::memcpy(address.sun_path, socket_.c_str(), socket_.size() + 1);
#if defined(SO_NOSIGPIPE)
    int on = 1;
    setsockopt(descriptor, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
    int connected;
    do connected = ::connect(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address);
    while (connected < 0 && errno == EINTR);
    if (connected < 0) return os_error(Code::io, "The simulator cannot be reached");
    channel_->put({.word = Word::hello, .peer = rank, .value = getpid()});
    if (!channel_->flush()) return os_error(Code::io, "The simulator does not answer");
    return take_turn();
}

// Processor time counts where it is wanted; a look at the clock always takes a little.
Nanoseconds Remote::turn_ns() const {
    if (beginning_.compute <= 0 || !channel_) return spent_;
    return spent_ +
           static_cast<Nanoseconds>(beginning_.compute *
                                    static_cast<double>(processor_time() - processor_began_));
}

void Remote::hand_over(Word why, Nanoseconds longest) {
    Record record{.word = why, .value = longest, .worked = turn_ns()};
    record.peer = refused_;
    channel_->put(record);
    Status status =
        channel_->flush() ? take_turn() : Error{Code::peer_gone, "The simulator has ended"};
    if (status.ok()) return;
    LOG(error, btl, "{}; so this rank ends", status.error().text());
    _exit(1);
}

Status Remote::take_turn() {
    for (;;) {
        Record record{};
        std::vector<std::byte> body;
        if (!channel_->get(record, body)) return Error{Code::peer_gone, "The simulator has ended"};
        if (record.word == Word::begin) {
            if (!beginning_.read(body))
                return Error{Code::malformed, "What the simulator says does not parse"};
        } else if (record.word == Word::frame || record.word == Word::gone) {
            inbox_.push_back(
                {record.peer, record.header, std::move(body), record.word == Word::gone});
        } else if (record.word == Word::go) {
            began_ = record.value;
            spent_ = 0, pushed_ = 0, refused_ = false;
            if (beginning_.compute > 0) processor_began_ = processor_time();
            return {};
        } else {
            return Error{Code::malformed, "What the simulator says does not parse"};
        }
    }
}

void Remote::tell_waiting(uint32_t number, int64_t waited, ConstBytes waiting) {
    Record record{.word = Word::waiting, .peer = static_cast<int32_t>(number), .value = waited};
    if (channel_) channel_->put(record, waiting);
}

void Remote::tell_waited(uint32_t number) {
    if (channel_) channel_->put({.word = Word::waited, .peer = static_cast<int32_t>(number)});
}

}  // namespace pomona::sim
