// btl/tcp/strangers.cc: see strangers.h.
#include "btl/tcp/strangers.h"

#include "btl/base/entropy.h"
#include "btl/base/log.h"
#include "btl/base/messages.h"

#include <cerrno>

namespace pomona::tcp {

// So many connections are taken in one turn: a flood of them must not keep a rank from its
// messages.
static constexpr int kAcceptMost = 16;
static constexpr size_t kHearMost = 1024;  // at once; a handshake's messages are shorter
static constexpr Nanoseconds kPause = 100'000'000;

Strangers::Strangers(const Params& params, Counters& counters, Clock& clock, Poller& poller,
                     std::vector<Socket> listeners, StrangersOptions options)
    : params_(params), counters_(counters), clock_(clock), poller_(poller),
      options_(std::move(options)) {
    for (Socket& each : listeners) listeners_.emplace_back(std::move(each));
}

Status Strangers::begin() {
    for (Listener& each : listeners_) {
        poller_.remove(each.socket.descriptor());  // after a pause: of those that came first
        TRY(poller_.add(each.socket.descriptor(), &each));
    }
    return {};
}

void Strangers::ready(Watched& entry) {
    if (entry.kind == Watched::Kind::listener) {
        static_cast<Listener&>(entry).ready = true;
        more_come_ = true;
        return;
    }
    static_cast<Stranger&>(entry).ready = true;
    any_ready_ = true;
}

void Strangers::turn() {
    Nanoseconds now = clock_.now();
    if (std::exchange(any_ready_, false)) {
        for (auto each = strangers_.begin(); each != strangers_.end();) {
            Entry looked_at = each++;
            if (std::exchange(looked_at->ready, false) && !greet(*looked_at)) send_away(looked_at);
        }
    }
    if (paused_until_ != 0 && now > paused_until_ && begin().ok()) paused_until_ = 0;
    if (std::exchange(more_come_, false))
        for (Listener& each : listeners_)
            if (std::exchange(each.ready, false)) accept_some(each);
    while (!strangers_.empty() && now > strangers_.front().deadline) {
        count(counters_.tcp_strangers);
        send_away(strangers_.begin());
    }
}

// Listeners stay ready, and nobody could sleep.
void Strangers::pause() {
    for (Listener& each : listeners_) poller_.remove(each.socket.descriptor());
    paused_until_ = clock_.now() + kPause;
    while (!strangers_.empty()) send_away(strangers_.begin());
}

void Strangers::accept_some(Listener& listener) {
    for (int i = 0; i < kAcceptMost; ++i) {
        Socket socket = listener.socket.accept();
        if (!socket.open()) {
            if (errno == EMFILE || errno == ENFILE) pause();
            return;
        }
        Nanoseconds patience = static_cast<Nanoseconds>(params_.tcp_greeting_ms) * 1'000'000;
        link::Nonce nonce;
        if (!random_bytes(nonce)) return;
        bool encrypts = options_.encrypts(socket);
        Stranger& made = strangers_.emplace_back(
            std::move(socket),
            link::Handshake::listen(*options_.identity, link::Handshake::kDialersPath, nonce,
                                    encrypts),
            clock_.now() + patience);
        if (!poller_.add(made.socket.descriptor(), &made).ok() || !greet(made))
            send_away(std::prev(strangers_.end()));
        if (strangers_.size() > params_.tcp_half_open) {
            refuse("made room for others, as too many do not say who they are");
            send_away(strangers_.begin());
        }
    }
}

// Reads what has come of a handshake, answers, and hands on who is of this job. False: the place is
// free again.
bool Strangers::greet(Stranger& stranger) {
    link::Handshake& handshake = stranger.handshake;
    while (handshake.state() == link::Handshake::State::waiting) {
        std::byte bytes[kHearMost];
        count(counters_.tcp_reads);
        ssize_t got = stranger.socket.read({bytes, std::min(sizeof bytes, handshake.wants())}, {});
        if (got == 0) return true;
        if (got < 0) {  // one that a rank has given up, mostly
            count(counters_.tcp_strangers);
            return false;
        }
        handshake.feed({bytes, static_cast<size_t>(got)});
        std::vector<std::byte> answer = handshake.take_output();
        // A new connection has room for it.
        if (!answer.empty() &&
            stranger.socket.write(answer, {}) != static_cast<ssize_t>(answer.size()))
            return false;
    }
    if (handshake.state() == link::Handshake::State::refused) return refuse(handshake.why()), false;
    poller_.remove(stranger.socket.descriptor());
    auto connection = std::make_unique<Connection>(std::move(stranger.socket));
    options_.admit(connection, handshake);
    return false;
}

void Strangers::send_away(Entry stranger) {
    if (stranger->socket.open()) poller_.remove(stranger->socket.descriptor());
    strangers_.erase(stranger);
}

// Says so at the 1st, the 10th, the 100th: a flood of strangers must not become one of lines.
void Strangers::refuse(const char* why) {
    count(counters_.tcp_strangers);
    ++refused_;
    uint64_t step = 1;
    while (step < refused_) step *= 10;
    if (step == refused_) LOG(warn, btl, messages::strangers, refused_, why);
}

}  // namespace pomona::tcp
