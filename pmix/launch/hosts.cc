// pmix/launch/hosts.cc: see hosts.h.
#include "pmix/launch/hosts.h"

#include "btl/base/format.h"
#include "btl/base/messages.h"

#include <algorithm>
#include <charconv>
#include <string>

#include <arpa/inet.h>

namespace pomona {

namespace {
constexpr int kSlotsMax = 1 << 20;

bool parse_slots(std::string_view text, int& slots) {
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), slots);
    return error == std::errc{} && end == text.data() + text.size() && slots >= 1 &&
           slots <= kSlotsMax;
}

std::string not_slots(std::string_view text) {
    return format("'{}' is not a number of slots, 1 to {}", text, kSlotsMax);
}

bool is_plain_name(std::string_view name) {
    auto allowed = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '.' || c == '-' || c == '_' || c == ':' || c == '%';
    };
    if (name.empty() || name.front() == '-' || !std::all_of(name.begin(), name.end(), allowed))
        return false;
    if (name.find(':') == name.npos) return true;
    // An IPv6 address, perhaps with its interface.
    in6_addr address;
    return inet_pton(AF_INET6, std::string(name.substr(0, name.find('%'))).c_str(), &address) == 1;
}

// name, name:4, [fe80::1]:4, user@[fe80::1]:4; an unbracketed text with several colons is an IPv6
// address.
std::string parse_host(std::string_view text, HostSlots& host) {
    std::string_view slots;
    size_t open = text.find('@') + 1;  // 0: no user is named
    if (text.substr(open).starts_with('[')) {
        size_t close = text.find(']');
        if (close == std::string_view::npos) return "a '[' is not closed";
        host.name = without_brackets(text.substr(0, close + 1));
        slots = text.substr(close + 1);
        if (!slots.empty() && slots.front() != ':') return "text after ']'";
    } else {
        size_t colon = text.find(':');
        bool one = colon != std::string_view::npos && text.find(':', colon + 1) == text.npos;
        host.name = text.substr(0, one ? colon : text.size());
        if (one) slots = text.substr(colon);
    }
    if (!is_host_name(host.name)) return format("'{}' is not a host name", text);
    if (slots == ":*") {  // as in a hostfile: one for each core
        host.from_file = true;
        return {};
    }
    if (!slots.empty() && !parse_slots(slots.substr(1), host.slots))
        return not_slots(slots.substr(1));
    return {};
}

std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
    std::vector<std::string_view> out;
    while (!text.empty()) {
        size_t end = std::min(text.find_first_of(separators), text.size());
        if (end > 0) out.push_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return out;
}

void add_host(std::vector<HostSlots>& hosts, const HostSlots& host) {
    for (HostSlots& known : hosts) {
        if (known.name != host.name) continue;
        // A name given again adds slots, one where none is said, as in other launchers.
        known.slots = std::min(kSlotsMax, std::max(known.slots, 1) + std::max(host.slots, 1));
        known.max_slots = std::max(known.max_slots, host.max_slots);
        if (known.prefix.empty()) known.prefix = host.prefix;
        return;
    }
    hosts.push_back(host);
}
}  // namespace

bool is_host_name(std::string_view name) {
    size_t at = name.find('@');
    return at == name.npos
               ? is_plain_name(name)
               : is_plain_name(name.substr(0, at)) && is_plain_name(name.substr(at + 1));
}

void add_hosts(std::vector<HostSlots>& hosts, const std::vector<HostSlots>& more) {
    for (const HostSlots& host : more) add_host(hosts, host);
}

std::string without_brackets(std::string_view name) {
    size_t open = name.find('@') + 1;  // 0: no user is named
    if (!name.substr(open).starts_with('[') || !name.ends_with(']')) return std::string(name);
    return format("{}{}", name.substr(0, open), name.substr(open + 1, name.size() - open - 2));
}

std::string_view without_user(std::string_view name) {
    size_t at = name.rfind('@');
    return at == name.npos ? name : name.substr(at + 1);
}

// "slots = 4" as "slots=4".
static std::string without_room(std::string_view line) {
    constexpr const char* room = " \t\r\v\f";
    std::string out;
    for (size_t equals; (equals = line.find('=')) != line.npos;) {
        std::string_view before = line.substr(0, equals);
        size_t last = before.find_last_not_of(room);
        out += format("{}=", last == before.npos ? before : before.substr(0, last + 1));
        line.remove_prefix(std::min(line.find_first_not_of(room, equals + 1), line.size()));
    }
    return out + std::string(line);
}

std::vector<FileLine> file_lines(std::string_view text) {
    std::vector<FileLine> out;
    constexpr std::string_view mark = "\xef\xbb\xbf";  // some editors begin UTF-8 so
    if (text.starts_with(mark)) text.remove_prefix(mark.size());
    for (int number = 1; !text.empty(); ++number) {
        size_t end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        std::string joined = without_room(line.substr(0, line.find('#')));
        auto words = split(joined, " \t\r\v\f");
        if (!words.empty()) out.push_back({number, {words.begin(), words.end()}});
    }
    return out;
}

HostList parse_hostfile(std::string_view text) {
    HostList out;
    for (const auto& [number, words] : file_lines(text)) {
        HostSlots host;
        std::string mistake = parse_host(words[0], host);
        for (size_t i = 1; i < words.size() && mistake.empty(); ++i) {
            std::string_view word = words[i];
            size_t equals = word.find('=');
            std::string_view name = word.substr(0, equals);
            std::string_view value = equals == word.npos ? "" : word.substr(equals + 1);
            int slots = 0;
            bool most = name == "max_slots" || name == "max-slots" || name == "slots_max" ||
                        name == "slots-max";
            bool slots_said = name == "slots" || name == "count" || name == "cpu";
            if (name == "prefix") {
                host.prefix = value;
            } else if (name == "user" || name == "username") {
                if (!is_plain_name(value)) mistake = format("'{}' is not a user's name", value);
                host.name = format("{}@{}", value, without_user(host.name));
            } else if (!slots_said && !most) {
                mistake = format(messages::host_word, word);
            } else if (!parse_slots(value, slots)) {
                mistake = not_slots(value);
            } else {
                (most ? host.max_slots : host.slots) = slots;
            }
        }
        host.from_file = true;
        if (!mistake.empty()) return {{}, format("line {}: {}", number, mistake)};
        add_host(out.hosts, host);
    }
    if (out.hosts.empty()) out.mistake = "it names no host";
    return out;
}

// An empty variable, as in --host $A,$B, is not to shrink the job; a comma at the end is left by
// scripts that make lists.
static bool lacks_a_name(std::string_view text) {
    constexpr std::string_view room = " \t";
    while (!text.empty() && (room.find(text.back()) != room.npos)) text.remove_suffix(1);
    if (text.ends_with(',')) text.remove_suffix(1);
    bool empty = true;
    for (char c : text) {
        if (c == ',' && empty) return true;
        if (room.find(c) == room.npos) empty = c == ',';
    }
    return empty && !text.empty();
}

HostList parse_host_option(std::string_view text) {
    HostList out;
    std::vector<std::string_view> words = split(text, ", \t");
    if (!words.empty() && lacks_a_name(text))
        return {{}, format("'{}' has a comma without a host before or behind it", text)};
    for (std::string_view word : words) {
        HostSlots host;
        std::string mistake = parse_host(word, host);
        if (!mistake.empty()) return {{}, mistake};
        add_host(out.hosts, host);
    }
    if (out.hosts.empty()) out.mistake = "it names no host";
    return out;
}

static std::string lower(std::string_view name) {
    std::string out(name);
    for (char& c : out)
        if (c >= 'A' && c <= 'Z') c += 'a' - 'A';
    return out;
}

bool is_this_host(std::string_view name_said, std::string_view own_name_said) {
    std::string whole_name = lower(name_said), whole_own = lower(own_name_said);
    std::string_view name = whole_name, own_name = whole_own;
    if (name.find('@') != name.npos) return false;  // perhaps as another user
    if (name == "localhost" || name == "::1" || name.starts_with("127.") || name == own_name)
        return true;
    std::string_view own_short = own_name.substr(0, own_name.find('.'));
    std::string_view own_local = ".local";
    return name == own_short || (name.ends_with(own_local) && name.starts_with(own_short) &&
                                 name.size() == own_short.size() + own_local.size());
}

}  // namespace pomona
