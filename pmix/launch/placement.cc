// pmix/launch/placement.cc: see placement.h.
#include "pmix/launch/placement.h"

#include "btl/base/format.h"
#include "btl/base/messages.h"

#include <algorithm>
#include <limits>

namespace pomona {

namespace {

// As equal as can be, the first ones get one more.
std::vector<int> even_shares(int count, size_t parts) {
    auto each = count / static_cast<int>(parts), rest = count % static_cast<int>(parts);
    std::vector<int> out(parts, each);
    for (int i = 0; i < rest; ++i) ++out[static_cast<size_t>(i)];
    return out;
}

int limit_of(const PlaceHost& host) {
    return host.max_slots > 0 ? host.max_slots : std::numeric_limits<int>::max();
}

// What placing by programs or by a rankfile may break: it looks at no host's limits.
std::string beyond_limits(const std::vector<PlaceHost>& hosts, const PlaceWish& wish,
                          const std::vector<int>& host_of) {
    std::vector<int> used(hosts.size(), 0);
    for (int host : host_of) ++used[static_cast<size_t>(host)];
    for (size_t i = 0; i < hosts.size(); ++i) {
        if (used[i] > limit_of(hosts[i]))
            return format(messages::too_many_on_host, used[i], hosts[i].name, hosts[i].max_slots);
        int slots = slots_of(hosts[i], hosts.size());
        if (wish.refuse_oversubscribe && used[i] > slots)
            return format(messages::too_few_slots_on_host, used[i], hosts[i].name, slots);
    }
    return {};
}

std::string too_many(int count, long most, const char* what) {
    return format(messages::too_many_ranks, count, most, what);
}

// How many ranks each host gets; the order is another question.
std::vector<int> counts_by_slot(int count, const std::vector<PlaceHost>& hosts) {
    bool said = std::any_of(hosts.begin(), hosts.end(), [](const PlaceHost& host) {
        return host.slots > 0 || host.from_file || host.max_slots > 0;
    });
    if (!said) return even_shares(count, hosts.size());
    std::vector<int> out(hosts.size(), 0);
    for (size_t i = 0; i < hosts.size() && count > 0; ++i) {
        out[i] = std::min({count, slots_of(hosts[i], hosts.size()), limit_of(hosts[i])});
        count -= out[i];
    }
    // More than there are slots: all share the rest.
    for (bool room = true; count > 0 && room;) {
        room = false;
        for (size_t i = 0; i < hosts.size() && count > 0; ++i) {
            if (out[i] >= limit_of(hosts[i])) continue;
            ++out[i];
            --count;
            room = true;
        }
    }
    return out;
}

void put_by_rankfile(const std::vector<PlaceHost>& hosts, const PlaceWish& wish,
                     std::vector<int>& host_of) {
    for (const auto& entry : wish.rank_hosts) {
        auto rank = static_cast<size_t>(entry.first);
        auto found = std::find_if(hosts.begin(), hosts.end(), [&](const PlaceHost& host) {
            return host.name == entry.second ||
                   std::count(host.also.begin(), host.also.end(), entry.second) > 0;
        });
        if (rank < host_of.size() && found != hosts.end())
            host_of[rank] = static_cast<int>(found - hosts.begin());
    }
}

// Around the hosts, while they have slots, then while they may.
std::vector<int> around(int count, const std::vector<PlaceHost>& hosts) {
    std::vector<int> out, used(hosts.size(), 0);
    bool full = false;
    while (static_cast<int>(out.size()) < count) {
        size_t before = out.size();
        for (size_t i = 0; i < hosts.size() && static_cast<int>(out.size()) < count; ++i) {
            bool unsaid = hosts[i].slots == 0 && !hosts[i].from_file;
            int most = full || unsaid
                           ? limit_of(hosts[i])
                           : std::min(slots_of(hosts[i], hosts.size()), limit_of(hosts[i]));
            if (used[i] >= most) continue;
            ++used[i];
            out.push_back(static_cast<int>(i));
        }
        if (out.size() == before && full) break;
        full = full || out.size() == before;
    }
    return out;
}

}  // namespace

int slots_of(const PlaceHost& host, size_t hosts) {
    if (host.slots > 0) return std::min(host.slots, limit_of(host));
    if (host.max_slots > 0) return std::min(host.max_slots, host.processors);
    return hosts > 1 && !host.from_file ? 1 : host.processors;
}

int default_count(const std::vector<PlaceHost>& hosts, const PlaceWish& wish) {
    if (!wish.rank_hosts.empty()) return wish.rank_hosts.rbegin()->first + 1;
    int out = 0;
    for (const PlaceHost& host : hosts) {
        if (wish.per_node > 0) {
            out += std::min(wish.per_node, limit_of(host));
            continue;
        }
        bool unsaid = host.slots == 0 && host.max_slots == 0;
        out += unsaid && host.from_file ? host.cores : slots_of(host, hosts.size());
    }
    return out;
}

Placement place_ranks(int count, const std::vector<PlaceHost>& said, const PlaceWish& wish) {
    Placement out;
    auto size = static_cast<size_t>(count);
    std::vector<PlaceHost> hosts = said;
    if (wish.per_node > 0) {
        long most = static_cast<long>(wish.per_node) * static_cast<long>(hosts.size());
        if (count > most)
            return {{},
                    format(messages::too_few_hosts, count, wish.per_node,
                           (count + wish.per_node - 1) / wish.per_node,
                           hosts.size() == 1 ? "is" : "are", hosts.size())};
        for (PlaceHost& host : hosts) host.max_slots = std::min(wish.per_node, limit_of(host));
    }
    long slots = 0;
    for (const PlaceHost& host : said) slots += slots_of(host, hosts.size());
    if (wish.refuse_oversubscribe && count > slots)
        return {{}, format(messages::too_few_slots, count, slots)};
    if (wish.map == MapBy::node) {
        out.host_of = around(count, hosts);
    } else {
        std::vector<int> counts;
        if (wish.per_node > 0)
            for (int left = count; counts.size() < hosts.size(); left -= counts.back())
                counts.push_back(std::min(left, hosts[counts.size()].max_slots));
        else counts = counts_by_slot(count, hosts);
        for (size_t i = 0; i < hosts.size(); ++i)
            out.host_of.insert(out.host_of.end(), static_cast<size_t>(counts[i]),
                               static_cast<int>(i));
    }
    if (out.host_of.size() < size)
        return {{},
                too_many(count, static_cast<long>(out.host_of.size()),
                         "is the most that max_slots allows")};
    put_by_rankfile(said, wish, out.host_of);
    out.mistake = beyond_limits(said, wish, out.host_of);
    return out;
}

Placement place_programs(const std::vector<int>& counts,
                         const std::vector<std::vector<HostSlots>>& own,
                         const std::vector<PlaceHost>& hosts, const PlaceWish& wish) {
    Placement out;
    for (size_t p = 0; p < counts.size(); ++p) {
        std::vector<PlaceHost> chosen;
        std::vector<int> numbers;
        for (size_t i = 0; i < hosts.size(); ++i) {
            bool named = own[p].empty();
            int slots = 0;  // as this program's option says
            for (const HostSlots& host : own[p]) {
                const auto& also = hosts[i].also;
                if (std::none_of(also.begin(), also.end(), [&](const std::string& name) {
                        return name == host.name || without_user(name) == host.name;
                    }))
                    continue;
                named = true;
                slots += host.slots;
            }
            if (!named) continue;
            chosen.push_back(hosts[i]);
            numbers.push_back(static_cast<int>(i));
            if (slots > 0 || !(own[p].empty() || hosts[i].from_file)) chosen.back().slots = slots;
        }
        PlaceWish alone = wish;
        alone.rank_hosts.clear();
        Placement part = place_ranks(counts[p], chosen, alone);
        if (!part.mistake.empty()) return part;
        for (int host : part.host_of) out.host_of.push_back(numbers[static_cast<size_t>(host)]);
    }
    put_by_rankfile(hosts, wish, out.host_of);
    out.mistake = beyond_limits(hosts, wish, out.host_of);
    return out;
}

Placement place_more(int count, const std::vector<PlaceHost>& hosts, std::vector<int> used,
                     const std::vector<bool>& allowed) {
    Placement out;
    auto slots = [&](size_t i) { return std::max(slots_of(hosts[i], hosts.size()), 1); };
    auto open = [&](size_t i) {
        return (allowed.empty() || allowed[i]) && used[i] < limit_of(hosts[i]);
    };
    while (static_cast<int>(out.host_of.size()) < count) {
        size_t best = hosts.size();
        for (size_t i = 0; i < hosts.size(); ++i) {
            if (!open(i)) continue;
            if (used[i] < slots(i)) {
                best = i;
                break;
            }
            if (best == hosts.size() || used[i] * slots(best) < used[best] * slots(i)) best = i;
        }
        if (best == hosts.size())
            return {{},
                    too_many(count, static_cast<long>(out.host_of.size()),
                             "more is all that max_slots allows")};
        ++used[best];
        out.host_of.push_back(static_cast<int>(best));
    }
    return out;
}

}  // namespace pomona
