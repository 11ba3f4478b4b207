// btl/base/bytes.h: spans of bytes, and the bounded Reader and Writer for everything on a wire.
// Idea: integers are little-endian and of fixed width; a Reader never reads past its end and
// remembers that it would have had to, so that a parser checks once, at the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace pomona {

using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

inline ConstBytes bytes_of(std::string_view text) {
    return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
inline std::string_view text_of(ConstBytes bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Both machines Pomona runs on are little-endian; others would swap here.
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

class Reader {
public:
    explicit Reader(ConstBytes source) : source_(source) {}

    template <class T> T get() {
        static_assert(std::is_integral_v<T> || std::is_enum_v<T>);
        T value{};
        ConstBytes from = take(sizeof(T));
        if (!from.empty()) std::memcpy(&value, from.data(), sizeof(T));
        return value;
    }
    // `length` bytes, or none (and failed()) when fewer are left.
    ConstBytes take(size_t length) {
        if (length > source_.size() - offset_) {
            failed_ = true;
            offset_ = source_.size();
            return {};
        }
        ConstBytes out = source_.subspan(offset_, length);
        offset_ += length;
        return out;
    }
    // A 32-bit length, at most `length_max`, then as many bytes.
    ConstBytes get_sized(size_t length_max) {
        auto length = get<uint32_t>();
        if (length > length_max) failed_ = true;
        return failed_ ? ConstBytes{} : take(length);
    }
    std::string get_text(size_t length_max) { return std::string(text_of(get_sized(length_max))); }

    size_t left() const { return source_.size() - offset_; }
    bool failed() const { return failed_; }

private:
    ConstBytes source_;
    size_t offset_ = 0;
    bool failed_ = false;
};

class Writer {
public:
    template <class T> void put(T value) {
        static_assert(std::is_integral_v<T> || std::is_enum_v<T>);
        put_bytes({reinterpret_cast<const std::byte*>(&value), sizeof value});
    }
    // Not inlined: g++ 12 and 13 then warn of an overflow that cannot happen.
    [[gnu::noinline]] void put_bytes(ConstBytes bytes) {
        out_.insert(out_.end(), bytes.begin(), bytes.end());
    }
    void put_sized(ConstBytes bytes) {
        put(static_cast<uint32_t>(bytes.size()));
        put_bytes(bytes);
    }
    void put_text(std::string_view text) { put_sized(bytes_of(text)); }
    const std::vector<std::byte>& bytes() const { return out_; }

private:
    std::vector<std::byte> out_;
};

}  // namespace pomona
