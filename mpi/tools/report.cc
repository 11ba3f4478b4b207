// mpi/tools/report.cc: see report.h.
#include "mpi/tools/report.h"

#include "btl/base/format.h"

#include <nlohmann/json.hpp>

#include <cstdio>

namespace pomona {

namespace {

std::string last_complaint;  // of this program, which runs one command
bool printed = false;

}  // namespace

void complain(std::string_view command, std::string_view text) {
    std::string line = format("pomona {}: {}{}", command, text, text.ends_with('\n') ? "" : "\n");
    std::fputs(line.c_str(), stderr);
    remember_complaint(text);
}

void remember_complaint(std::string_view text) {
    while (text.ends_with('\n')) text.remove_suffix(1);
    last_complaint = text;
}

void print_report(std::string_view json) {
    std::fwrite(json.data(), 1, json.size(), stdout);
    note_report();
}

void note_report() { printed = true; }

std::string owed_report() {
    if (printed) return {};
    nlohmann::json out{
        {"error", last_complaint.empty() ? "standard error tells why" : last_complaint}};
    return out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace pomona
