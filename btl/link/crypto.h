// btl/link/crypto.h: message authentication, key derivation and sealed records, by OpenSSL's
// libcrypto.
// Idea: the library is opened by name when a rank first talks to another machine, with types and
// prototypes from its own headers: a job on one machine never loads it. Pomona keeps a library
// context of its own, so neither OpenSSL's configuration file nor what the program does with
// OpenSSL changes it. Why this library: it is part of every Linux distribution and of Homebrew
// (Python needs it in both), it is kept up to date by them, and it uses the processors'
// instructions for SHA-256 and AES.
#pragma once

#include "btl/base/bytes.h"
#include "btl/base/result.h"

#include <array>
#include <initializer_list>
#include <memory>
#include <string>

namespace pomona::link {

using Digest = std::array<std::byte, 32>;

// Same bytes? All are looked at, so that the time taken tells nothing about them.
bool same_bytes(ConstBytes a, ConstBytes b);

// A cipher with one key, one way: AES-256-GCM, records numbered from 0.
class Seal {
public:
    static constexpr size_t kTag = 16;
    virtual ~Seal() = default;
    // Encrypts `plain` to `out` (of the same length) and writes the tag; `head` is authenticated
    // only.
    virtual bool close(uint64_t number, ConstBytes head, ConstBytes plain, std::byte* out,
                       std::byte* tag) = 0;
    // The reverse; false when a byte of it or its place in the order is not what was sealed.
    virtual bool open(uint64_t number, ConstBytes head, ConstBytes sealed, const std::byte* tag,
                      std::byte* out) = 0;
};

class Crypto {
public:
    // Opens the library once per process; `why` says what the loader reports.
    static Result<const Crypto*> open(std::string& why);

    // HMAC-SHA256 (RFC 2104) over the parts one after the other.
    virtual bool authenticate(ConstBytes key, std::initializer_list<ConstBytes> parts,
                              Digest& out) const = 0;
    // A key of 32 bytes from a secret (HKDF-SHA256, RFC 5869).
    bool derive(ConstBytes secret, ConstBytes salt, ConstBytes purpose, Digest& out) const;
    virtual std::unique_ptr<Seal> seal(const Digest& key) const = 0;

protected:
    ~Crypto() = default;
};

}  // namespace pomona::link
