// tests/fuzz/wire.cc: libFuzzer over what a rank reads from others: frame headers,
// addresses, parameters, lists of interfaces. Any input must end in a value or a refusal; what was
// accepted must survive the way out and back. The first byte chooses the parser.
#include "btl/base/params.h"
#include "btl/tcp/wire.h"
#include "mpi/p2p/header.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

using namespace pomona;

static void must(bool holds) {
    if (!holds) std::abort();
}

static void header(ConstBytes bytes) {
    FrameHeader frame{};
    std::memcpy(&frame, bytes.data(), std::min(bytes.size(), sizeof frame));
    size_t payload = bytes.size() > sizeof frame ? bytes.size() - sizeof frame : 0;
    auto parsed = parse(frame, payload);
    // The short way takes some of what the long one accepts, for the same.
    bool plain = parsed && parsed->kind == FrameKind::eager && !parsed->flags;
    must(plain_message(frame, payload) == plain);
    if (!parsed) return;
    must(parsed->length <= kLengthMax);
    FrameHeader back = parsed->pack();
    must(std::memcmp(&back, &frame, sizeof frame) == 0);
}

static void address(ConstBytes bytes) {
    auto parsed = tcp::parse_address(bytes);
    if (!parsed) return;
    must(!parsed->places.empty() && parsed->places.size() <= tcp::kPlacesMost);
    auto back = tcp::write_address(*parsed);
    must(back.size() == bytes.size() && std::memcmp(back.data(), bytes.data(), back.size()) == 0);
}

// What is taken for a list of interfaces can be asked; what is not is named.
static void interfaces(ConstBytes bytes) {
    tcp::InterfaceFilter filter;
    std::string text(text_of(bytes));
    size_t end = std::min(text.find('\n'), text.size());
    std::string mistake =
        filter.parse(text.substr(0, end), text.substr(std::min(end + 1, text.size())));
    tcp::Interface interface { "eth0", "10.0.0.7", true, false, 24, tcp::InterfaceKind::wired };
    if (mistake.empty()) filter.takes(interface);
    else must(mistake.starts_with("if_include: \"") || mistake.starts_with("if_exclude: \""));
}

static void parameter(ConstBytes bytes) {
    std::string text(text_of(bytes));
    size_t equals = text.find('=');
    if (equals == text.npos) return;
    Params params;
    std::string name = text.substr(0, equals);
    if (!set_param(params, name, text.substr(equals + 1)).ok()) return;
    std::string shown = get_param(params, name);
    Params again;
    must(set_param(again, name, shown).ok() && get_param(again, name) == shown);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) return 0;
    ConstBytes rest{reinterpret_cast<const std::byte*>(data) + 1, size - 1};
    switch (data[0] % 5) {
    case 0: header(rest); break;
    case 2: address(rest); break;
    case 4: interfaces(rest); break;
    default: parameter(rest); break;
    }
    return 0;
}
