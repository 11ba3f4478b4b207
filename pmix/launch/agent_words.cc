// pmix/launch/agent_words.cc: see agent_words.h.
#include "pmix/launch/agent_words.h"

namespace pomona {

namespace {
constexpr size_t kWordMax = 4u << 20;
constexpr uint32_t kCountMax = 1u << 20;

void put_list(Writer& out, const std::vector<std::string>& list) {
    out.put(static_cast<uint32_t>(list.size()));
    for (const std::string& each : list) out.put_text(each);
}

std::vector<std::string> get_list(Reader& in) {
    std::vector<std::string> out;
    auto count = in.get<uint32_t>();
    for (uint32_t i = 0; i < count && i < kCountMax && !in.failed(); ++i)
        out.push_back(in.get_text(kWordMax));
    return out;
}

void put_numbers(Writer& out, const std::vector<int>& numbers) {
    out.put(static_cast<uint32_t>(numbers.size()));
    for (int each : numbers) out.put(static_cast<int32_t>(each));
}

std::vector<int> get_numbers(Reader& in) {
    std::vector<int> out;
    auto count = in.get<uint32_t>();
    for (uint32_t i = 0; i < count && i < kCountMax && !in.failed(); ++i)
        out.push_back(in.get<int32_t>());
    return out;
}

// An enum whose last value is `last`; another value is no order of ours.
template <class E> bool get_choice(Reader& in, E last, E& out) {
    auto value = in.get<uint8_t>();
    out = static_cast<E>(value);
    return value <= static_cast<uint8_t>(last);
}
}  // namespace

std::vector<std::byte> agent_frame(AgentWord word, const Writer& payload) {
    return control_frame(static_cast<ControlType>(word), payload);
}

void write_facts(Writer& out, const HostFacts& facts) {
    for (const std::string* text : {&facts.version, &facts.system, &facts.name, &facts.identity,
                                    &facts.own_address, &facts.caller_address})
        out.put_text(*text);
    for (int number : {facts.processors, facts.cores, facts.fast, facts.free_port, facts.own_port})
        out.put(static_cast<int32_t>(number));
    for (const auto* list :
         {&facts.addresses, &facts.all_addresses, &facts.link_local, &facts.unsteady})
        put_list(out, *list);
}

std::optional<HostFacts> read_facts(Reader& in) {
    HostFacts out;
    for (std::string* text : {&out.version, &out.system, &out.name, &out.identity, &out.own_address,
                              &out.caller_address})
        *text = in.get_text(kControlKeyMax);
    for (int* number : {&out.processors, &out.cores, &out.fast, &out.free_port, &out.own_port})
        *number = in.get<int32_t>();
    for (auto* list : {&out.addresses, &out.all_addresses, &out.link_local, &out.unsteady})
        *list = get_list(in);
    bool right = out.processors >= 1 && out.cores >= 0 && out.fast >= 0 && out.free_port >= 0 &&
                 out.free_port <= 65535 && out.own_port >= 0 && out.own_port <= 65535;
    if (in.failed() || !right) return std::nullopt;
    return out;
}

void write_orders(Writer& out, const JobOrders& orders) {
    out.put_text(orders.tag);
    out.put_text(orders.host);
    out.put(static_cast<int32_t>(orders.node));
    out.put(static_cast<int32_t>(orders.ranks));
    out.put_text(orders.directory);
    put_list(out, orders.environment);
    out.put(static_cast<uint32_t>(orders.parameters.size()));
    for (const auto& file : orders.parameters) out.put_sized(file);
    out.put(static_cast<uint8_t>(orders.bind));
    out.put(static_cast<uint8_t>(orders.map));
    out.put(static_cast<int32_t>(orders.cores_per_rank));
    put_numbers(out, orders.cpu_set);
    out.put(static_cast<uint32_t>(orders.rank_cores.size()));
    for (const auto& [place, cores] : orders.rank_cores) {
        out.put(static_cast<int32_t>(place));
        put_numbers(out, cores);
    }
    out.put(static_cast<int64_t>(orders.silence_seconds * 1e3));
    out.put(static_cast<uint8_t>(orders.verbose));
    out.put(static_cast<uint8_t>(orders.caller.has_value()));
    if (orders.caller) write_facts(out, *orders.caller);
}

std::optional<JobOrders> read_orders(Reader& in) {
    JobOrders out;
    out.tag = in.get_text(64);
    out.host = in.get_text(kControlKeyMax);
    out.node = in.get<int32_t>();
    out.ranks = in.get<int32_t>();
    out.directory = in.get_text(kWordMax);
    out.environment = get_list(in);
    auto files = in.get<uint32_t>();
    for (uint32_t i = 0; i < files && i < kCountMax && !in.failed(); ++i) {
        ConstBytes file = in.get_sized(kControlFrameMax);
        out.parameters.emplace_back(file.begin(), file.end());
    }
    bool right = get_choice(in, BindTo::numa, out.bind);
    right = get_choice(in, MapBy::node, out.map) && right;
    out.cores_per_rank = in.get<int32_t>();
    out.cpu_set = get_numbers(in);
    auto named = in.get<uint32_t>();
    for (uint32_t i = 0; i < named && i < kCountMax && !in.failed(); ++i) {
        int place = in.get<int32_t>();
        out.rank_cores.emplace_back(place, get_numbers(in));
    }
    out.silence_seconds = static_cast<double>(in.get<int64_t>()) / 1e3;
    out.verbose = in.get<uint8_t>() != 0;
    if (in.get<uint8_t>() != 0) {
        out.caller = read_facts(in);
        right = right && out.caller;
    }
    // The tag becomes part of a path.
    right = right && !out.tag.empty() && out.tag.find_first_of("/.") == std::string::npos;
    if (in.failed() || !right || out.ranks < 0 || out.ranks > static_cast<int>(kCountMax))
        return std::nullopt;
    return out;
}

void write_start(Writer& out, const StartOrder& order) {
    out.put(static_cast<int32_t>(order.rank));
    out.put(static_cast<int32_t>(order.place));
    put_list(out, order.command);
    out.put_text(order.program);
    out.put_text(order.directory);
    put_list(out, order.environment);
    out.put(order.parameters);
    out.put(static_cast<uint8_t>(order.input));
    out.put(static_cast<uint8_t>(order.merge_stderr));
}

std::optional<StartOrder> read_start(Reader& in) {
    StartOrder out;
    out.rank = in.get<int32_t>();
    out.place = in.get<int32_t>();
    out.command = get_list(in);
    out.program = in.get_text(kWordMax);
    out.directory = in.get_text(kWordMax);
    out.environment = get_list(in);
    out.parameters = in.get<uint32_t>();
    bool right = get_choice(in, StartOrder::Input::ours, out.input);
    out.merge_stderr = in.get<uint8_t>() != 0;
    if (in.failed() || !right || out.rank < 0 || out.command.empty()) return std::nullopt;
    return out;
}

}  // namespace pomona
