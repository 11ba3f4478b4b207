// btl/base/fingerprint.cc: hashing, the form on the wire, and naming what differs.
#include "btl/base/fingerprint.h"

#include "btl/base/format.h"

namespace pomona {

namespace {

constexpr size_t kFactsMax = 256;
constexpr size_t kTextMax = 4096;  // longer values are cut where they are added

// FNV-1a, 64 bits; a zero byte ends each text.
void mix(uint64_t& hash, std::string_view text) {
    auto add = [&](uint8_t byte) { hash = (hash ^ byte) * 0x100000001b3; };
    for (char c : text) add(static_cast<uint8_t>(c));
    add(0);
}

const Fact* find(const Fingerprint& fingerprint, std::string_view name) {
    for (const Fact& each : fingerprint.facts())
        if (each.name == name) return &each;
    return nullptr;
}

std::string said(std::string_view who, std::string_view name, const Fact* fact) {
    if (!fact) return format("{} does not know {}", who, name);
    return format("{} has {} = {} ({})", who, name, fact->value.empty() ? "(empty)" : fact->value,
                  fact->source);
}

}  // namespace

void Fingerprint::add(std::string name, std::string value, std::string source) {
    for (std::string* text : {&name, &value, &source})
        if (text->size() > kTextMax) text->resize(kTextMax);
    facts_.push_back({std::move(name), std::move(value), std::move(source)});
}

uint64_t Fingerprint::hash() const {
    uint64_t hash = 0xcbf29ce484222325;
    for (const Fact& each : facts_) mix(hash, each.name), mix(hash, each.value);
    return hash;
}

std::vector<std::byte> Fingerprint::bytes() const {
    size_t room = kBytesMax - sizeof(uint32_t), fitting = 0;
    for (const Fact& each : facts_) {
        size_t length =
            3 * sizeof(uint32_t) + each.name.size() + each.value.size() + each.source.size();
        if (length > room || fitting == kFactsMax) break;
        room -= length;
        ++fitting;
    }
    Writer out;
    out.put(static_cast<uint32_t>(fitting));
    for (size_t i = 0; i < fitting; ++i)
        for (const std::string* text : {&facts_[i].name, &facts_[i].value, &facts_[i].source})
            out.put_text(*text);
    return out.bytes();
}

Result<Fingerprint> Fingerprint::parse(ConstBytes bytes) {
    Error malformed{Code::malformed, "A fingerprint does not parse"};
    if (bytes.size() > kBytesMax) return malformed;
    Reader in(bytes);
    auto count = in.get<uint32_t>();
    if (count > kFactsMax) return malformed;
    Fingerprint out;
    for (uint32_t i = 0; i < count && !in.failed(); ++i) {
        Fact fact;
        for (std::string* text : {&fact.name, &fact.value, &fact.source})
            *text = in.get_text(kTextMax);
        out.facts_.push_back(std::move(fact));
    }
    if (in.failed() || in.left()) return malformed;
    return out;
}

std::string difference_of(const Fingerprinted& one, const Fingerprinted& other) {
    std::string text;
    auto name = [&](std::string_view fact) {
        const Fact* left = find(one.fingerprint, fact);
        const Fact* right = find(other.fingerprint, fact);
        if (left && right && left->value == right->value) return;
        text += format("{}{}, {}", text.empty() ? "" : "; ", said(one.who, fact, left),
                       said(other.who, fact, right));
    };
    for (const Fact& each : one.fingerprint.facts()) name(each.name);
    for (const Fact& each : other.fingerprint.facts())
        if (!find(one.fingerprint, each.name)) name(each.name);
    return text;
}

}  // namespace pomona
