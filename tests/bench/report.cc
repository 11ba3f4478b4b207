// report.cc: the table, the JSON document and the progress bar of mpi-bench.
// The JSON is written once for all consumers (plot.py, versus.py, kept results in docs/bench);
// its layout is numbered ("schema") so that they can refuse what they do not know.
#include "report.h"

#include <ctime>

#include <nlohmann/json.hpp>

#include "machine.h"

namespace pomona::bench {

std::string show_number(double value) {
    if (value < 0) return "-";
    char text[40];
    int digits = value < 1 ? 3 : value < 10 ? 2 : value < 1000 ? 1 : 0;
    std::snprintf(text, sizeof text, "%.*f", digits, value);
    return text;
}

void Table::title(const std::string& text) {
    std::fprintf(out_, "\n%s\n", text.c_str());
    header_due_ = true;
    std::fflush(out_);
}

void Table::header(const Row& row) {
    std::string columns = row.sized ? "#" : "";
    for (const auto& [name, value] : row.extra) columns += "|" + name;
    if (columns == columns_ && !header_due_) return;
    columns_ = std::move(columns);
    header_due_ = false;
    if (row.sized) std::fprintf(out_, "%12s", "size");
    if (row.time_us.samples) std::fprintf(out_, "%12s%12s", "p50 us", "p99 us");
    if (row.algorithm_gbs >= 0) std::fprintf(out_, "%12s", "alg GB/s");
    if (row.bus_gbs >= 0) std::fprintf(out_, "%12s", "bus GB/s");
    for (const auto& [name, value] : row.extra) std::fprintf(out_, "  %14s", name.c_str());
    std::fprintf(out_, "\n");
}

void Table::row(const Row& row) {
    header(row);
    if (row.sized) std::fprintf(out_, "%12s", show_size(row.bytes).c_str());
    if (row.time_us.samples)
        std::fprintf(out_, "%12s%12s", show_number(row.time_us.p50).c_str(),
                     show_number(row.time_us.p99).c_str());
    if (row.algorithm_gbs >= 0) std::fprintf(out_, "%12s", show_number(row.algorithm_gbs).c_str());
    if (row.bus_gbs >= 0) std::fprintf(out_, "%12s", show_number(row.bus_gbs).c_str());
    for (const auto& [name, value] : row.extra)
        std::fprintf(out_, "  %14s", show_number(value).c_str());
    std::fprintf(out_, "\n");
    std::fflush(out_);
}

void Progress::step(const std::string& what) {
    if (!shown_ || steps_ == 0) return;
    const size_t width = 30;
    size_t filled = done_ * width / steps_;
    std::fprintf(stdout, "\r[%s%s] %3zu%%  %-40s", std::string(filled, '#').c_str(),
                 std::string(width - filled, '.').c_str(), done_ * 100 / steps_, what.c_str());
    std::fflush(stdout);
    drawn_ = true;
    if (done_ < steps_) ++done_;
}

void Progress::clear() {
    if (!drawn_) return;
    std::fprintf(stdout, "\r\033[K");
    std::fflush(stdout);
    drawn_ = false;
}

namespace {

std::string utc_now() {
    std::time_t now = std::time(nullptr);
    std::tm parts{};
    gmtime_r(&now, &parts);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text;
}

nlohmann::ordered_json row_json(const Row& row) {
    nlohmann::ordered_json out;
    out["case"] = row.name;
    if (row.sized) out["bytes"] = row.bytes;
    if (row.time_us.samples) {
        out["samples"] = row.time_us.samples;
        out["p50_us"] = row.time_us.p50;
        out["p99_us"] = row.time_us.p99;
        out["min_us"] = row.time_us.min;
        out["mean_us"] = row.time_us.mean;
    }
    if (row.algorithm_gbs >= 0) out["algorithm_gbs"] = row.algorithm_gbs;
    if (row.bus_gbs >= 0) out["bus_gbs"] = row.bus_gbs;
    out["verified"] = row.verified;
    for (const auto& [name, value] : row.extra) out["extra"][name] = value;
    return out;
}

}  // namespace

std::string to_json(const Setting& setting, const Options& options, const std::vector<Row>& rows) {
    nlohmann::ordered_json out;
    out["schema"] = 1;
    out["tool"] = "mpi-bench";
    out["library"] = setting.library;
    out["mpi_version"] = setting.mpi_version;
    out["command"] = setting.command;
    out["date"] = utc_now();
    Machine machine = describe_machine();
    out["machine"] = {{"cpu", machine.cpu},
                      {"cores", machine.cores},
                      {"system", machine.system},
                      {"memory_gib", machine.memory_gib},
                      {"compiler", machine.compiler}};
    out["hosts"] = setting.hosts;
    out["ranks"] = setting.ranks;
    out["type"] = setting.type;
    out["op"] = setting.op;
    out["timer_ns"] = setting.timer_ns;
    out["seconds_per_size"] = options.seconds;
    out["fresh"] = options.fresh;
    out["loop"] = options.back_to_back ? "back-to-back" : "lined up";
    out["rows"] = nlohmann::ordered_json::array();
    for (const Row& row : rows) out["rows"].push_back(row_json(row));
    return out.dump(1) + "\n";
}

bool write_file(const std::string& path, const std::string& text) {
    FILE* file = path == "-" ? stdout : std::fopen(path.c_str(), "w");
    if (!file) return false;
    bool good = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    if (file != stdout) good = std::fclose(file) == 0 && good;
    return good;
}

}  // namespace pomona::bench
