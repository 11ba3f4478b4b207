// btl/link/crypto.cc: see crypto.h.
#include "btl/link/crypto.h"

#include "btl/base/format.h"
#include "btl/base/messages.h"

#include <mutex>

#include <dlfcn.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

namespace pomona::link {

namespace {

// clang-format off
#define POMONA_CRYPTO_FUNCTIONS(F)                                                             \
    F(OPENSSL_init_crypto)                                                                     \
    F(OSSL_LIB_CTX_new) F(EVP_MAC_fetch) F(EVP_MAC_CTX_new) F(EVP_MAC_CTX_free)                \
    F(EVP_MAC_init) F(EVP_MAC_update) F(EVP_MAC_final) F(OSSL_PARAM_construct_utf8_string)     \
    F(OSSL_PARAM_construct_end) F(EVP_CIPHER_fetch) F(EVP_CIPHER_CTX_new)                      \
    F(EVP_CIPHER_CTX_free) F(EVP_CIPHER_CTX_ctrl) F(EVP_CipherInit_ex) F(EVP_CipherUpdate)     \
    F(EVP_CipherFinal_ex)
// clang-format on

struct Library {
#define POMONA_CRYPTO_MEMBER(name) decltype(&::name) name = nullptr;
    POMONA_CRYPTO_FUNCTIONS(POMONA_CRYPTO_MEMBER)
#undef POMONA_CRYPTO_MEMBER
};

void* open_any(std::string& why) {
#if defined(__APPLE__)
    const char* names[] = {"/opt/homebrew/opt/openssl@3/lib/libcrypto.3.dylib",
                           "/usr/local/opt/openssl@3/lib/libcrypto.3.dylib", "libcrypto.3.dylib"};
#else
    const char* names[] = {"libcrypto.so.3"};
#endif
    for (const char* name : names) {
        if (void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return handle;
        why += format("{}{}", why.empty() ? "" : "; ", dlerror());
    }
    return nullptr;
}

const unsigned char* raw(ConstBytes bytes) {
    return reinterpret_cast<const unsigned char*>(bytes.data());
}

// AES-256-GCM; the nonce is the record's number, which never comes twice under one key.
class AesSeal final : public Seal {
public:
    AesSeal(const Library& library, EVP_CIPHER* cipher, const Digest& key)
        : library_(library), cipher_(cipher), key_(key), context_(library.EVP_CIPHER_CTX_new()) {}
    ~AesSeal() override { library_.EVP_CIPHER_CTX_free(context_); }

    bool close(uint64_t number, ConstBytes head, ConstBytes plain, std::byte* out,
               std::byte* tag) override {
        return run(number, head, plain, out, true) && finish() &&
               library_.EVP_CIPHER_CTX_ctrl(context_, EVP_CTRL_AEAD_GET_TAG, kTag, tag) == 1;
    }
    bool open(uint64_t number, ConstBytes head, ConstBytes sealed, const std::byte* tag,
              std::byte* out) override {
        return run(number, head, sealed, out, false) &&
               library_.EVP_CIPHER_CTX_ctrl(context_, EVP_CTRL_AEAD_SET_TAG, kTag,
                                            const_cast<std::byte*>(tag)) == 1 &&
               finish();
    }

private:
    bool run(uint64_t number, ConstBytes head, ConstBytes in, std::byte* out, bool encrypt) {
        unsigned char nonce[12] = {};
        std::memcpy(nonce + 4, &number, sizeof number);
        // The key is expanded once for each direction; later only the nonce changes.
        bool first = std::exchange(direction_, encrypt ? 1 : 0) != (encrypt ? 1 : 0);
        const auto* key = reinterpret_cast<const unsigned char*>(key_.data());
        int done = 0;
        if (!context_ ||
            library_.EVP_CipherInit_ex(context_, first ? cipher_ : nullptr, nullptr,
                                       first ? key : nullptr, nonce, encrypt) != 1 ||
            library_.EVP_CipherUpdate(context_, nullptr, &done, raw(head),
                                      static_cast<int>(head.size())) != 1)
            return false;
        return in.empty() ||
               library_.EVP_CipherUpdate(context_, reinterpret_cast<unsigned char*>(out), &done,
                                         raw(in), static_cast<int>(in.size())) == 1;
    }
    bool finish() {
        unsigned char none[16];
        int done = 0;
        return library_.EVP_CipherFinal_ex(context_, none, &done) == 1;
    }
    const Library& library_;
    EVP_CIPHER* cipher_;
    Digest key_;
    EVP_CIPHER_CTX* context_;
    int direction_ = -1;
};

class OpenSsl final : public Crypto {
public:
    bool authenticate(ConstBytes key, std::initializer_list<ConstBytes> parts,
                      Digest& out) const override {
        EVP_MAC_CTX* context = library.EVP_MAC_CTX_new(mac);
        if (!context) return false;
        char digest[] = "SHA256";
        OSSL_PARAM settings[] = {
            library.OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
            library.OSSL_PARAM_construct_end()};
        bool good = library.EVP_MAC_init(context, raw(key), key.size(), settings) == 1;
        for (ConstBytes part : parts)
            good = good && library.EVP_MAC_update(context, raw(part), part.size()) == 1;
        size_t length = 0;
        good = good &&
               library.EVP_MAC_final(context, reinterpret_cast<unsigned char*>(out.data()), &length,
                                     out.size()) == 1 &&
               length == out.size();
        library.EVP_MAC_CTX_free(context);
        return good;
    }
    std::unique_ptr<Seal> seal(const Digest& key) const override {
        return std::make_unique<AesSeal>(library, cipher, key);
    }
    Library library;
    EVP_MAC* mac = nullptr;
    EVP_CIPHER* cipher = nullptr;
};

}  // namespace

bool same_bytes(ConstBytes a, ConstBytes b) {
    if (a.size() != b.size()) return false;
    unsigned difference = 0;
    for (size_t i = 0; i < a.size(); ++i) difference |= std::to_integer<unsigned>(a[i] ^ b[i]);
    return difference == 0;
}

bool Crypto::derive(ConstBytes secret, ConstBytes salt, ConstBytes purpose, Digest& out) const {
    Digest extracted;
    std::byte first{1};  // the counter of RFC 5869's blocks: 32 bytes are one block
    return authenticate(salt, {secret}, extracted) &&
           authenticate(extracted, {purpose, ConstBytes(&first, 1)}, out);
}

Result<const Crypto*> Crypto::open(std::string& why) {
    static std::mutex mutex;
    static OpenSsl made;
    static bool opened = false;
    std::lock_guard lock(mutex);
    if (opened) return static_cast<const Crypto*>(&made);
    void* handle = open_any(why);
    if (!handle) return Error{Code::not_found, messages::no_libcrypto};
    const char* missing = nullptr;
    Library& library = made.library;
#define POMONA_CRYPTO_LOAD(name)                                                                   \
    library.name = reinterpret_cast<decltype(&::name)>(dlsym(handle, #name));                      \
    if (!library.name) missing = #name;
    POMONA_CRYPTO_FUNCTIONS(POMONA_CRYPTO_LOAD)
#undef POMONA_CRYPTO_LOAD
    if (missing) {
        why = format("the library lacks {}", missing);
        return Error{Code::unsupported, messages::old_libcrypto};
    }
    // If nobody has used it before, it stays usable to the very end: a program may call MPI in exit
    // handlers, which run after this library's if they were registered before.
    library.OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
    OSSL_LIB_CTX* own = library.OSSL_LIB_CTX_new();
    if (own) made.mac = library.EVP_MAC_fetch(own, "HMAC", nullptr);
    if (own) made.cipher = library.EVP_CIPHER_fetch(own, "AES-256-GCM", nullptr);
    if (!made.mac || !made.cipher)
        return Error{Code::unsupported, "This libcrypto offers no HMAC or no AES-256-GCM"};
    opened = true;
    return static_cast<const Crypto*>(&made);
}

}  // namespace pomona::link
