// btl/tcp/tcp.cc: the TCP Transport: listening, greeting, crossing connections, frames in and out.
//
// Crossing: when two ranks connect to each other at once, the connection made by the lower rank
// stays. Nobody sends frames before the welcome, so nothing is lost with the other one. Lanes do not
// cross: who made the first connection makes them, and lane k begins with the address k places behind
// that of the first one, so that several interfaces are used.
//
// The end: when one of several connections to a peer ends, the others are still read for a moment, as
// a peer that ends closes all and what it sent has to be handed on; then the peer is gone.
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
// How long the other connections to a peer may bring bytes when one has ended.
constexpr Nanoseconds kLastWords = 500'000'000;

// Which of the connections to a peer has ended.
constexpr const char* kClosed[tcp::kLanesMost] = {
    "The TCP connection is closed", "The 2nd TCP stream is closed", "The 3rd TCP stream is closed",
    "The 4th TCP stream is closed", "The 5th TCP stream is closed", "The 6th TCP stream is closed",
    "The 7th TCP stream is closed", "The 8th TCP stream is closed"};

// Interfaces that the user names are taken: ranks of one machine may live in network namespaces.
bool loopback_only(const TcpOptions& options, const Params& params) {
    return options.loopback_only && params.tcp_interfaces.empty();
}

class TcpTransport;

// A connection to a peer: the first one, or a lane.
class TcpEndpoint final : public Endpoint {
public:
    TcpEndpoint(TcpTransport& transport, TcpEndpoint* first, int peer, int number,
                const Params& params)
        : peer(peer), number(number), first(first ? *first : *this), transport_(transport) {
        caps_ = {0, params.tcp_eager_max, std::max(params.tcp_fragment, params.tcp_eager_max)};
    }
    Push push(const FrameHeader& header, ConstBytes payload) override;
    Push push_fill(const FrameHeader& header, size_t length, FillFunction fill,
                   void* context) override;
    Push push_part(const FrameHeader& header, ConstBytes payload, size_t& taken) override;
    Push push_rest(ConstBytes rest, size_t& taken) override;
    Endpoint* lane(size_t number) override {
        return number < lanes_up.size() ? lanes_up[number] : nullptr;
    }
    Pace pace() override;
    void abandon(const Error& why) override;

    enum class State {
        idle,
        connecting,
        greeting,
        up,
        ending,  // a connection to the peer has ended; this one is still read
        over,    // nothing more can be read from this one
        gone
    };
    bool reads() const { return state == State::up || state == State::ending; }
    const int peer;
    const int number;    // 0: the first connection
    TcpEndpoint& first;  // of the same peer: this one, if its number is 0
    State state = State::idle;
    bool initiator = false;  // this rank made the connection
    tcp::Address address;
    size_t next_host = 0;           // the address to try next
    Nanoseconds deadline = 0;       // for the attempts to connect
    Nanoseconds attempt_until = 0;  // then the next address has its turn
    Nanoseconds retry_at = 0;
    std::unique_ptr<Connection> connection;
    Error why{};          // when gone
    bool told = false;    // the sink has been told
    bool silent = false;  // look() found no bytes
    // Of the first connection: the others, and those of them that have come up, in this order.
    std::vector<std::unique_ptr<TcpEndpoint>> lanes;
    std::vector<Endpoint*> lanes_up;
    Nanoseconds last_words = 0;  // of a peer that ends: it is gone then

private:
    bool can_push(Push& why_not);
    // What a push says that can do nothing now, or never again. A peer's end is told by the first one.
    Push refusal() const { return state == State::gone && number == 0 ? Push::gone : Push::busy; }
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
        for (auto& [peer, endpoint] : endpoints_) {
            drop(endpoint->connection);
            for (auto& lane : endpoint->lanes) drop(lane->connection);
        }
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
            bool waits = each->state == TcpEndpoint::State::idle;
            // What a lane waits for is not worth staying awake.
            if ((waits && each->number != 0) || each->state == TcpEndpoint::State::over) continue;
            if (waits || untold || !each->connection) return false;
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

    // Gives up a peer, or one of its lanes that has not come up.
    void fail(TcpEndpoint& endpoint, Error why) {
        if (endpoint.state == TcpEndpoint::State::gone) return;
        if (endpoint.number != 0)
            LOG(warn, btl, "TCP stream {} to rank {} is done without: {}", endpoint.number + 1,
                endpoint.peer, why.text());
        // The connection object stays until serve() tells the sink: its owner may be on the stack,
        // handing on a frame to which the engine answered.
        endpoint.state = TcpEndpoint::State::gone;
        endpoint.why = why;
        for (auto& lane : endpoint.lanes) lane->state = TcpEndpoint::State::gone;
    }
    // A connection that was up takes no more (then it is `readable`), or is over both ways.
    void end(TcpEndpoint& ended, Error why, bool readable) {
        TcpEndpoint& first = ended.first;
        if (first.state == TcpEndpoint::State::gone) return;
        if (first.lanes_up.empty()) return fail(first, why);
        if (first.last_words == 0) {
            first.last_words = clock_.now() + kLastWords;
            first.why = why;
            stop_pushing(first);
            for (auto& lane : first.lanes) stop_pushing(*lane);
        }
        if (!readable) ended.state = TcpEndpoint::State::over;
    }
    Counters& counters() { return counters_; }
    Clock& clock() { return clock_; }

private:
    static void stop_pushing(TcpEndpoint& endpoint) {
        if (endpoint.state == TcpEndpoint::State::up) endpoint.state = TcpEndpoint::State::ending;
        // One that is still being made is not needed any more.
        if (endpoint.state < TcpEndpoint::State::up) endpoint.state = TcpEndpoint::State::gone;
    }
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
        if (!slot) slot = std::make_unique<TcpEndpoint>(*this, nullptr, peer, 0, params_);
        return *slot;
    }
    TcpEndpoint& add_lane(TcpEndpoint& first, int number) {
        first.lanes.push_back(
            std::make_unique<TcpEndpoint>(*this, &first, first.peer, number, params_));
        return *first.lanes.back();
    }
    void activate(TcpEndpoint& endpoint) {
        if (std::find(active_.begin(), active_.end(), &endpoint) == active_.end())
            active_.push_back(&endpoint);
    }

    // ---- making connections

    Nanoseconds connect_timeout() const {
        return static_cast<Nanoseconds>(params_.connect_timeout_ms) * 1000000;
    }
    void start_connecting(TcpEndpoint& endpoint) {
        activate(endpoint);
        Nanoseconds now = clock_.now();
        if (endpoint.deadline == 0) endpoint.deadline = now + connect_timeout();
        const tcp::Address& address = endpoint.first.address;
        const std::string& host = address.hosts[endpoint.next_host++ % address.hosts.size()];
        auto addresses = static_cast<Nanoseconds>(address.hosts.size());
        endpoint.attempt_until = std::min(endpoint.deadline, now + connect_timeout() / addresses);
        auto socket = Socket::connect(host, address.port, params_.tcp_socket_buffer);
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
        if (greeting->lane != 0) return greet_lane(stranger, *greeting);
        TcpEndpoint& peer = endpoint(greeting->from);
        bool ours_stays = peer.connection && peer.initiator && options_.rank < greeting->from;
        if (peer.state == TcpEndpoint::State::up || peer.state == TcpEndpoint::State::gone ||
            ours_stays)
            return drop(stranger);
        drop(peer.connection);
        if (options_.on_peer) options_.on_peer(greeting->from);
        peer.initiator = false;
        let_in(stranger, peer);
    }
    // A further connection is taken from who made the first one, once for each number.
    void greet_lane(std::unique_ptr<Connection>& stranger, const tcp::Greeting& greeting) {
        auto found = endpoints_.find(greeting.from);
        TcpEndpoint* first = found == endpoints_.end() ? nullptr : found->second.get();
        auto same = [&](auto& lane) { return lane->number == greeting.lane; };
        if (!first || first->state != TcpEndpoint::State::up || first->initiator ||
            std::any_of(first->lanes.begin(), first->lanes.end(), same)) {
            LOG(warn, btl, "TCP stream {} from rank {} was refused", greeting.lane + 1,
                greeting.from);
            return drop(stranger);
        }
        let_in(stranger, add_lane(*first, greeting.lane));
    }
    void let_in(std::unique_ptr<Connection>& stranger, TcpEndpoint& peer) {
        peer.connection = std::move(stranger);
        come_up(peer);
        activate(peer);
        Connection& c = *peer.connection;
        c.queue(
            tcp::write_greeting({true, options_.rank, peer.peer, peer.number}, options_.secret));
        if (!c.flush()) end(peer, os_error(Code::peer_gone, "The connection broke"), true);
    }
    // Greetings have been exchanged.
    void come_up(TcpEndpoint& peer) {
        peer.connection->in_begin = peer.connection->in_end = 0;
        peer.state = TcpEndpoint::State::up;
        if (peer.number != 0) peer.first.lanes_up.push_back(&peer);
    }
    // The further connections of a first one that has come up.
    void make_lanes(TcpEndpoint& first) {
        for (int number = 1; number < static_cast<int>(params_.tcp_streams); ++number) {
            TcpEndpoint& lane = add_lane(first, number);
            lane.next_host = first.next_host - 1 + static_cast<size_t>(number);
            start_connecting(lane);
        }
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
            if (finished == 0 && clock_.now() > peer.attempt_until)
                return retry(peer, Error{Code::timed_out, "The connection took too long"});
            if (finished < 0) return retry(peer, os_error(Code::refused, "Cannot connect"));
            if (finished == 0) return;
            c.queue(tcp::write_greeting({false, options_.rank, peer.peer, peer.number},
                                        options_.secret));
            peer.state = TcpEndpoint::State::greeting;
        }
        if (!c.flush()) return retry(peer, os_error(Code::refused, "The connection broke"));
        bool more = false;
        ssize_t got = c.read_in(tcp::kGreetingSize - c.in_end, more);
        // Closed without a welcome: crossed with the peer's own connection, which will come.
        if (got < 0) return retry(peer, os_error(Code::refused, "The connection was refused"));
        if (c.in_end < tcp::kGreetingSize) return;
        auto welcome = tcp::parse_greeting({c.in.data(), c.in_end}, options_.secret, options_.size);
        if (!welcome || !welcome->welcome || welcome->from != peer.peer ||
            welcome->lane != peer.number) {
            Error why{Code::refused, "Somebody else answered", peer.peer};
            return peer.number == 0 ? fail(peer, why) : retry(peer, why);
        }
        come_up(peer);
        if (peer.number == 0) make_lanes(peer);
    }

    // ---- frames in

    // Finds out in one system call which connections need not be read from.
    void look() {
        looks_.clear();
        for (TcpEndpoint* each : active_) {
            bool quiet = each->state == TcpEndpoint::State::up && !each->connection->has_output() &&
                         !each->connection->paced;
            looks_.push_back({quiet ? each->connection->socket.descriptor() : -1, POLLIN, 0});
        }
        if (::poll(looks_.data(), static_cast<nfds_t>(looks_.size()), 0) < 0) return;
        for (size_t i = 0; i < looks_.size(); ++i)
            active_[i]->silent = looks_[i].fd >= 0 && looks_[i].revents == 0;
    }
    // The number of frames handed on; at least 1 when bytes arrived.
    int serve(TcpEndpoint& peer, Sink& sink, int most) {
        if (peer.state != TcpEndpoint::State::up && !serve_other(peer, sink)) return 0;
        if (peer.state == TcpEndpoint::State::up && peer.connection->has_output() &&
            !peer.connection->flush())
            end(peer, broken(peer), true);
        if (peer.state == TcpEndpoint::State::up && peer.connection->paced)
            peer.connection->pace(clock_.now());
        int handed = 0;
        bool moved = false;
        if (peer.reads() && !receive(peer, sink, most, handed, moved)) {
            end(peer, broken(peer), false);
            if (peer.state == TcpEndpoint::State::over) drop(peer.connection);
        }
        return std::max<int>(handed, moved);
    }
    // One that is not up: true when it can be read.
    bool serve_other(TcpEndpoint& peer, Sink& sink) {
        if (peer.state < TcpEndpoint::State::up) {
            advance(peer);
            return false;
        }
        if (peer.number == 0 && peer.last_words != 0 && is_over(peer)) fail(peer, peer.why);
        if (peer.state == TcpEndpoint::State::gone && !peer.told) {
            peer.told = true;
            drop(peer.connection);
            if (peer.number == 0) sink.gone(peer.peer, peer.why);
        }
        return peer.state == TcpEndpoint::State::ending;
    }
    // Does nothing more come from a peer of which a connection has ended?
    bool is_over(const TcpEndpoint& first) {
        auto reads = [](auto& lane) { return lane->reads(); };
        return clock_.now() > first.last_words ||
               (!first.reads() && std::none_of(first.lanes.begin(), first.lanes.end(), reads));
    }
    static Error broken(const TcpEndpoint& peer) {
        return os_error(Code::peer_gone, kClosed[peer.number], peer.peer);
    }

    // Reads and hands on; false when the connection is over.
    bool receive(TcpEndpoint& peer, Sink& sink, int most, int& handed, bool& moved) {
        Connection& c = *peer.connection;
        while (handed < most && peer.reads()) {
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
        while (c.in_end - c.in_begin >= tcp::kFrameHead && peer.reads()) {
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
    transport_.end(*this, os_error(Code::peer_gone, kClosed[number], peer), true);
    return refusal();
}

Pace TcpEndpoint::pace() {
    if (state != State::up) return {};
    return connection->pace(transport_.clock().now());
}

void TcpEndpoint::abandon(const Error& why) { transport_.fail(first, why); }

// Is the connection up and everything before out?
bool TcpEndpoint::can_push(Push& why_not) {
    if (state != State::up) {
        why_not = refusal();
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
    c.written += done;
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
    if (state != State::up) return refusal();
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
    c.written += taken;
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
    if (!c.flush()) broken();  // reported by the next poll
    return Push::sent;
}

}  // namespace

Result<std::unique_ptr<Transport>> make_tcp_transport(const Params& params, Counters& counters,
                                                      TcpOptions options) {
    if (params.tcp_streams < 1 || params.tcp_streams > tcp::kLanesMost)
        return Error{Code::invalid_argument, "tcp_streams must be between 1 and 8"};
    auto listener = TRY(Socket::listen(loopback_only(options, params) ? "127.0.0.1" : "0.0.0.0",
                                       params.tcp_socket_buffer));
    auto made =
        std::make_unique<TcpTransport>(params, counters, std::move(options), std::move(listener));
    TRY(made->begin());
    return std::unique_ptr<Transport>(std::move(made));
}

}  // namespace pomona
