// pmix/wireup/by_hand_root.cc: rank 0 of ranks that were started by hand (by_hand.h): it listens
// while MPI starts, and a thread of its own serves the table.
#include "btl/base/clock.h"
#include "btl/base/entropy.h"
#include "btl/base/format.h"
#include "btl/base/log.h"
#include "btl/base/messages.h"
#include "btl/tcp/handshake_by_socket.h"
#include "btl/tcp/interfaces.h"
#include "pmix/wireup/by_hand.h"
#include "pmix/wireup/meeting.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <list>
#include <mutex>
#include <thread>

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace pomona {

namespace {

constexpr size_t kCallersSpare = 64;  // that have not proved anything yet, beside one a rank
constexpr double kLastWords = 2;      // seconds for what is still to be said at the end
constexpr double kOthersLeave = 30;   // until all others have what they need
constexpr int kPeerSilent = 10'000;   // milliseconds; its system does not answer
constexpr int kLookMilliseconds = 200;

double steady_now() { return static_cast<double>(RealClock().now()) * 1e-9; }

// On all interfaces, for IPv6 and IPv4, or for the one that this system has.
Result<tcp::Socket> listen_at(uint16_t port) {
    for (bool six : {true, false}) {
        tcp::Socket made = tcp::Socket::adopt(socket(six ? AF_INET6 : AF_INET, SOCK_STREAM, 0));
        if (!made.open()) continue;
        int yes = 1, no = 0;
        setsockopt(made.descriptor(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
        sockaddr_in6 any_six{};
        sockaddr_in any{};
        any_six.sin6_family = AF_INET6;
        any.sin_family = AF_INET;
        any_six.sin6_port = any.sin_port = htons(port);
        any_six.sin6_addr = in6addr_any;
        any.sin_addr.s_addr = htonl(INADDR_ANY);
        if (six) setsockopt(made.descriptor(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
        int bound =
            six ? bind(made.descriptor(), reinterpret_cast<sockaddr*>(&any_six), sizeof any_six)
                : bind(made.descriptor(), reinterpret_cast<sockaddr*>(&any), sizeof any);
        if (bound == 0 && listen(made.descriptor(), 256) == 0) return made;
        if (errno == EADDRINUSE || errno == EACCES) break;
    }
    return os_error(Code::refused, "Rank 0 cannot listen at MASTER_PORT");
}

// Of IPv4, as people write it, though the listener is one for both.
std::string caller_of(const tcp::Socket& socket) {
    constexpr std::string_view kMapped = "::ffff:";
    auto ip = socket.peer_ip();
    std::string out = ip ? ip->text() : "an unknown address";
    return out.starts_with(kMapped) ? out.substr(kMapped.size()) : out;
}

class Root {
public:
    Root(const ByHand& hand, link::Identity identity, tcp::Socket listener)
        : hand_(hand), identity_(std::move(identity)), listener_(std::move(listener)),
          board_(hand.size) {}

    ~Root() {
        {
            std::lock_guard lock(mutex_);
            stopping_ = true;
        }
        wake();
        if (thread_.joinable()) thread_.join();
        for (int end : wake_)
            if (end >= 0) close(end);
    }

    Status begin() {
        if (pipe(wake_) != 0) return os_error(Code::io, "No pipe");
        for (int end : wake_) {
            fcntl(end, F_SETFD, FD_CLOEXEC);
            fcntl(end, F_SETFL, O_NONBLOCK);
        }
        // The program's signals are for its own threads.
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        thread_ = std::thread([this] { serve(); });
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
        return {};
    }

    Status wait_for_all() {
        const double begun = steady_now();
        std::unique_lock lock(mutex_);
        while (!board_.complete()) {
            double waited = steady_now() - begun;
            if (waited > hand_.wait_seconds) {
                std::string sentence =
                    format(messages::by_hand_late, absent(), hand_.wait_seconds, strangers());
                LOG(error, pmix, "rank 0: {}", sentence);
                board_.fail(sentence);
                return Error{Code::timed_out, "Not all ranks have come"};
            }
            if (waited > kMeetingTellAfter && !told_) {
                lock.unlock();
                std::string elsewhere = not_here();  // may take long
                lock.lock();
                told_ = true;
                if (board_.complete()) break;
                LOG(warn, pmix, "rank 0: {}{}", waits(), elsewhere);
                board_.tell_missing(waits());
                wake();
            }
            changed_.wait_for(lock, std::chrono::milliseconds(kLookMilliseconds));
        }
        return {};
    }

    Status put(const std::string& key, ConstBytes value) {
        std::lock_guard lock(mutex_);
        if (!board_.put(key, value))
            return Error{Code::internal, "The table of rank 0 takes no more"};
        wake();
        return {};
    }

    Result<std::vector<std::byte>> get(const std::string& key) {
        const double end = steady_now() + hand_.wait_seconds;
        std::unique_lock lock(mutex_);
        for (;;) {
            if (const auto* found = board_.find(key)) return *found;
            if (board_.lost() >= 0) {
                LOG(error, pmix, "rank 0: {}", format(messages::by_hand_lost, board_.lost()));
                return Error{Code::peer_gone, "A rank ended while MPI started", board_.lost()};
            }
            if (steady_now() > end) return Error{Code::timed_out, messages::table_rank_late};
            changed_.wait_for(lock, std::chrono::milliseconds(kLookMilliseconds));
        }
    }

    // MPI runs here: until the others have read what they need.
    void leave() {
        const double end = steady_now() + kOthersLeave;
        std::unique_lock lock(mutex_);
        while (!board_.over() && steady_now() < end)
            changed_.wait_for(lock, std::chrono::milliseconds(kLookMilliseconds));
    }

private:
    // A connection that has not proved anything yet.
    struct Caller {
        tcp::Socket socket;
        link::Handshake handshake;
        double deadline;
        std::string from;
    };
    struct Peer {
        int rank;  // -1: is told why it may not stay
        tcp::Socket socket;
        MeetingFrames frames;
        std::vector<std::byte> out;
        bool over = false;

        bool to_write() const { return !out.empty() || socket.unsent(); }
    };

    void wake() { (void)!write(wake_[1], "", 1); }

    // ---- for the user; with the lock held
    std::string absent() const {
        std::vector<int> ranks = board_.missing();
        return (ranks.size() == 1 ? "rank " : "ranks ") + list_of_ranks(ranks);
    }
    std::string waits() const {
        return format(messages::by_hand_waits, absent(), hand_.size, hand_.wait_seconds,
                      strangers());
    }
    std::string strangers() const {
        if (refused_ == 0) return {};
        return format("; {} connection{} refused, the last one {}", refused_,
                      refused_ == 1 ? " was" : "s were", last_refusal_);
    }
    // Another host's address in MASTER_ADDR leads the others there.
    std::string not_here() const {
        std::string why;
        std::vector<tcp::End> ends = places_of(hand_.host, why);
        std::vector<tcp::Interface> own = tcp::list_interfaces();
        bool here = std::any_of(ends.begin(), ends.end(), [&](const tcp::End& end) {
            return end.ip.loopback() ||
                   std::any_of(own.begin(), own.end(),
                               [&](const tcp::Interface& each) { return each.ip() == end.ip; });
        });
        return here ? "" : format("; MASTER_ADDR {} is no address of this host", hand_.host);
    }

    // ---- the thread
    void serve() {
        double end = 0;  // once stopping
        for (;;) {
            std::vector<pollfd> looked = what_to_look_at();
            poll(looked.data(), static_cast<nfds_t>(looked.size()), kLookMilliseconds);
            char heap[64];
            while (read(wake_[0], heap, sizeof heap) > 0) {}
            std::lock_guard lock(mutex_);
            if (!stopping_) {
                take_callers();
                hear_callers();
                hear_peers();
            }
            hand_out();
            changed_.notify_all();
            if (!stopping_) continue;
            if (end == 0) end = steady_now() + kLastWords;
            bool any = std::any_of(peers_.begin(), peers_.end(),
                                   [](const Peer& each) { return each.to_write(); });
            if (!any || steady_now() > end) break;
        }
        for (Peer& each : peers_) each.socket.take_leave();
    }

    std::vector<pollfd> what_to_look_at() {
        std::lock_guard lock(mutex_);
        std::vector<pollfd> out = {{wake_[0], POLLIN, 0}, {listener_.descriptor(), POLLIN, 0}};
        for (const Caller& each : callers_) out.push_back({each.socket.descriptor(), POLLIN, 0});
        for (const Peer& each : peers_)
            out.push_back({each.socket.descriptor(),
                           static_cast<short>(POLLIN | (each.to_write() ? POLLOUT : 0)), 0});
        return out;
    }

    void take_callers() {
        for (;;) {
            tcp::Socket socket = listener_.accept();
            link::Nonce nonce;
            if (!socket.open() || !random_bytes(nonce)) return;
            if (callers_.size() >= kCallersSpare + static_cast<size_t>(hand_.size)) {
                refuse(callers_.front(),
                       "made room for others, as too many did not say who they are");
                callers_.pop_front();
            }
            std::string from = caller_of(socket);
            callers_.push_back(
                {std::move(socket),
                 link::Handshake::listen(identity_, link::Handshake::kDialersPath, nonce),
                 steady_now() + kMeetingGreeting, std::move(from)});
        }
    }

    void refuse(const Caller& caller, const std::string& why) {
        ++refused_;
        last_refusal_ = format("({}) {}", caller.from, why);
    }

    void hear_callers() {
        for (auto each = callers_.begin(); each != callers_.end();)
            each = hear(*each) ? std::next(each) : callers_.erase(each);
    }

    // False: its place is free again.
    bool hear(Caller& caller) {
        if (!tcp::read_and_answer(caller.socket, caller.handshake)) {
            refuse(caller, messages::by_hand_unproved);
            return false;
        }
        switch (caller.handshake.state()) {
        case link::Handshake::State::waiting:
            if (steady_now() < caller.deadline) return true;
            refuse(caller, "did not say who it is");
            return false;
        case link::Handshake::State::decide: let_in(caller); return false;
        case link::Handshake::State::different: {
            std::string who = format("rank {}", caller.handshake.peer());
            std::string difference = difference_of({"rank 0", identity_.fingerprint},
                                                   {who, caller.handshake.peer_facts()});
            LOG(warn, pmix, "rank 0: {}",
                format(messages::by_hand_differs, who, caller.from, difference));
            refuse(caller, "has other variables");
            caller.socket.take_leave();
            return false;
        }
        default: refuse(caller, caller.handshake.why()); return false;
        }
    }

    void let_in(Caller& caller) {
        int rank = caller.handshake.peer();
        caller.handshake.accept(1);
        if (!tcp::write_answer(caller.socket, caller.handshake)) return;
        tcp::seal_by(caller.socket, *identity_.crypto, caller.handshake, false);
        caller.socket.watch_peer(kPeerSilent);
        if (board_.arrive(rank)) {
            peers_.push_back({rank, std::move(caller.socket), {}, {}});
            if (told_ && !board_.complete()) board_.tell_missing(waits());
            return;
        }
        std::string sentence = format(messages::by_hand_twice, caller.from, rank);
        LOG(warn, pmix, "rank 0: {}", sentence);
        peers_.push_back({-1,
                          std::move(caller.socket),
                          {},
                          meeting_frame(MeetingWord::failed, bytes_of(sentence))});
    }

    void hear_peers() {
        for (Peer& each : peers_) {
            std::byte bytes[16 << 10];
            for (ssize_t got; !each.over && (got = each.socket.read(bytes, {})) != 0;) {
                if (got < 0) each.over = true;
                else if (each.rank >= 0) take(each, {bytes, static_cast<size_t>(got)});
            }
        }
        sweep();
    }

    void take(Peer& from, ConstBytes bytes) {
        from.frames.feed(bytes);
        while (auto frame = from.over ? std::nullopt : from.frames.next())
            from.over = !board_.take(from.rank, frame->word, frame->contents);
        if (from.frames.failed()) from.over = true;
    }

    void hand_out() {
        for (MeetingBoard::Said& said : board_.take_output())
            for (Peer& each : peers_)
                if (each.rank == said.rank)
                    each.out.insert(each.out.end(), said.frame.begin(), said.frame.end());
        for (Peer& each : peers_) {
            if (each.over) continue;
            each.over = !each.socket.flush();
            ssize_t took = each.over || each.out.empty() ? 0 : each.socket.write(each.out, {});
            if (took < 0) each.over = true;
            else each.out.erase(each.out.begin(), each.out.begin() + took);
            if (each.rank >= 0 || each.to_write()) continue;
            each.socket.take_leave();
            each.over = true;
        }
        sweep();
    }

    // One that has been lost may be told to others in the next round.
    void sweep() {
        for (const Peer& each : peers_)
            if (each.over && each.rank >= 0) board_.leave(each.rank);
        peers_.remove_if([](const Peer& each) { return each.over; });
    }

    const ByHand hand_;
    const link::Identity identity_;
    tcp::Socket listener_;
    int wake_[2] = {-1, -1};
    std::thread thread_;
    std::mutex mutex_;  // what follows
    std::condition_variable changed_;
    MeetingBoard board_;
    std::list<Caller> callers_;  // the oldest first
    std::list<Peer> peers_;
    bool stopping_ = false, told_ = false;
    int refused_ = 0;
    std::string last_refusal_;
};

}  // namespace

Result<MeetingTable> meet_as_root(const ByHand& hand) {
    link::Identity identity = TRY(identity_by_hand(hand));
    auto listener = listen_at(hand.port);
    if (!listener.ok()) {
        LOG(error, pmix, "{}",
            format(messages::by_hand_port, hand.port, os_text(listener.error().os_errno)));
        return listener.error();
    }
    auto root = std::make_shared<Root>(hand, std::move(identity), std::move(*listener));
    TRY(root->begin());
    TRY(root->wait_for_all());
    return table_of(hand, root);
}

}  // namespace pomona
