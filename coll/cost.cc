// coll/cost.cc: costs of links as text; bytes from users and files, so it is fuzzed (tests/fuzz).
#include "coll/cost.h"

#include "btl/base/format.h"
#include "btl/base/kept_file.h"

#include <algorithm>
#include <cmath>

namespace pomona::coll {

namespace {

constexpr double number_max = 1e9;  // a second of latency

// Digits with at most one point between them, the same in every locale. (std::from_chars of
// doubles is not in every C++ library yet.)
bool read_number(std::string_view text, double& value) {
    double scale = 0;
    bool digit = false;
    value = 0;
    if (text.size() > 24) return false;
    for (char c : text) {
        if (c == '.' && scale == 0 && digit) {
            scale = 1;
            continue;
        }
        if (c < '0' || c > '9') return false;
        digit = true;
        value = value * 10 + (c - '0');
        scale *= 10;
    }
    if (scale > 0) value /= scale;
    return digit && text.back() != '.' && value <= number_max;
}

bool read_link(std::string_view text, Link& link) {
    bool good = read_number(take_piece(text, ':'), link.latency_ns);
    good = good && read_number(take_piece(text, ':'), link.overhead_ns);
    return good && read_number(text, link.byte_ns) && link.message_ns() > 0;
}

std::string show(double value) {
    std::string text = format("{:.5f}", value);
    text.resize(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
    return text;
}

std::string show(const Link& link) {
    return format("{}:{}:{}", show(link.latency_ns), show(link.overhead_ns), show(link.byte_ns));
}

Error bad(std::string& problem, std::string text) {
    problem = std::move(text);
    return Error{Code::invalid_argument, "Costs of links cannot be read"};
}

}  // namespace

double distance_from_cache(double bytes) {
    constexpr double near = 512 << 10, far = 4 << 20;
    return std::clamp(std::log2(std::max(bytes, near) / near) / std::log2(far / near), 0.0, 1.0);
}

Result<Links> parse_links(std::string_view text, std::string& problem) {
    Links links;
    if (text.empty() || text == "built-in") return links;
    struct Row {
        std::string_view name;
        Link* link;
        double* number;
        bool given = false;
    };
    Row rows[] = {{"shm", &links.shm, nullptr},
                  {"tcp", &links.tcp, nullptr},
                  {"net", &links.net, nullptr},
                  {"copy", nullptr, &links.copy_ns},
                  {"reduce", nullptr, &links.reduce_ns},
                  {"switch", nullptr, &links.switch_ns},
                  {"ask", nullptr, &links.ask_ns},
                  {"fresh", nullptr, &links.fresh_ns},
                  {"byte_eager", nullptr, &links.byte_eager_ns},
                  {"byte_far", nullptr, &links.byte_far_ns},
                  {"copy_far", nullptr, &links.copy_far_ns},
                  {"reduce_far", nullptr, &links.reduce_far_ns},
                  {"both", nullptr, &links.both},
                  {"both_far", nullptr, &links.both_far},
                  {"chunk", nullptr, &links.chunk},
                  {"chunk_far", nullptr, &links.chunk_far},
                  {"bcast_far", nullptr, &links.bcast_far},
                  {"hand", nullptr, &links.hand},
                  {"crowd", nullptr, &links.crowd}};
    bool more = true;
    while (more) {
        more = text.find(',') != text.npos;
        std::string_view item = take_piece(text, ','), value = item;
        std::string_view name = take_piece(value, '=');
        Row* row = nullptr;
        for (Row& each : rows)
            if (each.name == name) row = &each;
        if (!row)
            return bad(
                problem,
                "Costs of links are named shm, tcp, net, copy, reduce, switch, ask, fresh, "
                "byte_eager, byte_far, copy_far, reduce_far, both, both_far, chunk, chunk_far, "
                "bcast_far, hand and crowd, as in shm=60:35:0.08,copy=0.05");
        if (row->given) return bad(problem, format("{} stands twice", name));
        row->given = true;
        if (row->link && !read_link(value, *row->link))
            return bad(problem, format("{} takes L:o:G, nanoseconds of latency and of overhead and "
                                       "nanoseconds per byte, as in 60:35:0.08",
                                       name));
        if (row->number && !read_number(value, *row->number))
            return bad(problem, format("{} takes a number such as 0.05, without a sign", name));
    }
    return links;
}

std::string links_text(const Links& links) {
    std::string text =
        format("shm={},tcp={},net={},copy={},reduce={},switch={}", show(links.shm), show(links.tcp),
               show(links.net), show(links.copy_ns), show(links.reduce_ns), show(links.switch_ns));
    text += format(",ask={},fresh={},byte_eager={},byte_far={},copy_far={},reduce_far={}",
                   show(links.ask_ns), show(links.fresh_ns), show(links.byte_eager_ns),
                   show(links.byte_far_ns), show(links.copy_far_ns), show(links.reduce_far_ns));
    text += format(",both={},both_far={},chunk={},chunk_far={},bcast_far={},hand={}",
                   show(links.both), show(links.both_far), show(links.chunk), show(links.chunk_far),
                   show(links.bcast_far), show(links.hand));
    return links.crowd == 1 ? text : text + format(",crowd={}", show(links.crowd));
}

}  // namespace pomona::coll
