// btl/link/handshake.cc: see handshake.h.
//
// Every message begins with magic u32, version u16, type u8, path u8. Then
//   hello       from u32, to u32, flags u32, fingerprint u64, nonce (32 bytes)
//   challenge   the same, proof (32)
//   proof       seen or number u32, proof (32)
//   welcome     number u32, proof (32)
//   facts       length u32, proof (32) over the facts too, the facts
#include "btl/link/handshake.h"

#include "btl/base/check.h"

#include <algorithm>

namespace pomona::link {

static constexpr size_t kHead = 4 + 2 + 1 + 1;
static constexpr size_t kGreeting = kHead + 3 * 4 + 8 + kNonceSize;
static constexpr size_t kProof = sizeof(Digest);
static constexpr size_t kShort = kHead + 4 + kProof;
static constexpr uint32_t kEncrypts = 1;

// Not inlined: g++ 12 would warn of an overflow that cannot happen.
[[gnu::noinline]] static void append(std::vector<std::byte>& to, ConstBytes bytes) {
    size_t at = to.size();
    to.resize(at + bytes.size());
    if (!bytes.empty()) std::memcpy(to.data() + at, bytes.data(), bytes.size());
}

static constexpr std::string_view kFromListener = "pomona listener proves";
static constexpr std::string_view kFromDialer = "pomona dialer proves";
static constexpr std::string_view kWelcomed = "pomona listener welcomes";
static constexpr std::string_view kDialersFacts = "pomona dialer tells its facts";
static constexpr std::string_view kListenersFacts = "pomona listener tells its facts";

Handshake::Handshake(const Identity& identity, Side side, int path, const Nonce& nonce)
    : identity_(&identity), dialer_(side.dialer), encrypts_(identity.encrypts || side.encrypts),
      path_(path), nonce_(nonce), expected_(side.dialer ? challenge : hello) {}

Handshake Handshake::dial(const Identity& identity, int peer, int path, const Nonce& nonce,
                          uint32_t seen, bool encrypts) {
    check(path >= 0 && path < kPathsMost, path);
    Handshake made(identity, {true, encrypts}, path, nonce);
    made.peer_ = peer;
    made.seen_ = seen;
    made.say(made.begin_greeting(hello, peer));
    return made;
}

Handshake Handshake::listen(const Identity& identity, int path, const Nonce& nonce, bool encrypts) {
    return {identity, {false, encrypts}, path, nonce};
}

void Handshake::refuse(const char* why) {
    state_ = State::refused;
    why_ = why;
    out_.clear();
}

std::vector<std::byte> Handshake::take_output() { return std::exchange(out_, {}); }

// ---- what this end says

Writer Handshake::begin(Type type) const {
    Writer out;
    out.put(kMagic);
    out.put(kVersion);
    out.put(static_cast<uint8_t>(type));
    out.put(static_cast<uint8_t>(path_));
    return out;
}

Writer Handshake::begin_greeting(Type type, int to) const {
    Writer out = begin(type);
    out.put(static_cast<uint32_t>(identity_->rank));
    out.put(static_cast<uint32_t>(to));
    out.put(encrypts_ ? kEncrypts : 0u);
    out.put(identity_->fingerprint.hash());
    out.put_bytes(nonce_);
    return out;
}

void Handshake::say(const Writer& message) {
    const std::vector<std::byte>& bytes = message.bytes();
    append(said_, bytes);
    append(out_, bytes);
}

// Over the label, the job's name, all messages so far and the new one.
bool Handshake::authenticate(std::string_view label, ConstBytes message, Digest& out) const {
    Writer begin;
    begin.put_text(label);
    begin.put_text(identity_->job);
    return identity_->crypto->authenticate(identity_->key, {begin.bytes(), said_, message}, out);
}

void Handshake::prove_and_say(Writer& message, std::string_view label) {
    Digest proof;
    if (!authenticate(label, message.bytes(), proof)) return refuse("could not be answered");
    message.put_bytes(proof);
    say(message);
}

void Handshake::say_proof(uint32_t value) {
    Writer message = begin(proof);
    message.put(value);
    prove_and_say(message, kFromDialer);
}

void Handshake::say_facts() {
    std::vector<std::byte> text = identity_->fingerprint.bytes();
    Writer message = begin(facts);
    message.put(static_cast<uint32_t>(text.size()));
    std::vector<std::byte> covered = message.bytes();
    append(covered, text);
    Digest proof;
    if (!authenticate(dialer_ ? kDialersFacts : kListenersFacts, covered, proof))
        return refuse("could not be answered");
    message.put_bytes(proof);
    // Not among what is said: the two may cross.
    append(out_, message.bytes());
    append(out_, text);
    expected_ = facts;
}

void Handshake::accept(uint32_t number) {
    check(state_ == State::decide && number != 0, static_cast<int>(state_), number);
    state_ = State::done;
    number_ = number;
    if (dialer_) return say_proof(number);
    Writer message = begin(welcome);
    message.put(number);
    prove_and_say(message, kWelcomed);
}

// ---- what the peer says

size_t Handshake::wants() const {
    if (state_ != State::waiting) return 0;
    size_t length = 0;
    switch (expected_) {
    case hello: length = kGreeting; break;
    case challenge: length = kGreeting + kProof; break;
    case proof:
    case welcome:
    case facts: length = kShort; break;
    case facts_body: length = kShort + facts_length_; break;
    }
    return length - in_.size();
}

void Handshake::feed(ConstBytes bytes) {
    check(bytes.size() <= wants(), bytes.size(), wants());
    append(in_, bytes);
    // Who speaks something else is told apart by the first bytes, and not listened to any longer.
    Writer magic;
    magic.put(kMagic);
    size_t known = std::min(in_.size(), magic.bytes().size());
    if (!std::equal(in_.begin(), in_.begin() + static_cast<ptrdiff_t>(known),
                    magic.bytes().begin()))
        return refuse("speaks something else");
    if (state_ == State::waiting && wants() == 0) take_message();
}

void Handshake::take_message() {
    if (expected_ == facts_body) return take_facts_body();
    Reader in(in_);
    (void)in.get<uint32_t>();
    auto version = in.get<uint16_t>();
    auto type = in.get<uint8_t>();
    auto path = in.get<uint8_t>();
    if (version != kVersion) return refuse("is of another version of Pomona");
    if (type != expected_) return refuse("says what was not asked");
    peer_path_ = path;
    switch (expected_) {
    case hello: take_hello(in); break;
    case challenge: take_challenge(in); break;
    case proof: take_proof(in); break;
    case welcome: take_welcome(in); break;
    default: return take_facts(in);
    }
    in_.clear();
}

// Ranks, wishes and nonce; false when they cannot be meant for this rank.
bool Handshake::take_greeting(Reader& in, Nonce& nonce) {
    auto from = in.get<uint32_t>();
    auto to = in.get<uint32_t>();
    auto flags = in.get<uint32_t>();
    peer_fingerprint_ = in.get<uint64_t>();
    ConstBytes theirs = in.take(kNonceSize);
    if (in.failed() || from >= static_cast<uint32_t>(identity_->size) || flags > kEncrypts ||
        to != static_cast<uint32_t>(identity_->rank) || from == to)
        return false;
    if (dialer_ && static_cast<int>(from) != peer_) return false;
    peer_ = static_cast<int>(from);
    encrypted_ = encrypts_ || (flags & kEncrypts) != 0;
    std::copy(theirs.begin(), theirs.end(), nonce.begin());
    return true;
}

// Does the message just read end with the right proof? It belongs to what was said from then on.
bool Handshake::proves(std::string_view label) {
    ConstBytes message(in_);
    Digest right;
    proved_ = authenticate(label, message.first(message.size() - kProof), right) &&
              same_bytes(right, message.last(kProof));
    append(said_, in_);
    return proved_;
}

void Handshake::take_hello(Reader& in) {
    Nonce theirs;
    if (!take_greeting(in, theirs)) return refuse("wants somebody else");
    said_ = in_;
    if (path_ == kDialersPath) path_ = peer_path_;
    Writer message = begin_greeting(challenge, peer_);
    prove_and_say(message, kFromListener);
    expected_ = proof;
    if (!derive_keys(theirs, nonce_)) refuse("could not be answered");
}

void Handshake::take_challenge(Reader& in) {
    Nonce theirs;
    if (!take_greeting(in, theirs) || !proves(kFromListener) || !derive_keys(nonce_, theirs))
        return refuse("is not of this job");
    if (peer_fingerprint_ != identity_->fingerprint.hash()) {
        say_proof(0);
        return say_facts();
    }
    if (decides()) {
        state_ = State::decide;
        return;
    }
    say_proof(seen_);
    expected_ = welcome;
}

void Handshake::take_proof(Reader& in) {
    auto value = in.get<uint32_t>();
    if (!proves(kFromDialer)) return refuse("is not of this job");
    if (peer_fingerprint_ != identity_->fingerprint.hash()) return say_facts();
    if (decides()) {
        seen_ = value;
        state_ = State::decide;
        return;
    }
    number_ = value;
    if (number_ == 0) return refuse("did not decide");
    state_ = State::done;
}

void Handshake::take_welcome(Reader& in) {
    number_ = in.get<uint32_t>();
    if (!proves(kWelcomed) || number_ == 0) return refuse("is not of this job");
    state_ = State::done;
}

void Handshake::take_facts(Reader& in) {
    facts_length_ = in.get<uint32_t>();
    if (facts_length_ > Fingerprint::kBytesMax) return refuse("tells too much");
    expected_ = facts_body;
    if (facts_length_ == 0) take_facts_body();
}

void Handshake::take_facts_body() {
    ConstBytes all(in_);
    ConstBytes text = all.subspan(kShort);
    std::vector<std::byte> covered;
    append(covered, all.first(kHead + 4));
    append(covered, text);
    Digest right;
    if (!authenticate(dialer_ ? kListenersFacts : kDialersFacts, covered, right) ||
        !same_bytes(right, all.subspan(kHead + 4, kProof)))
        return refuse("is not of this job");
    auto parsed = Fingerprint::parse(text);
    if (!parsed.ok()) return refuse("tells what does not parse");
    peer_facts_ = std::move(*parsed);
    state_ = State::different;
}

bool Handshake::derive_keys(const Nonce& dialer, const Nonce& listener) {
    if (!encrypted_) return true;
    std::array<std::byte, 2 * kNonceSize> salt;
    std::copy(dialer.begin(), dialer.end(), salt.begin());
    std::copy(listener.begin(), listener.end(), salt.begin() + kNonceSize);
    const Crypto& crypto = *identity_->crypto;
    return crypto.derive(identity_->key, salt, bytes_of("pomona from dialer"), keys_.from_dialer) &&
           crypto.derive(identity_->key, salt, bytes_of("pomona from listener"),
                         keys_.from_listener);
}

}  // namespace pomona::link
