// pmix/wireup/by_hand_rank.cc: the ranks from 1 of those that were started by hand (by_hand.h):
// they look for rank 0, and ask it.
#include "btl/base/clock.h"
#include "btl/base/entropy.h"
#include "btl/base/format.h"
#include "btl/base/log.h"
#include "btl/base/messages.h"
#include "btl/tcp/handshake_by_socket.h"
#include "pmix/wireup/by_hand.h"
#include "pmix/wireup/meeting.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

namespace pomona {

namespace {

constexpr double kConnectSeconds = 3;    // of one address
constexpr int kPauseMost = 1000;         // milliseconds between two rounds
constexpr int kRootSilent = 10'000;      // milliseconds; its system does not answer
constexpr double kStrangerSeconds = 15;  // in which somebody who listens says nothing
constexpr size_t kPlacesMost = 16;

double steady_now() { return static_cast<double>(RealClock().now()) * 1e-9; }

// True when the descriptor is ready before the end.
bool ready(int descriptor, short events, double end) {
    for (double left; (left = end - steady_now()) > 0;) {
        pollfd looked{descriptor, events, 0};
        if (poll(&looked, 1, static_cast<int>(std::min(left, 1.0) * 1e3) + 1) > 0) return true;
    }
    return false;
}

class Line {
public:
    Line(const ByHand& hand, link::Identity identity)
        : hand_(hand), identity_(std::move(identity)) {}

    Status connect() {
        const double begun = steady_now(), end = begun + hand_.wait_seconds;
        bool told = false;
        for (int pause = 50;; pause = std::min(2 * pause, kPauseMost)) {
            std::string why;
            std::vector<tcp::End> places = places_of(hand_.host, why);
            if (places.empty()) answer_ = why;
            for (const tcp::End& place : places) {
                if (TRY(let_in_at(place))) return {};
                if (steady_now() > end) break;
            }
            double now = steady_now();
            if (now > end) {
                LOG(error, pmix, "rank {}: {}", hand_.rank,
                    format(messages::by_hand_root_late, hand_.host, hand_.port, hand_.wait_seconds,
                           answer_));
                return Error{Code::timed_out, "Rank 0 was not reached", 0};
            }
            if (!told && now - begun > kMeetingTellAfter) {
                told = true;
                LOG(warn, pmix, "rank {}: {}", hand_.rank,
                    format(messages::by_hand_root_waits, hand_.host, hand_.port, answer_,
                           hand_.wait_seconds));
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(pause));
        }
    }

    Status wait_for_all() {
        const double end = steady_now() + hand_.wait_seconds;
        std::string missing;
        for (;;) {
            auto frame = TRY(next(end));
            if (!frame) break;
            if (frame->word == MeetingWord::all_here) return {};
            if (frame->word != MeetingWord::missing) return misunderstood();
            if (missing.empty()) LOG(warn, pmix, "rank {}: {}", hand_.rank, sentence_of(*frame));
            missing = sentence_of(*frame);
        }
        LOG(error, pmix, "rank {}: the others did not come within {:.0f} s. {}", hand_.rank,
            hand_.wait_seconds, missing);
        return Error{Code::timed_out, "Not all ranks have come"};
    }

    Status put(const std::string& key, ConstBytes value) {
        std::vector<std::byte> entry = meeting_entry(key, value);
        if (entry.size() >= kMeetingFrameMost)
            return Error{Code::internal, "A value is too long for the table of rank 0"};
        return say(meeting_frame(MeetingWord::put, entry));
    }

    Result<std::vector<std::byte>> get(const std::string& key) {
        Writer question;
        question.put_text(key);
        TRY(say(meeting_frame(MeetingWord::get, question.bytes())));
        auto frame = TRY(next(steady_now() + hand_.wait_seconds));
        if (!frame) return Error{Code::timed_out, messages::table_rank_late};
        if (frame->word != MeetingWord::value) return misunderstood();
        return std::move(frame->contents);
    }

    void leave() {
        (void)say(meeting_frame(MeetingWord::bye, {})).ok();
        socket_.take_leave();
        socket_.close();
    }

private:
    static std::string sentence_of(const MeetingFrames::Frame& frame) {
        std::string out(text_of(frame.contents));
        for (char& letter : out)
            if (static_cast<unsigned char>(letter) < ' ') letter = ' ';
        return out;
    }

    Error misunderstood() const {
        LOG(error, pmix, "rank {}: rank 0 says what was not asked", hand_.rank);
        return {Code::malformed, "What rank 0 says does not parse", 0};
    }

    // At one of its addresses: true when it has let us in, false to try again.
    Result<bool> let_in_at(const tcp::End& place) {
        attempt_begun_ = steady_now();
        auto made = tcp::Socket::connect(nullptr, place, hand_.port, 0);
        if (!made.ok()) return answered(os_text(made.error().os_errno));
        tcp::Socket socket = std::move(*made);
        if (!ready(socket.descriptor(), POLLOUT, steady_now() + kConnectSeconds))
            return answered("no answer");
        if (socket.finished() <= 0) return answered(os_text(errno));
        link::Nonce nonce;
        if (!random_bytes(nonce)) return os_error(Code::io, "The system has no random numbers");
        link::Handshake handshake = link::Handshake::dial(identity_, 0, 0, nonce, 0);
        bool going = tcp::write_answer(socket, handshake);
        const double end = steady_now() + kMeetingGreeting;
        while (going && handshake.state() == link::Handshake::State::waiting &&
               ready(socket.descriptor(), POLLIN, end))
            going = tcp::read_and_answer(socket, handshake);
        switch (handshake.state()) {
        case link::Handshake::State::done:
            tcp::seal_by(socket, *identity_.crypto, handshake, true);
            socket.watch_peer(kRootSilent);
            socket_ = std::move(socket);
            return true;
        case link::Handshake::State::waiting:
            return nothing_said(going ? "somebody takes the connection and says nothing"
                                      : "somebody takes the connection and closes it");
        case link::Handshake::State::different: {
            std::string who = format("rank {}", hand_.rank);
            LOG(error, pmix, "{}: {}", who,
                format(messages::by_hand_differs, "rank 0", hand_.host,
                       difference_of({"rank 0", handshake.peer_facts()},
                                     {who, identity_.fingerprint})));
            return Error{Code::refused, "Rank 0 has other variables", 0};
        }
        default: return stranger(format("who answers there {}", handshake.why()));
        }
    }

    bool answered(const std::string& what) {
        answer_ = what;
        nothing_said_since_ = 0;
        return false;
    }

    // Who stands between closes connections while rank 0 is not there, and rank 0 itself may stand
    // still for a while; torch's store does either at all times.
    Result<bool> nothing_said(const char* what) {
        answer_ = what;
        if (nothing_said_since_ == 0) nothing_said_since_ = attempt_begun_;
        if (steady_now() - nothing_said_since_ < kStrangerSeconds) return false;
        return stranger(answer_);
    }

    Error stranger(const std::string& what) const {
        LOG(error, pmix, "rank {}: {}", hand_.rank,
            format(messages::by_hand_stranger, hand_.host, hand_.port, what));
        return {Code::refused, "Who listens at MASTER_PORT is not rank 0 of this job", 0};
    }

    Status say(const std::vector<std::byte>& frame) {
        const double end = steady_now() + hand_.wait_seconds;
        ConstBytes left(frame);
        while (!left.empty() || socket_.unsent()) {
            if (!socket_.flush()) return root_gone();
            ssize_t took = left.empty() ? 0 : socket_.write(left, {});
            if (took < 0) return root_gone();
            left = left.subspan(static_cast<size_t>(took));
            if ((!left.empty() || socket_.unsent()) && !ready(socket_.descriptor(), POLLOUT, end))
                return root_gone();
        }
        return {};
    }

    // None: the time is over.
    Result<std::optional<MeetingFrames::Frame>> next(double end) {
        for (;;) {
            if (auto frame = frames_.next()) {
                if (frame->word != MeetingWord::failed)
                    return std::optional<MeetingFrames::Frame>(std::move(*frame));
                LOG(error, pmix, "rank {}: {}", hand_.rank, sentence_of(*frame));
                return Error{Code::peer_gone, "The ranks have not met"};
            }
            if (frames_.failed()) return misunderstood();
            std::byte bytes[16 << 10];
            ssize_t got = socket_.read(bytes, {});
            if (got < 0) return root_gone();
            frames_.feed({bytes, static_cast<size_t>(std::max<ssize_t>(got, 0))});
            if (got == 0 && !ready(socket_.descriptor(), POLLIN, end))
                return std::optional<MeetingFrames::Frame>();
        }
    }

    Error root_gone() const {
        LOG(error, pmix, "rank {}: {}", hand_.rank, format(messages::by_hand_lost, 0));
        return {Code::peer_gone, "Rank 0 ended while MPI started", 0};
    }

    const ByHand hand_;
    const link::Identity identity_;
    tcp::Socket socket_;
    MeetingFrames frames_;
    std::string answer_ = "no answer";  // of the last attempt
    double attempt_begun_ = 0, nothing_said_since_ = 0;
};

}  // namespace

std::vector<tcp::End> places_of(const std::string& host, std::string& why) {
    addrinfo wish{}, *found = nullptr;
    wish.ai_socktype = SOCK_STREAM;
    std::vector<tcp::End> out;
    if (int error = getaddrinfo(host.c_str(), nullptr, &wish, &found); error != 0) {
        why = format("its name is not known here: {}", gai_strerror(error));
        return out;
    }
    for (const addrinfo* each = found; each && out.size() < kPlacesMost; each = each->ai_next) {
        auto ip = tcp::Ip::of(each->ai_addr);
        if (!ip) continue;
        tcp::End end{*ip};
        char name[IF_NAMESIZE] = "";
        if (ip->six) {
            auto scope = reinterpret_cast<const sockaddr_in6*>(each->ai_addr)->sin6_scope_id;
            if (scope != 0 && if_indextoname(scope, name)) end.interface = name;
        }
        out.push_back(std::move(end));
    }
    freeaddrinfo(found);
    if (out.empty()) why = "its name has no address";
    return out;
}

Result<MeetingTable> meet_root(const ByHand& hand) {
    auto line = std::make_shared<Line>(hand, TRY(identity_by_hand(hand)));
    TRY(line->connect());
    TRY(line->wait_for_all());
    return table_of(hand, line);
}

}  // namespace pomona
