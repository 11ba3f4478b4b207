// btl/tcp/tcp.cc: the TCP Transport: listening, greeting, crossing connections, frames in and out.
//
// Crossing: when two ranks connect to each other at once, the connection made by the lower rank
// stays. Nobody sends frames before the welcome, so nothing is lost with the other one.
#include "btl/tcp/tcp.h"

#include "btl/base/check.h"
#include "btl/base/log.h"
#include "btl/tcp/connection.h"
#include "btl/tcp/interfaces.h"

#include <algorithm>
#include <poll.h>
#include <unordered_map>
#include <utility>

namespace pomona {
namespace {

using tcp::Connection;
using tcp::Socket;

// The listener is looked at once in so many polls, and before sleep.
constexpr int kPollsPerAccept = 256;
// So many connections are read from without asking; of more, the kernel is asked which have bytes.
constexpr size_t kAskEach = 3;

// Interfaces that the user names are taken: ranks of one machine may live in network namespaces.
bool loopback_only(const TcpOptions& options, const Params& params) {
    return options.loopback_only && params.tcp_interfaces.empty();
}

class TcpTransport;

class TcpEndpoint final : public Endpoint {
public:
    TcpEndpoint(TcpTransport& transport, int peer, const Params& params)
        : peer(peer), transport_(transport) {
        caps_ = {0, params.tcp_eager_max, std::max(params.tcp_fragment, params.tcp_eager_max)};
    }
    Push push(const FrameHeader& header, ConstBytes payload) override;
    Push push_fill(const FrameHeader& header, size_t length, FillFunction fill,
                   void* context) override;
    Push push_part(const FrameHeader& header, ConstBytes payload, size_t& taken) override;
    Push push_rest(ConstBytes rest, size_t& taken) override;

    enum class State { idle, connecting, greeting, up, gone };
    const int peer;
    State state = State::idle;
    bool initiator = false;  // this rank made the connection
    tcp::Address address;
    size_t next_host = 0;      // the address to try next
    Nanoseconds deadline = 0;  // for the attempt to connect
    Nanoseconds retry_at = 0;
    std::unique_ptr<Connection> connection;
    Error why{};          // when gone
    bool told = false;    // the sink has been told
    bool silent = false;  // look() found no bytes

private:
    bool can_push(Push& why_not);
    Push broken();
    TcpTransport& transport_;
};

class TcpTransport final : public Transport {
public:
    TcpTransport(const Params& params, Counters& counters, TcpOptions options, Socket listener)
        : params_(params), counters_(counters), options_(std::move(options)),
          listener_(std::move(listener)) {}
    ~TcpTransport() override {
        if (!options_.sleeper) return;
        options_.sleeper->forget(listener_.descriptor());
        for (auto& each : strangers_) options_.sleeper->forget(each->socket.descriptor());
        for (auto& [peer, endpoint] : endpoints_)
            if (endpoint->connection)
                options_.sleeper->forget(endpoint->connection->socket.descriptor());
    }
    Status begin() { return watch(listener_.descriptor(), false); }

    const char* name() const override { return "tcp"; }
    std::vector<std::byte> address() const override {
        tcp::Address own;
        own.port = listener_.port();
        if (loopback_only(options_, params_)) own.hosts = {"127.0.0.1"};
        else own.hosts = tcp::local_addresses(params_.tcp_interfaces);
        return tcp::write_address(own);
    }

    Result<Endpoint*> connect(int peer, ConstBytes address) override {
        auto parsed = tcp::parse_address(address);
        if (!parsed) return Error{Code::malformed, "A TCP address does not parse", peer};
        TcpEndpoint& made = endpoint(peer);
        made.address = std::move(*parsed);
        if (made.state == TcpEndpoint::State::idle) start_connecting(made);
        return static_cast<Endpoint*>(&made);
    }

    int poll(Sink& sink, int most) override {
        if (++polls_ % kPollsPerAccept == 0 || !strangers_.empty()) accept_strangers();
        int moved = 0;
        size_t number = active_.size();  // those that the sink adds come next time
        if (number > kAskEach) look();
        for (size_t i = 0; i < number && !sink.enough; ++i) {
            TcpEndpoint& each = *active_[(polls_ + i) % number];  // nobody is always the last
            if (!std::exchange(each.silent, false)) moved += serve(each, sink, most);
        }
        std::erase_if(active_, [](TcpEndpoint* each) {
            return each->state == TcpEndpoint::State::gone && each->told;
        });
        return moved;
    }

    // Sockets wake the Sleeper by themselves, level-triggered; only output must be watched for.
    bool arm() override {
        accept_strangers();
        for (TcpEndpoint* each : active_) {
            bool untold = each->state == TcpEndpoint::State::gone;
            if (each->state == TcpEndpoint::State::idle || untold || !each->connection)
                return false;
            if (each->connection->blocked() || each->state == TcpEndpoint::State::connecting)
                if (!watch(each->connection->socket.descriptor(), true).ok()) return false;
        }
        return true;
    }
    void disarm() override {
        for (TcpEndpoint* each : active_)
            if (each->connection &&
                (each->connection->blocked() || each->state == TcpEndpoint::State::connecting))
                if (!watch(each->connection->socket.descriptor(), false).ok()) return;
    }
    bool pending() const override {
        return std::any_of(active_.begin(), active_.end(), [](const TcpEndpoint* each) {
            return each->connection && each->connection->blocked();
        });
    }

    void fail(TcpEndpoint& endpoint, Error why) {
        if (endpoint.state == TcpEndpoint::State::gone) return;
        // The connection object stays until serve() tells the sink: its owner may be on the stack,
        // handing on a frame to which the engine answered.
        endpoint.state = TcpEndpoint::State::gone;
        endpoint.why = why;
    }
    Counters& counters() { return counters_; }

private:
    Status watch(int descriptor, bool write) {
        if (!options_.sleeper) return {};
        return options_.sleeper->watch(descriptor, {.read = true, .write = write});
    }
    void drop(std::unique_ptr<Connection>& connection) {
        if (connection && options_.sleeper)
            options_.sleeper->forget(connection->socket.descriptor());
        connection.reset();
    }
    TcpEndpoint& endpoint(int peer) {
        auto& slot = endpoints_[peer];
        if (!slot) slot = std::make_unique<TcpEndpoint>(*this, peer, params_);
        return *slot;
    }
    void activate(TcpEndpoint& endpoint) {
        if (std::find(active_.begin(), active_.end(), &endpoint) == active_.end())
            active_.push_back(&endpoint);
    }

    // ---- making connections

    void start_connecting(TcpEndpoint& endpoint) {
        activate(endpoint);
        Nanoseconds now = clock_.now();
        if (endpoint.deadline == 0)
            endpoint.deadline =
                now + static_cast<Nanoseconds>(params_.connect_timeout_ms) * 1000000;
        const auto& hosts = endpoint.address.hosts;
        const std::string& host = hosts[endpoint.next_host++ % hosts.size()];
        auto socket = Socket::connect(host, endpoint.address.port, params_.tcp_socket_buffer);
        if (!socket.ok()) return retry(endpoint, socket.error());
        endpoint.connection = std::make_unique<Connection>(std::move(*socket));
        endpoint.initiator = true;
        endpoint.state = TcpEndpoint::State::connecting;
        if (auto watched = watch(endpoint.connection->socket.descriptor(), false); !watched.ok())
            fail(endpoint, watched.error());
    }
    void retry(TcpEndpoint& endpoint, Error why) {
        drop(endpoint.connection);
        endpoint.state = TcpEndpoint::State::idle;
        Nanoseconds now = clock_.now();
        why.peer = endpoint.peer;
        if (now > endpoint.deadline) return fail(endpoint, why);
        endpoint.retry_at = now + 20'000'000;
    }

    void accept_strangers() {
        while (true) {
            Socket socket = listener_.accept();
            if (!socket.open()) break;
            auto made = std::make_unique<Connection>(std::move(socket));
            if (watch(made->socket.descriptor(), false).ok()) strangers_.push_back(std::move(made));
        }
        for (auto& stranger : strangers_) greet(stranger);
        std::erase(strangers_, nullptr);
    }

    // Reads a stranger's greeting; lets it in, or closes.
    void greet(std::unique_ptr<Connection>& stranger) {
        Connection& c = *stranger;
        bool more = false;
        ssize_t got = c.read_in(tcp::kGreetingSize - c.in_end, more);
        if (got < 0) return drop(stranger);
        if (c.in_end < tcp::kGreetingSize) return;
        auto greeting =
            tcp::parse_greeting({c.in.data(), c.in_end}, options_.secret, options_.size);
        if (!greeting || greeting->welcome || greeting->to != options_.rank) {
            LOG(warn, btl, "A TCP connection from outside this job was refused");
            return drop(stranger);
        }
        TcpEndpoint& peer = endpoint(greeting->from);
        bool ours_stays = peer.connection && peer.initiator && options_.rank < greeting->from;
        if (peer.state == TcpEndpoint::State::up || peer.state == TcpEndpoint::State::gone ||
            ours_stays)
            return drop(stranger);
        drop(peer.connection);
        if (options_.on_peer) options_.on_peer(greeting->from);
        c.in_begin = c.in_end = 0;
        peer.connection = std::move(stranger);
        peer.initiator = false;
        peer.state = TcpEndpoint::State::up;
        peer.connection->queue(
            tcp::write_greeting({true, options_.rank, peer.peer}, options_.secret));
        if (!peer.connection->flush())
            fail(peer, os_error(Code::peer_gone, "The connection broke"));
        activate(peer);
    }

    // Moves an own attempt to connect on.
    void advance(TcpEndpoint& peer) {
        if (peer.state == TcpEndpoint::State::idle) {
            if (clock_.now() >= peer.retry_at) start_connecting(peer);
            return;
        }
        Connection& c = *peer.connection;
        if (peer.state == TcpEndpoint::State::connecting) {
            int finished = c.socket.finished();
            if (finished == 0 && clock_.now() > peer.deadline)
                return fail(peer,
                            Error{Code::timed_out, "The connection took too long", peer.peer});
            if (finished < 0) return retry(peer, os_error(Code::refused, "Cannot connect"));
            if (finished == 0) return;
            c.queue(tcp::write_greeting({false, options_.rank, peer.peer}, options_.secret));
            peer.state = TcpEndpoint::State::greeting;
        }
        if (!c.flush()) return retry(peer, os_error(Code::refused, "The connection broke"));
        bool more = false;
        ssize_t got = c.read_in(tcp::kGreetingSize - c.in_end, more);
        // Closed without a welcome: crossed with the peer's own connection, which will come.
        if (got < 0) return retry(peer, os_error(Code::refused, "The connection was refused"));
        if (c.in_end < tcp::kGreetingSize) return;
        auto welcome = tcp::parse_greeting({c.in.data(), c.in_end}, options_.secret, options_.size);
        if (!welcome || !welcome->welcome || welcome->from != peer.peer)
            return fail(peer, Error{Code::refused, "Somebody else answered", peer.peer});
        c.in_begin = c.in_end = 0;
        peer.state = TcpEndpoint::State::up;
    }

    // ---- frames in

    // Finds out in one system call which connections need not be read from.
    void look() {
        looks_.clear();
        for (TcpEndpoint* each : active_) {
            bool quiet = each->state == TcpEndpoint::State::up && !each->connection->has_output();
            looks_.push_back({quiet ? each->connection->socket.descriptor() : -1, POLLIN, 0});
        }
        if (::poll(looks_.data(), static_cast<nfds_t>(looks_.size()), 0) < 0) return;
        for (size_t i = 0; i < looks_.size(); ++i)
            active_[i]->silent = looks_[i].fd >= 0 && looks_[i].revents == 0;
    }
    // The number of frames handed on; at least 1 when bytes arrived.
    int serve(TcpEndpoint& peer, Sink& sink, int most) {
        if (peer.state == TcpEndpoint::State::gone) {
            if (!peer.told) {
                peer.told = true;
                drop(peer.connection);
                sink.gone(peer.peer, peer.why);
            }
            return 0;
        }
        if (peer.state != TcpEndpoint::State::up) {
            advance(peer);
            return 0;
        }
        if (peer.connection->has_output() && !peer.connection->flush()) {
            fail(peer, broken(peer));
            return 0;
        }
        int handed = 0;
        bool moved = false;
        if (!receive(peer, sink, most, handed, moved)) fail(peer, broken(peer));
        return std::max<int>(handed, moved);
    }
    static Error broken(const TcpEndpoint& peer) {
        return os_error(Code::peer_gone, "The TCP connection is closed", peer.peer);
    }

    // Reads and hands on; false when the connection is over.
    bool receive(TcpEndpoint& peer, Sink& sink, int most, int& handed, bool& moved) {
        Connection& c = *peer.connection;
        while (handed < most && peer.state == TcpEndpoint::State::up) {
            bool more = false;  // the kernel may have more
            ssize_t got = c.in_payload ? c.read_payload(more) : c.read_in(tcp::kReadMost, more);
            if (got <= 0) return got == 0;
            moved = true;
            if (c.in_payload && c.payload_done == c.head.length) finish_payload(peer, sink, handed);
            if (!c.in_payload && !parse_frames(peer, sink, handed)) return false;
            if (!more || sink.enough) return true;
        }
        return true;
    }
    // Hands on the whole frames in the buffer; begins to place a longer one. False when it is no frame.
    bool parse_frames(TcpEndpoint& peer, Sink& sink, int& handed) {
        Connection& c = *peer.connection;
        while (c.in_end - c.in_begin >= tcp::kFrameHead && peer.state == TcpEndpoint::State::up) {
            std::memcpy(&c.head, c.in.data() + c.in_begin, tcp::kFrameHead);
            if (c.head.length > peer.caps().fragment_max) return errno = EPROTO, false;
            size_t there = c.in_end - c.in_begin - tcp::kFrameHead;
            const std::byte* payload = c.in.data() + c.in_begin + tcp::kFrameHead;
            if (there >= c.head.length) {
                c.in_begin += tcp::kFrameHead + c.head.length;
                ++handed;
                sink.arrive(peer.peer, c.head.header, {payload, c.head.length});
                continue;
            }
            // Short ones are worth waiting for in the buffer; long ones go straight to their place.
            if (c.head.length <= tcp::kWaitMax) break;
            c.target = sink.place(peer.peer, c.head.header, c.head.length);
            if (!c.target) {
                c.gathered.reserve(c.head.length);
                c.target = c.gathered.data();
            }
            std::memcpy(c.target, payload, there);
            c.payload_done = there;
            c.in_payload = true;
            c.in_begin = c.in_end = 0;
            return true;
        }
        c.close_ranks();
        return true;
    }

    void finish_payload(TcpEndpoint& peer, Sink& sink, int& handed) {
        Connection& c = *peer.connection;
        c.in_payload = false;
        ++handed;
        sink.arrive(peer.peer, c.head.header, {c.target, c.head.length});
    }

    const Params& params_;
    Counters& counters_;
    TcpOptions options_;
    Socket listener_;
    RealClock clock_;
    unsigned polls_ = 0;
    std::unordered_map<int, std::unique_ptr<TcpEndpoint>> endpoints_;  // by peer
    std::vector<TcpEndpoint*> active_;
    std::vector<pollfd> looks_;
    std::vector<std::unique_ptr<Connection>> strangers_;  // accepted, not greeted yet
};

// ---- frames out

Push TcpEndpoint::broken() {
    transport_.fail(*this, os_error(Code::peer_gone, "The TCP connection is closed", peer));
    return Push::gone;
}

// Is the connection up and everything before out?
bool TcpEndpoint::can_push(Push& why_not) {
    if (state != State::up) {
        why_not = state == State::gone ? Push::gone : Push::busy;
        return false;
    }
    Connection& c = *connection;
    why_not = Push::busy;
    if (c.has_output() && !c.flush()) why_not = broken();
    return why_not == Push::busy && !c.has_output() && c.rest == 0;
}

Push TcpEndpoint::push(const FrameHeader& header, ConstBytes payload) {
    size_t taken = 0;
    Push done = push_part(header, payload, taken);
    if (done == Push::sent && taken < payload.size()) {
        // The kernel took a part: the rest is ours to bring.
        connection->queue(payload.subspan(taken));
        connection->rest = 0;
    }
    return done;
}

Push TcpEndpoint::push_part(const FrameHeader& header, ConstBytes payload, size_t& taken) {
    Push why_not;
    if (!can_push(why_not)) return why_not;
    Connection& c = *connection;
    tcp::FrameHead head{payload.size(), header};
    ssize_t moved = c.write_frame(head, payload);
    if (moved < 0) return broken();
    if (moved == 0) return Push::busy;
    auto done = static_cast<size_t>(moved);
    if (done < sizeof head) {
        c.queue({reinterpret_cast<const std::byte*>(&head) + done, sizeof head - done});
        done = sizeof head;
    }
    taken = done - sizeof head;
    c.rest = payload.size() - taken;
    if (c.rest != 0) count(transport_.counters().tcp_write_blocked);
    return Push::sent;
}

Push TcpEndpoint::push_rest(ConstBytes rest, size_t& taken) {
    if (state != State::up) return Push::gone;
    Connection& c = *connection;
    check(rest.size() == c.rest, rest.size(), c.rest);
    if (c.has_output()) {
        if (!c.flush()) return broken();
        if (c.has_output()) return Push::busy;
    }
    ssize_t moved = c.socket.write(rest, {});
    if (moved < 0) return broken();
    if (moved == 0) return Push::busy;
    taken = static_cast<size_t>(moved);
    c.rest -= taken;
    return Push::sent;
}

Push TcpEndpoint::push_fill(const FrameHeader& header, size_t length, FillFunction fill,
                            void* context) {
    Push why_not;
    if (!can_push(why_not)) return why_not;
    Connection& c = *connection;
    Bytes frame = c.add_output(tcp::kFrameHead + length);
    tcp::FrameHead head{length, header};
    std::memcpy(frame.data(), &head, sizeof head);
    fill(context, frame.subspan(sizeof head));
    // A broken connection is reported by the next poll.
    if (!c.flush())
        transport_.fail(*this, os_error(Code::peer_gone, "The TCP connection is closed", peer));
    return Push::sent;
}

}  // namespace

Result<std::unique_ptr<Transport>> make_tcp_transport(const Params& params, Counters& counters,
                                                      TcpOptions options) {
    auto listener = TRY(Socket::listen(loopback_only(options, params) ? "127.0.0.1" : "0.0.0.0",
                                       params.tcp_socket_buffer));
    auto made =
        std::make_unique<TcpTransport>(params, counters, std::move(options), std::move(listener));
    TRY(made->begin());
    return std::unique_ptr<Transport>(std::move(made));
}

}  // namespace pomona
