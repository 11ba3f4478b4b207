// btl/link/handshake.h: how the two ends of a new connection prove that they are ranks of one job.
//
// Idea: four messages of fixed length. Each end answers the other's 32 random bytes (nonce) with
// HMAC-SHA256 under the job's key over all that was said; the labels differ by message, so that
// neither a replay nor a reflection proves anything. Pure functions and a state machine: no socket,
// no clock.
//
//   dialer                                 listener
//   hello      who, to whom, nonce    ->
//                                     <-   challenge  who, nonce, proof
//   proof      proof, seen or number  ->
//                                     <-   welcome    number, proof; from the lower rank only
//
// Both may dial at once, so both ends must agree on one connection. The lower rank decides, and
// numbers its decisions from 1: as a listener by its welcome, as a dialer already by its proof. It
// decides for the first one that gets through. The higher rank says which number it has seen last,
// so that the lower one can tell a new attempt (the last connection broke) from one that crossed
// with its own decision.
//
// If the fingerprints of the two differ (btl/base/fingerprint.h), each sends the facts behind its
// own, after the proofs and authenticated, and the connection ends: difference_of() names what
// differs.
//
// Integers little-endian. What does not parse or prove itself ends in State::refused.
#pragma once

#include "btl/base/fingerprint.h"
#include "btl/link/crypto.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pomona::link {

inline constexpr uint32_t kMagic = 0x706f6d31;  // "pom1"
inline constexpr uint16_t kVersion = 3;
inline constexpr size_t kNonceSize = 32;
inline constexpr int kPathsMost = 256;  // numbers that ends of paths may have

using Nonce = std::array<std::byte, kNonceSize>;
using JobKey = Digest;

// What a rank brings to each of its handshakes.
struct Identity {
    const Crypto* crypto = nullptr;
    JobKey key{};
    std::string job;  // its name; the same at all its ranks
    int rank = 0;
    int size = 1;             // ranks that the job may have
    bool encrypts = false;    // asks that what follows is encrypted; either end's wish is enough
    Fingerprint fingerprint;  // what must be the same at all ranks
};

// The keys of the two directions, where the connection is encrypted.
struct DirectionKeys {
    Digest from_dialer, from_listener;
};

class Handshake {
public:
    enum class State {
        waiting,    // for the peer's next message
        decide,     // the peer has proved itself; this rank decides: call accept(), or close
        done,       // the connection is used under number()
        different,  // the fingerprints differ: peer_facts() are the peer's
        refused     // why() says why
    };

    // A connection that this rank has made to `peer`; `path` is this end's number. `seen`: the
    // number of the last connection that was used between the two. `encrypts`: this one has to be
    // encrypted, whatever the identity says.
    static Handshake dial(const Identity& identity, int peer, int path, const Nonce& nonce,
                          uint32_t seen, bool encrypts = false);
    // A connection that somebody has made; `path` may be kDialersPath: this end has the dialer's
    // number.
    static constexpr int kDialersPath = -1;
    static Handshake listen(const Identity& identity, int path, const Nonce& nonce,
                            bool encrypts = false);

    State state() const { return state_; }
    // How many bytes of the peer's next message are missing. Not more may be fed: frames follow.
    size_t wants() const;
    void feed(ConstBytes bytes);
    // In State::decide: this connection is the one, under this number (from 1, rising).
    void accept(uint32_t number);
    // Bytes to send, in this order, each once.
    std::vector<std::byte> take_output();

    int peer() const { return peer_; }
    int peer_path() const { return peer_path_; }
    // The peer is a rank of this job; it may still prefer another connection.
    bool proved() const { return proved_; }
    uint32_t number() const { return number_; }
    // The number that the peer has seen last (State::decide, where this rank listens).
    uint32_t seen() const { return seen_; }
    bool encrypted() const { return encrypted_; }
    // From State::decide on, where encrypted().
    const DirectionKeys& keys() const { return keys_; }
    const char* why() const { return why_; }
    const Fingerprint& peer_facts() const { return peer_facts_; }

private:
    enum Type : uint8_t { hello = 1, challenge, proof, welcome, facts, facts_body };
    struct Side {
        bool dialer, encrypts;
    };
    Handshake(const Identity& identity, Side side, int path, const Nonce& nonce);
    // The lower rank decides between connections that cross.
    bool decides() const { return identity_->rank < peer_; }
    void refuse(const char* why);

    Writer begin(Type type) const;
    Writer begin_greeting(Type type, int to) const;
    void say(const Writer& message);
    void prove_and_say(Writer& message, std::string_view label);
    bool authenticate(std::string_view label, ConstBytes message, Digest& out) const;
    void say_proof(uint32_t value);
    void say_facts();

    void take_message();
    bool take_greeting(Reader& in, Nonce& nonce);
    bool proves(std::string_view label);
    void take_hello(Reader& in);
    void take_challenge(Reader& in);
    void take_proof(Reader& in);
    void take_welcome(Reader& in);
    void take_facts(Reader& in);
    void take_facts_body();
    bool derive_keys(const Nonce& dialer, const Nonce& listener);

    const Identity* identity_;  // borrowed; outlives the connection
    bool dialer_;
    bool encrypts_;  // this end wants it
    int path_;
    int peer_ = -1, peer_path_ = 0;
    bool proved_ = false;
    Nonce nonce_;
    uint32_t seen_ = 0, number_ = 0;
    uint64_t peer_fingerprint_ = 0;
    bool encrypted_ = false;
    State state_ = State::waiting;
    Type expected_ = hello;
    const char* why_ = "";
    size_t facts_length_ = 0;
    std::vector<std::byte> in_;    // of the message expected
    std::vector<std::byte> said_;  // both ends' messages so far: proofs are made over them
    std::vector<std::byte> out_;
    Fingerprint peer_facts_;
    DirectionKeys keys_{};
};

}  // namespace pomona::link
