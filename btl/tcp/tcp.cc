// btl/tcp/tcp.cc: the TCP Transport: which connections there are to whom, and who is served when.
//
// Crossing: when two ranks connect to each other at once, the lower one decides for the first
// connection that gets through (btl/link/handshake.h). Nobody sends frames before, so nothing is
// lost with the other one.
//
// Paths: an instance tries its plan (pairs.h), from an interface of its own to an address of the
// peer, and passes over pairs whose interfaces another path uses already.
//
// Turns: few connections are read without asking (readers.h). Of more, and of strangers always,
// the system is asked which have bytes (poller.h). What must be done without bytes (attempts to
// connect, output that waits) stands in `attention_`; so a turn's cost does not grow with
// connections that are silent.
#include "btl/tcp/tcp.h"

#include "btl/base/check.h"
#include "btl/base/entropy.h"
#include "btl/base/format.h"
#include "btl/base/log.h"
#include "btl/base/messages.h"
#include "btl/tcp/endpoint.h"
#include "btl/tcp/readers.h"
#include "btl/tcp/sealed.h"
#include "btl/tcp/strangers.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace pomona {
namespace {

using tcp::Connection;
using tcp::Socket;
using tcp::TcpEndpoint;
using tcp::Watched;
using State = TcpEndpoint::State;

// While few connections are busy the system is asked, for strangers' sake, once in so many polls,
// and before sleep.
constexpr unsigned kPollsPerLook = 64;
// After so many turns without a sleep those few are taken out of the Poller's set.
constexpr unsigned kAwakePolls = 1000;
// While frames come by at most so many connections, and for some polls behind them, each poll that
// finds none looks again: a receiver that asks more often takes more of the kernel's work from the
// sender's core.
constexpr size_t kTriedMore = 2;
constexpr unsigned kQuietPolls = 16;
constexpr int kTries = 4;
constexpr int kReadyMost = 64;
// Who has had a long payload within this time is taken to exchange such: the next one comes too.
constexpr Nanoseconds kLately = 2'000'000'000;
constexpr int kLastFrames = 64;  // read in a turn from a connection that ends
constexpr Nanoseconds kRetryPause = 20'000'000;
constexpr uint64_t kStreamsMost = 8;
// A rank that was busy elsewhere for longer than the deadline still tries each address so often.
constexpr size_t kAttemptsLeast = 3;
constexpr Error kElsewhere{Code::refused, "Its route leads by an interface that is not used"};
constexpr Error kConflict{Code::refused, "Another path goes by one of the interfaces"};

class TcpTransport final : public Transport, public tcp::EndpointOwner, public tcp::Sibling {
public:
    TcpTransport(const Params& params, Counters& counters, TcpOptions options, tcp::Poller poller)
        : params_(params), counters_(counters), options_(std::move(options)),
          shared_(*options_.shared), poller_(std::move(poller)),
          strangers_(params, counters, clock_, poller_, shared_.take_listeners(),
                     {options_.identity.get(),
                      [this](const Socket& socket) { return shared_.encrypts(socket); },
                      [this](auto& connection, auto& handshake) {
                          auto path = static_cast<size_t>(handshake.peer_path());
                          shared_.admit(path, connection, handshake);
                      }}) {
        shared_.join(static_cast<size_t>(options_.path), this);
    }
    ~TcpTransport() override {
        shared_.leave(this);
        for (auto& [peer, endpoint] : endpoints_)
            if (endpoint->reads()) {
                endpoint->connection->away.take_back();
                endpoint->connection->socket.take_leave();
            }
        if (options_.sleeper) options_.sleeper->forget(poller_.descriptor());
    }
    Status begin() {
        TRY(strangers_.begin());
        if (!options_.sleeper) return {};
        return options_.sleeper->watch(poller_.descriptor(), {.read = true, .write = false});
    }

    const char* name() const override { return "tcp"; }
    std::vector<std::byte> address() const override {
        return tcp::write_address({shared_.places()});
    }

    Result<Endpoint*> connect(int peer, ConstBytes address) override {
        auto parsed = tcp::parse_address(address);
        if (!parsed) return Error{Code::malformed, "A TCP address does not parse", peer};
        TRY(find_key());
        TcpEndpoint& made = endpoint_of(peer);
        bool moved = made.address != *parsed;
        made.address = std::move(*parsed);
        bool again = made.state == State::gone && options_.makes_paths && !made.tell_gone;
        if (again && clock_.now() < made.rest_until && shared_.any_up(peer))
            return Error{Code::timed_out, "No pair of interfaces has worked", peer,
                         made.first_why.os_errno};
        if (again) {
            made.state = State::idle;
            made.deadline = made.retry_at = 0;
        }
        if (moved || (made.state == State::idle && !made.attended)) make_plan(made);
        // One that is attended to is begun, or tried again, by poll().
        if (made.state == State::idle && !made.attended) start_connecting(made);
        return static_cast<Endpoint*>(&made);
    }
    Endpoint* path(int peer) override {
        auto found = endpoints_.find(peer);
        return found == endpoints_.end() ? nullptr : found->second.get();
    }

    PathDescription describe(int peer) override {
        auto found = endpoints_.find(peer);
        PathDescription out;
        if (found != endpoints_.end()) out = found->second->describe();
        out.text = format("tcp {}{}", options_.path + 1, out.text);
        out.here = found != endpoints_.end() &&
                   tcp::same_machine(shared_.places(), found->second->address.places);
        return out;
    }
    std::optional<tcp::Ends> used(int peer) const override {
        auto found = endpoints_.find(peer);
        if (found == endpoints_.end()) return std::nullopt;
        State state = found->second->state;
        if (state != State::met && state != State::up) return std::nullopt;
        return found->second->ends;
    }

    int poll(Sink& sink, int most) override {
        ++polls_;
        if (left_) [[unlikely]]
            take_back();
        if (options_.find_key) [[unlikely]] {
            // Without the key nobody can be let in, and connect() says why.
            if (!find_key().ok()) return 0;
        }
        bool many = readers_.many();
        bool leaves = !readers_.out_of_set() && !armed_ && ++awake_polls_ > kAwakePolls;
        if (many ? readers_.out_of_set() : leaves) {
            if (many) watch_all();
            else readers_.leave_set();
        }
        if (many || polls_ % kPollsPerLook == 0 || readers_.asks_quiet(polls_)) look();
        int moved = 0;
        if (!attention_.empty()) attend_all(sink);
        std::vector<TcpEndpoint*>& served = many ? ready_ : readers_.busy();
        size_t number = served.size();  // those that the sink adds come next time
        bool more = number <= kTriedMore && !many && attention_.empty();
        int tries = more && quiet_polls_ < kQuietPolls ? kTries : 1;
        for (int tried = 0; tried < tries && moved == 0 && !sink.enough; ++tried)
            for (size_t i = 0; i < number && !sink.enough; ++i)
                moved += serve(*served[many ? i : (polls_ + i) % number], sink, most);
        quiet_polls_ = moved != 0 ? 0 : quiet_polls_ + 1;
        ready_.clear();  // what was not served is ready at the next look too
        if (std::exchange(stopped_reading_, false)) readers_.forget_unread();
        readers_.end_turn();
        return moved;
    }

    // The poller wakes the Sleeper, level-triggered; only output must be watched for.
    bool arm() override {
        if (options_.find_key) return true;
        if (left_) take_back();
        awake_polls_ = 0;
        if (readers_.out_of_set() && !watch_all()) return false;
        for (TcpEndpoint* each : readers_.busy())
            if (each->reads()) each->connection->wake_for_payload(wakes_at_most());
        look();
        if (!ready_.empty()) return false;
        for (TcpEndpoint* each : attention_) {
            bool untold = each->tell_gone || each->tell_up;
            if (each->state == State::idle || untold || !each->connection) return false;
            if (each->reads_last()) return false;
            const Connection& c = *each->connection;
            if (c.blocked() || c.refused || each->state == State::connecting)
                if (!watch_output(*each, true)) return false;
        }
        return armed_ = true;
    }
    void hurry(bool leaves) override {
        if (!leaves) return;
        for (TcpEndpoint* each : attention_) {
            if (each->state != State::up || each->connection->output_over) continue;
            Connection& c = *each->connection;
            if (c.away.left() || !c.has_output()) continue;
            tcp::AwayWriter* writer = shared_.away_writer();
            if (!writer) return;
            writer->leave(c.away, c);
            left_ = true;
        }
    }
    void disarm() override {
        armed_ = false;
        for (TcpEndpoint* each : attention_) watch_output(*each, false);
    }
    Nanoseconds sleep_max() override {
        Nanoseconds now = clock_.now(), longest = kSleepForever;
        for (TcpEndpoint* each : attention_)
            if (each->state < State::met)
                longest = std::min(longest, std::max(each->attempt_until - now, kRetryPause));
        return longest;
    }
    // What the AwayWriter has left of it is not looked at.
    bool pending() const override {
        if (left_) return true;
        return std::any_of(attention_.begin(), attention_.end(), [](const TcpEndpoint* each) {
            return each->connection && each->connection->blocked();
        });
    }

private:
    void owe() {
        if (options_.owes) *options_.owes = true;
    }
    void take_back() {
        left_ = false;
        for (TcpEndpoint* each : attention_)
            if (each->connection) each->connection->away.take_back();
    }

    // ---- what endpoints ask for

    void fail(TcpEndpoint& endpoint, Error why) override {
        if (endpoint.state == State::gone) return;
        if (endpoint.starved(why, clock_.now())) shorten_packets(endpoint);
        if (endpoint.connection) endpoint.connection->away.take_back();
        // The connection object stays until attend_all() tells the sink: its owner may be on the
        // stack, handing on a frame to which the engine answered.
        endpoint.state = State::gone;
        endpoint.why = why;
        endpoint.tell_gone = true;
        endpoint.tell_up = false;
        stopped_reading_ = true;
        attend(endpoint);
    }
    void shorten_packets(const TcpEndpoint& endpoint) {
        // One that was made before packets there got shorter says nothing of these.
        int most = shared_.packet_bytes(endpoint.ends.own);
        if (most != 0 && endpoint.connection->socket.segment_bytes() > most) return;
        int bytes = shared_.shorten_packets(endpoint.ends.own);
        if (bytes != 0)
            LOG(warn, btl, messages::long_packets, endpoint.peer, endpoint.ends.own,
                endpoint.ends.text, bytes);
    }
    void attend(TcpEndpoint& endpoint) override {
        if (endpoint.state == State::up && endpoint.connection->blocked()) owe();
        if (!std::exchange(endpoint.attended, true)) attention_.push_back(&endpoint);
    }
    Counters& counters() override { return counters_; }
    Clock& clock() override { return clock_; }
    void long_payload_comes() override { long_came_at_ = clock_.now(); }
    bool receives_long() override {
        return long_came_at_ != 0 && clock_.now() - long_came_at_ < kLately;
    }

    bool watch_output(TcpEndpoint& endpoint, bool output) {
        if (!endpoint.connection || endpoint.output_waits == output) return true;
        endpoint.output_waits = output;
        return poller_.change(endpoint.connection->socket.descriptor(), endpoint.token(), output)
            .ok();
    }
    bool watch_all() {
        awake_polls_ = 0;
        return readers_.watch_all();
    }
    void drop(TcpEndpoint& endpoint) {
        if (endpoint.connection) poller_.remove(endpoint.connection->socket.descriptor());
        endpoint.connection.reset();
        endpoint.handshake.reset();
        endpoint.output_waits = false;
    }
    TcpEndpoint& endpoint_of(int peer) {
        auto& slot = endpoints_[peer];
        if (slot) return *slot;
        slot = std::make_unique<TcpEndpoint>(*this, peer, params_);
        return *slot;
    }

    // ---- making connections

    Status find_key() {
        if (!options_.find_key) return {};
        TRY(options_.find_key(*options_.identity));
        options_.find_key = nullptr;
        return {};
    }

    Nanoseconds connect_timeout() const {
        return static_cast<Nanoseconds>(params_.connect_timeout_ms) * 1000000;
    }
    void make_plan(TcpEndpoint& endpoint) {
        const auto& places = endpoint.address.places;
        tcp::AttemptsAsked asked{options_.identity->rank < endpoint.peer,
                                 static_cast<size_t>(options_.path)};
        endpoint.begin_round(options_.makes_paths
                                 ? tcp::attempts_for(shared_.places(), places, asked)
                                 : tcp::attempts_at_each(places));
    }
    // The next address has its turn.
    void start_connecting(TcpEndpoint& endpoint) {
        attend(endpoint);
        Nanoseconds now = clock_.now();
        if (endpoint.deadline == 0) endpoint.deadline = now + connect_timeout();
        if (endpoint.plan.empty())
            return fail(endpoint,
                        Error{Code::refused, "No two interfaces reach each other", endpoint.peer});
        auto attempts = static_cast<Nanoseconds>(endpoint.plan.size());
        ++endpoint.next_attempt;
        ++endpoint.attempts;
        endpoint.attempt_until = now + (options_.makes_paths ? endpoint.connect_patience()
                                                             : connect_timeout() / attempts);
        const tcp::Attempt& attempt = endpoint.attempt();
        const tcp::Place& to = endpoint.address.places[attempt.peer];
        const tcp::Place* from = nullptr;
        if (attempt.own >= 0) from = &shared_.places()[static_cast<size_t>(attempt.own)];
        endpoint.ends = tcp::ends_of(from, &to, to.ip);
        if (conflicts(endpoint)) return retry(endpoint, kConflict);
        tcp::End own{from ? from->ip : tcp::Ip{}, endpoint.ends.own,
                     from && from->kind != tcp::InterfaceKind::loopback};
        const tcp::Place* scope = from ? from : tcp::own_place_of(shared_.places(), to);
        auto socket = Socket::connect(
            from ? &own : nullptr, tcp::End{to.ip, scope ? scope->interface : ""}, to.port,
            params_.tcp_socket_buffer, shared_.packet_bytes(scope ? scope->interface : ""));
        if (!socket.ok()) return retry(endpoint, socket.error());
        endpoint.initiator = true;
        endpoint.state = State::connecting;
        take(endpoint, std::make_unique<Connection>(std::move(*socket)));
    }
    // Does another path to this peer go by one of its interfaces?
    bool conflicts(const TcpEndpoint& endpoint) const {
        return options_.makes_paths && !shared_.several_alike() &&
               shared_.used_by_others(this, endpoint.peer, endpoint.ends);
    }
    bool take(TcpEndpoint& endpoint, std::unique_ptr<Connection> connection) {
        endpoint.connection = std::move(connection);
        endpoint.out_of_set = false;
        auto added = poller_.add(endpoint.connection->socket.descriptor(), endpoint.token());
        if (!added.ok()) fail(endpoint, added.error());
        return added.ok();
    }
    // This attempt has failed.
    void retry(TcpEndpoint& endpoint, Error why) {
        drop(endpoint);
        endpoint.state = State::idle;
        Nanoseconds now = clock_.now();
        why.peer = endpoint.peer;
        size_t attempts = endpoint.plan.size();
        if (!options_.makes_paths) {
            endpoint.retry_at = now + kRetryPause;
            if (now > endpoint.deadline && endpoint.attempts >= kAttemptsLeast * attempts)
                fail(endpoint, why);
            return;
        }
        endpoint.note_failure(why, why.what == kConflict.what);
        endpoint.retry_at = now;
        if (endpoint.attempts < attempts) return;
        endpoint.end_round(now, !shared_.any_up(endpoint.peer));
        fail(endpoint, endpoint.first_why);
    }
    void admit(std::unique_ptr<Connection>& stranger, link::Handshake& handshake) override {
        using Met = link::Handshake::State;
        int from = handshake.peer();
        if (handshake.state() == Met::different) return differ(from, handshake);
        TcpEndpoint& peer = endpoint_of(from);
        if (!takes(peer, handshake)) return;
        drop(peer);
        if (options_.on_peer) options_.on_peer(from);
        peer.initiator = false;
        if (take(peer, std::move(stranger))) agree(peer, handshake);
    }
    // Is this connection from the peer to be used?
    bool takes(TcpEndpoint& peer, const link::Handshake& handshake) {
        bool decides = handshake.state() == link::Handshake::State::decide;
        if (peer.state == State::gone) return options_.makes_paths;
        if (peer.state < State::met) return decides || handshake.number() > peer.decision;
        // Does the peer know the one that is up, and has it left that?
        bool newer =
            decides ? handshake.seen() == peer.decision
                    : handshake.number() > peer.decision && handshake.peer_path() == peer.peer_path;
        if (newer)
            fail(peer, Error{Code::peer_gone, "The peer has left the TCP connection", peer.peer});
        return newer && options_.makes_paths;
    }
    // Both ends have proved themselves, and this connection is the one.
    void agree(TcpEndpoint& peer, link::Handshake& handshake) {
        if (handshake.state() == link::Handshake::State::decide)
            handshake.accept(shared_.next_decision());
        peer.decision = handshake.number();
        peer.peer_path = handshake.peer_path();
        Connection& c = *peer.connection;
        peer.find_ends(shared_);
        peer.rounds = 0;
        peer.rest_until = 0;
        peer.was_up = true;
        peer.up_at = clock_.now();
        if (peer.initiator) peer.good_attempt = peer.next_attempt - 1;
        c.queue(handshake.take_output());
        c.in_begin = c.in_end = 0;
        if (!peer.initiator) watch_peer(c);
        peer.state = State::met;
        peer.tell_up = true;
        attend(peer);
        if (!c.flush()) return fail(peer, os_error(Code::peer_gone, "The connection broke"));
        if (handshake.encrypted() && !peer.seal(*options_.identity->crypto, handshake.keys()))
            fail(peer, Error{Code::io, "The connection has no room"});
    }
    void watch_peer(Connection& connection) {
        if (options_.silence > 0)
            connection.socket.watch_peer(static_cast<int>(options_.silence / 1'000'000));
    }
    void differ(int peer, const link::Handshake& handshake) {
        if (options_.on_difference) options_.on_difference(peer, handshake.peer_facts());
    }
    // The sink may hear of it now.
    void come_up(TcpEndpoint& peer, Sink& sink) {
        peer.tell_up = false;
        peer.state = State::up;
        peer.handshake.reset();
        readers_.add(peer);
        sink.up(peer.peer);
    }

    // Moves an own attempt to connect on.
    void advance(TcpEndpoint& peer) {
        if (peer.state == State::idle) {
            if (clock_.now() >= peer.retry_at) start_connecting(peer);
            return;
        }
        Connection& c = *peer.connection;
        if (peer.state == State::connecting) {
            int finished = c.socket.finished();
            if (finished == 0 && clock_.now() > peer.attempt_until)
                return retry(peer, Error{Code::timed_out, "The connection took too long"});
            if (finished < 0) return retry(peer, os_error(Code::refused, "Cannot connect"));
            if (finished == 0) return;
            watch_peer(c);  // its machine may vanish before the peer answers
            peer.find_ends(shared_);
            if (conflicts(peer)) return retry(peer, kConflict);
            if (options_.makes_paths && peer.ends.own.empty()) return retry(peer, kElsewhere);
            if (options_.makes_paths) peer.attempt_until = clock_.now() + peer.answer_patience();
            link::Nonce nonce;
            if (!random_bytes(nonce))
                return fail(peer, os_error(Code::io, "The system has no random numbers"));
            peer.handshake = std::make_unique<link::Handshake>(
                link::Handshake::dial(*options_.identity, peer.peer, options_.path, nonce,
                                      peer.decision, shared_.encrypts(c.socket)));
            peer.state = State::greeting;
        }
        greet(peer);
    }
    // Brings the handshake of an own attempt on.
    void greet(TcpEndpoint& peer) {
        using Met = link::Handshake::State;
        Connection& c = *peer.connection;
        link::Handshake& handshake = *peer.handshake;
        for (bool more = true; more;) {
            c.queue(handshake.take_output());
            if (!c.flush()) return retry(peer, os_error(Code::refused, "The connection broke"));
            if (handshake.state() != Met::waiting) break;
            count(counters_.tcp_reads);
            more = false;
            ssize_t got = c.read_in(std::min(handshake.wants(), tcp::kReadMost), more);
            // Closed without a welcome: crossed with the peer's own connection, which will come.
            if (got < 0) return retry(peer, os_error(Code::refused, "The connection was refused"));
            handshake.feed({c.in.data(), c.in_end});
            c.in_end = 0;
        }
        if (handshake.state() == Met::waiting) return wait_for_peer(peer);
        if (handshake.state() == Met::different) {
            differ(peer.peer, handshake);
            return fail(peer,
                        Error{Code::refused, "The two ranks were set differently", peer.peer});
        }
        if (handshake.state() == Met::refused ||
            (handshake.state() == Met::done && handshake.number() <= peer.decision))
            return retry(peer, Error{Code::refused, "Somebody else answered", peer.peer});
        agree(peer, handshake);
    }
    // A peer that is busy outside MPI answers late, which is no failure. But where it has several
    // addresses, it may not be the peer that is silent at this one.
    void wait_for_peer(TcpEndpoint& peer) {
        Nanoseconds now = clock_.now();
        if (peer.plan.size() == 1 || now < peer.attempt_until || peer.handshake->proved()) return;
        peer.deadline = now + connect_timeout();
        retry(peer, Error{Code::timed_out, "The peer did not answer"});
    }

    // ---- turns

    // Asks which connections have bytes, and lets in who has proved to be of this job.
    void look() {
        void* found[kReadyMost];
        ready_.clear();
        count(counters_.tcp_looks);
        int number = poller_.ready(found, kReadyMost);
        for (int i = 0; i < number; ++i) {
            auto& entry = *static_cast<Watched*>(found[i]);
            if (entry.kind != Watched::Kind::endpoint) strangers_.ready(entry);
            else if (auto& endpoint = static_cast<TcpEndpoint&>(entry); endpoint.reads()) {
                ready_.push_back(&endpoint);
                readers_.found(endpoint);
            }
        }
        strangers_.turn();
        // What was decrypted and not read yet is known to nobody else.
        for (TcpEndpoint* each : attention_)
            if (each->reads() && each->connection->socket.buffered() &&
                std::find(ready_.begin(), ready_.end(), each) == ready_.end())
                ready_.push_back(each);
    }
    // The system's own buffers hold more.
    size_t wakes_at_most() const {
        uint64_t buffer = params_.tcp_socket_buffer;
        if (buffer == 0) return tcp::kWakeAt;
        return std::clamp<size_t>(static_cast<size_t>(buffer) / 4, 1, tcp::kWakeAt);
    }
    // What there is to do without bytes that arrive.
    void attend_all(Sink& sink) {
        for (size_t i = 0; i < attention_.size(); ++i) attend_one(*attention_[i], sink);
        std::erase_if(attention_, [this](TcpEndpoint* each) {
            const Connection* c = each->connection.get();
            bool busy = c && (each->state < State::up || c->blocked() || c->refused ||
                              (each->state == State::up && c->paced) || each->reads_last() ||
                              c->socket.buffered());
            bool waits = each->state == State::idle || each->tell_gone || each->tell_up;
            bool closes = each->connection && each->state == State::gone;
            each->attended = busy || waits || closes;
            if (c && c->has_output()) owe();
            // Another thread may sleep, which had it watched for room.
            if (!each->attended) watch_output(*each, false);
            return !each->attended;
        });
    }
    void attend_one(TcpEndpoint& peer, Sink& sink) {
        if (peer.connection) peer.connection->refused = false;  // it is tried again
        if (peer.reads_last()) read_last(peer, sink);
        else if (peer.state == State::up && peer.connection->has_output() &&
                 !peer.connection->flush())
            peer.end_output();
        if (peer.state == State::up && peer.connection->paced) peer.connection->pace(clock_.now());
        if (peer.state == State::gone) drop(peer);
        if (std::exchange(peer.tell_gone, false)) sink.gone(peer.peer, peer.why);
        if (peer.state < State::met) advance(peer);
        if (peer.state == State::met) come_up(peer, sink);
    }
    // What the peer sent before its end; then there is nothing more.
    void read_last(TcpEndpoint& peer, Sink& sink) {
        int handed = 0;
        bool moved = false;
        Error why = peer.why;
        if (!peer.receive(sink, kLastFrames, handed, moved) || !moved) fail(peer, why);
    }
    // The number of frames handed on; at least 1 when bytes arrived.
    int serve(TcpEndpoint& peer, Sink& sink, int most) {
        int handed = 0;
        bool moved = false;
        if (peer.reads() && !peer.receive(sink, most, handed, moved)) fail(peer, peer.broken());
        if (peer.connection && peer.connection->socket.buffered()) [[unlikely]]
            attend(peer);
        if (moved) readers_.moved(peer);
        return std::max<int>(handed, moved);
    }

    const Params& params_;
    Counters& counters_;
    TcpOptions options_;
    tcp::Shared& shared_;
    RealClock clock_;
    Nanoseconds long_came_at_ = 0;
    unsigned polls_ = 0, quiet_polls_ = 0;  // quiet: without a frame, in a row
    std::unordered_map<int, std::unique_ptr<TcpEndpoint>> endpoints_;  // by peer
    std::vector<TcpEndpoint*> attention_;  // with something to do though no bytes arrive
    std::vector<TcpEndpoint*> ready_;      // can be read from, and look() found bytes there
    bool stopped_reading_ = false;         // some cannot be read from any more
    bool left_ = false;                    // some have output that is the AwayWriter's
    bool armed_ = false;  // a thread sleeps on the set, while another may poll: nobody leaves it
    unsigned awake_polls_ = 0;  // since the last arm()
    tcp::Poller poller_;
    tcp::Readers readers_{poller_};
    tcp::Strangers strangers_;
};

}  // namespace

Result<std::unique_ptr<Transport>> make_tcp_transport(const Params& params, Counters& counters,
                                                      TcpOptions options) {
    if (params.tcp_streams > kStreamsMost)
        return Error{Code::invalid_argument, "tcp_streams must be between 0 and 8"};
    if (!options.shared) options.shared = TRY(tcp::Shared::open(params, options.loopback_only));
    auto poller = TRY(tcp::Poller::make());
    auto made =
        std::make_unique<TcpTransport>(params, counters, std::move(options), std::move(poller));
    TRY(made->begin());
    return std::unique_ptr<Transport>(std::move(made));
}

}  // namespace pomona
