// pmix/launch/dial_back.cc: see dial_back.h.
#include "pmix/launch/dial_back.h"

#include "btl/base/clock.h"
#include "btl/base/entropy.h"
#include "btl/base/format.h"
#include "btl/base/messages.h"
#include "btl/tcp/handshake_by_socket.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

namespace pomona {

namespace {

constexpr std::string_view kInvitation = "pomona-dial-back 1";
constexpr size_t kPlacesMost = 16;
constexpr size_t kLineMost = 4096;
constexpr double kHearSeconds = 10;  // from a connection to the end of its handshake
constexpr double kNextSeconds =
    0.25;                            // an address gets this much more time than the next (RFC 8305)
constexpr double kAgainSeconds = 1;  // from the end of one round over all addresses to the next
constexpr size_t kCallersSpare =
    64;                     // connections that have not proved anything, beside one a host
constexpr int kMpirun = 0;  // its number in the handshake

double steady_now() { return static_cast<double>(RealClock().now()) * 1e-9; }

timeval time_of(double seconds) {
    timeval out{};
    out.tv_sec = static_cast<time_t>(seconds);
    out.tv_usec = static_cast<suseconds_t>((seconds - static_cast<double>(out.tv_sec)) * 1e6);
    return out;
}

std::string hex_of(const link::JobKey& key) {
    std::string out;
    for (std::byte each : key) out += format("{:02x}", static_cast<unsigned>(each));
    return out;
}

template <class T> bool number_of(std::string_view text, int base, T low, T high, T& out) {
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out, base);
    return error == std::errc() && end == text.data() + text.size() && out >= low && out <= high;
}

bool key_of(std::string_view text, link::JobKey& out) {
    if (text.size() != 2 * out.size()) return false;
    for (size_t i = 0; i < out.size(); ++i) {
        unsigned value = 0;
        if (!number_of(text.substr(2 * i, 2), 16, 0u, 255u, value)) return false;
        out[i] = static_cast<std::byte>(value);
    }
    return true;
}

std::string_view next_word(std::string_view& line) {
    line.remove_prefix(std::min(line.find_first_not_of(" \r"), line.size()));
    std::string_view word = line.substr(0, line.find_first_of(" \r"));
    line.remove_prefix(word.size());
    return word;
}

std::string text_of(const Invitation::Place& place) {
    return format("{} port {}", place.address, place.port);
}

}  // namespace

// ---- the invitation

std::string invitation_line(const Invitation& invitation) {
    std::string out = format("{} {} {} {}", kInvitation, hex_of(invitation.key), invitation.number,
                             static_cast<long>(invitation.seconds * 1e3));
    for (const Invitation::Place& place : invitation.places)
        out += format(" {} {}", place.address, place.port);
    return out + "\n";
}

std::optional<Invitation> parse_invitation(std::string_view line) {
    if (!line.starts_with(kInvitation)) return std::nullopt;
    line.remove_prefix(kInvitation.size());
    Invitation out;
    long milliseconds = 0;
    if (!key_of(next_word(line), out.key) ||
        !number_of(next_word(line), 10, 1, 1 << 20, out.number) ||
        !number_of(next_word(line), 10, 1L, 1'000'000'000'000L, milliseconds))
        return std::nullopt;
    out.seconds = static_cast<double>(milliseconds) / 1e3;
    for (std::string_view word; !(word = next_word(line)).empty();) {
        Invitation::Place place{std::string(word), 0};
        if (!tcp::Ip::parse(word) || out.places.size() == kPlacesMost ||
            !number_of<uint16_t>(next_word(line), 10, 1, 65535, place.port))
            return std::nullopt;
        out.places.push_back(std::move(place));
    }
    if (out.places.empty()) return std::nullopt;
    return out;
}

Result<Invitation> read_invitation(int descriptor) {
    std::string line;
    for (char c = 0; line.size() < kLineMost;) {
        ssize_t count = read(descriptor, &c, 1);  // what stands behind it is somebody else's
        if (count < 0 && errno == EINTR) continue;
        if (count < 0)
            return os_error(Code::io,
                            "Standard input, on which mpirun's invitation comes, cannot be "
                            "read");
        if (count == 0) return Error{Code::not_found, messages::no_invitation};
        if (c != '\n') {
            line += c;
            continue;
        }
        if (auto invitation = parse_invitation(line)) return *invitation;
        line.clear();
    }
    return Error{Code::malformed, "What comes on standard input is no invitation of mpirun's"};
}

// ---- mpirun's side

DialBack::~DialBack() { close(); }

std::string DialBack::open(int hosts, double seconds, const tcp::InterfaceFilter& filter) {
    std::string why;
    auto crypto = link::Crypto::open(why);
    if (!crypto.ok()) return format("{} {}", crypto.error().text(), why);
    if (!random_bytes(offer_.key)) return "the system has no random numbers";
    offer_.seconds = seconds;
    identity_.crypto = *crypto;
    identity_.key = offer_.key;
    identity_.job = "agents";
    identity_.rank = kMpirun;
    identity_.size = hosts + 1;
    identity_.encrypts = true;
    for (const tcp::Interface& each : tcp::choose_interfaces(tcp::list_interfaces(), filter)) {
        if (each.ip().link_local() || offer_.places.size() == kPlacesMost) continue;
        auto socket = tcp::Socket::listen(each.address, 0);
        if (!socket.ok()) {
            why = format("{}: {}", each.address, socket.error().text());
            continue;
        }
        offer_.places.push_back({each.address, socket->port()});
        // The listener closes its descriptor, and the socket its own.
        int descriptor = fcntl(socket->descriptor(), F_DUPFD_CLOEXEC, 3);
        if (descriptor < 0) return os_text(errno);
        listeners_.emplace_back().start(base_, descriptor, [this](int taken) { take(taken); });
    }
    if (offer_.places.empty()) return why.empty() ? "no network interface is up" : why;
    return {};
}

void DialBack::close() {
    callers_.clear();
    listeners_.clear();
}

std::string DialBack::invitation(int number) const {
    Invitation out = offer_;
    out.number = number;
    return invitation_line(out);
}

std::string DialBack::places() const {
    std::string out;
    for (const Invitation::Place& each : offer_.places)
        out += (out.empty() ? "" : ", ") + text_of(each);
    return out;
}

std::string DialBack::strangers() const {
    if (refused_ == 0) return {};
    return format("; {} connection{} refused, the last one {}", refused_,
                  refused_ == 1 ? " was" : "s were", last_refusal_);
}

void DialBack::take(int descriptor) {
    tcp::Socket socket = tcp::Socket::adopt(descriptor);
    link::Nonce nonce;
    if (!random_bytes(nonce)) return;
    if (callers_.size() >= kCallersSpare + static_cast<size_t>(identity_.size)) {
        refuse("made room for others, as too many did not say who they are");
        callers_.pop_front();
    }
    Caller& caller = callers_.emplace_back(
        Caller{this, std::move(socket),
               link::Handshake::listen(identity_, link::Handshake::kDialersPath, nonce),
               steady_now() + kHearSeconds, nullptr});
    caller.readable.reset(event_new(
        base_, caller.socket.descriptor(), EV_READ,
        [](int, short, void* data) {
            auto* self = static_cast<Caller*>(data);
            if (!self->owner->hear(*self)) self->owner->send_away(*self);
        },
        &caller));
    watch(caller);
}

// However slowly its bytes come, the deadline stays.
void DialBack::watch(Caller& caller) {
    timeval left = time_of(std::max(caller.deadline - steady_now(), 0.001));
    event_add(caller.readable.get(), &left);
}

// False: its place is free again.
bool DialBack::hear(Caller& caller) {
    if (!tcp::read_and_answer(caller.socket, caller.handshake)) return false;
    switch (caller.handshake.state()) {
    case link::Handshake::State::waiting:
        if (steady_now() >= caller.deadline) return refuse("did not say who it is");
        watch(caller);
        return true;
    case link::Handshake::State::decide: return let_in(caller);
    default: return refuse(caller.handshake.why());
    }
}

// An agent may have got through by two addresses: the first one counts.
bool DialBack::let_in(Caller& caller) {
    int number = caller.handshake.peer();
    if (!awaits(number)) return false;
    caller.handshake.accept(1);
    if (!tcp::write_answer(caller.socket, caller.handshake)) return false;
    tcp::seal_by(caller.socket, *identity_.crypto, caller.handshake, false);
    caller.readable.reset();
    admit(number, std::move(caller.socket));
    return false;
}

bool DialBack::refuse(const char* why) {
    ++refused_;
    last_refusal_ = why;
    return false;
}

void DialBack::send_away(Caller& caller) {
    callers_.remove_if([&](const Caller& each) { return &each == &caller; });
}

// ---- the agent's side

namespace {

// One address; tried again in later rounds.
struct Attempt {
    std::optional<tcp::Socket> socket;
    std::optional<link::Handshake> handshake;
    bool connected = false;
    double begun = 0;
    std::string answer = "no answer";

    bool open() const { return socket.has_value(); }
    void end(const std::string& why) {
        socket.reset();
        handshake.reset();
        answer = why;
    }
};

void begin(Attempt& attempt, const Invitation::Place& place, const link::Identity& identity) {
    link::Nonce nonce;
    auto socket = tcp::Socket::connect(place.address, place.port, 0);
    if (!socket.ok()) return attempt.end(os_text(socket.error().os_errno));
    if (!random_bytes(nonce)) return attempt.end("this system has no random numbers");
    attempt.socket.emplace(std::move(*socket));
    attempt.handshake.emplace(link::Handshake::dial(identity, kMpirun, 0, nonce, 0));
    attempt.connected = false;
    attempt.begun = steady_now();
}

// What the system has for it; true when mpirun has let us in.
bool go_on(Attempt& attempt) {
    if (!attempt.connected) {
        int state = attempt.socket->finished();
        if (state < 0) attempt.end(os_text(errno));
        if (state <= 0) return false;
        attempt.connected = true;
        if (!tcp::write_answer(*attempt.socket, *attempt.handshake)) attempt.end(os_text(errno));
        return false;
    }
    if (!tcp::read_and_answer(*attempt.socket, *attempt.handshake)) {
        attempt.end(errno == 0 ? "it let nobody in" : os_text(errno));
        return false;
    }
    if (attempt.handshake->state() == link::Handshake::State::done) return true;
    if (attempt.handshake->state() != link::Handshake::State::waiting)
        attempt.end(format("who answers {}", attempt.handshake->why()));
    return false;
}

}  // namespace

Dialled dial_mpirun(const Invitation& invitation) {
    std::string why;
    auto crypto = link::Crypto::open(why);
    if (!crypto.ok()) return {std::nullopt, format("{} {}", crypto.error().text(), why)};
    link::Identity identity;
    identity.crypto = *crypto;
    identity.key = invitation.key;
    identity.job = "agents";
    identity.rank = invitation.number;
    identity.size = invitation.number + 1;
    identity.encrypts = true;
    std::vector<Attempt> attempts(invitation.places.size());
    double end = steady_now() + invitation.seconds, next_begin = 0;
    size_t next = 0;
    for (double now = steady_now(); now < end; now = steady_now()) {
        bool any = std::any_of(attempts.begin(), attempts.end(),
                               [](const Attempt& each) { return each.open(); });
        // The next address as soon as none is left that may answer.
        if (next < attempts.size() && (now >= next_begin || !any)) {
            if (!attempts[next].open()) begin(attempts[next], invitation.places[next], identity);
            ++next;
            next_begin = now + kNextSeconds;
            continue;
        }
        if (next == attempts.size() && now >= next_begin + kAgainSeconds) {
            next = 0;
            continue;
        }
        std::vector<pollfd> waited;
        for (Attempt& each : attempts)
            waited.push_back({each.open() ? each.socket->descriptor() : -1,
                              static_cast<short>(each.connected ? POLLIN : POLLOUT), 0});
        poll(waited.data(), static_cast<nfds_t>(waited.size()), 50);
        for (size_t i = 0; i < attempts.size(); ++i) {
            Attempt& attempt = attempts[i];
            if (!attempt.open()) continue;
            if (waited[i].revents != 0 && go_on(attempt)) {
                tcp::seal_by(*attempt.socket, **crypto, *attempt.handshake, true);
                return {std::move(attempt.socket), {}};
            }
            if (attempt.open() && steady_now() - attempt.begun > kHearSeconds)
                attempt.end("no answer");
        }
    }
    for (size_t i = 0; i < attempts.size(); ++i)
        why += format("{}{}: {}", i == 0 ? "" : "; ", text_of(invitation.places[i]),
                      attempts[i].answer);
    return {std::nullopt,
            format("mpirun was not reached within {:.0f} s: {}", invitation.seconds, why)};
}

}  // namespace pomona
