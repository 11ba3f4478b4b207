// accel/choose_file.cc: choices as text, and where they are kept.
// Format: "pomona-accel 1", "machine KEY", then lines OP TYPE SIZE:BEST:NS,NS,NS ...
// [differs=MODULE]. A file of another machine or version is as good as none.
#include "accel/choose.h"

#include "btl/base/format.h"
#include "btl/base/kept_file.h"
#include "btl/base/messages.h"

#include <charconv>

namespace pomona {
namespace {

constexpr std::string_view first_line = "pomona-accel 1";

template <class T> bool read_number(std::string_view text, T& value) {
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() && value >= T(0);
}

template <class T> bool read_name(std::string_view text, T& value, const char* (*name)(T)) {
    for (int i = 0; i < static_cast<int>(T::count_); ++i)
        if (text == name(static_cast<T>(i))) return value = static_cast<T>(i), true;
    return false;
}

bool read_point(std::string_view text, ChoicePoint& point) {
    if (!read_number(take_piece(text, ':'), point.bytes)) return false;
    if (!read_name(take_piece(text, ':'), point.best, module_name)) return false;
    for (Nanoseconds& ns : point.ns)
        if (!read_number(take_piece(text, ','), ns)) return false;
    return text.empty();
}

bool read_row(std::string_view line, Choice& row) {
    if (!read_name(take_piece(line, ' '), row.op, op_name)) return false;
    if (!read_name(take_piece(line, ' '), row.type, type_name)) return false;
    while (!line.empty()) {
        std::string_view word = take_piece(line, ' ');
        if (word.substr(0, 8) == "differs=") {
            Module module;
            if (!read_name(word.substr(8), module, module_name)) return false;
            row.differs[static_cast<size_t>(module)] = true;
            continue;
        }
        ChoicePoint point;
        if (!read_point(word, point)) return false;
        if (!row.points.empty() && row.points.back().bytes >= point.bytes) return false;
        row.points.push_back(point);
    }
    return true;
}

}  // namespace

std::string machine_key() {
    std::string key = processor_name() + ", " + isa_name(best_isa());
    for (const Candidate& candidate : accel_candidates())
        key += std::string(", ") + module_name(candidate.module);
    return key;
}

std::string choices_text(const Choices& choices) {
    std::string text = std::string(first_line) + "\nmachine " + choices.machine + "\n";
    for (const Choice& row : choices.rows) {
        text += pomona::format("{} {}", op_name(row.op), type_name(row.type));
        for (const ChoicePoint& point : row.points) {
            text += pomona::format(" {}:{}:", point.bytes, module_name(point.best));
            for (size_t m = 0; m < point.ns.size(); ++m)
                text += pomona::format("{}{}", m ? "," : "", point.ns[m]);
        }
        for (size_t m = 0; m < row.differs.size(); ++m)
            if (row.differs[m])
                text += std::string(" differs=") + module_name(static_cast<Module>(m));
        text += "\n";
    }
    return text;
}

Result<Choices> parse_choices(std::string_view text) {
    constexpr Error malformed{Code::malformed, "The file of measured reductions does not parse"};
    if (take_piece(text, '\n') != first_line) return malformed;
    std::string_view machine = take_piece(text, '\n');
    if (machine.substr(0, 8) != "machine ") return malformed;
    Choices choices{std::string(machine.substr(8)), {}};
    while (!text.empty()) {
        Choice row{ReduceOp::sum, ElementType::f32, {}, {}};
        if (!read_row(take_piece(text, '\n'), row)) return malformed;
        choices.rows.push_back(std::move(row));
    }
    return choices;
}

Status save_choices(const Choices& choices, const std::string& path) {
    return write_kept(path, choices_text(choices));
}

Result<Choices> load_choices(const std::string& path) {
    Result<std::string> text = read_kept(path);
    if (!text) return Error{Code::not_found, messages::choices_missing, -1, text.error().os_errno};
    Choices choices = TRY(parse_choices(*text));
    if (choices.machine == machine_key()) return choices;
    return Error{Code::not_found, "The reductions were measured on another machine"};
}

std::string accel_cache_path(const char* const* environment) {
    return cache_path(environment, "accel");
}

}  // namespace pomona
