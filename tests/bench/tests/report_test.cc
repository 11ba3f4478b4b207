// report_test.cc: the JSON document and the table, made of rows written here.
// Goal: the columns line up, what was not measured is left out, and numbers survive the round trip.
#include "../report.h"

#include <cstdio>
#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace pomona::bench {
namespace {

Row allreduce_row(size_t bytes, double us) {
    Row row{"allreduce", bytes, true, summarize({us, us * 2, us * 3}), 1.5, 3.0, true, {}};
    return row;
}

TEST(Json, HoldsEveryMeasuredField) {
    Setting setting;
    setting.library = "Test \"MPI\" 1\n";
    setting.command = "mpi-bench allreduce";
    setting.hosts = {"here"};
    setting.ranks = 2;
    Row pack{"pack", 64, true, summarize({1.0}), -1, -1, true, {{"unpack us", 2.5}}};
    auto json = nlohmann::json::parse(to_json(setting, Options{}, {allreduce_row(8, 0.25), pack}));
    EXPECT_EQ(json["schema"], 1);
    EXPECT_EQ(json["library"], "Test \"MPI\" 1\n");
    EXPECT_EQ(json["ranks"], 2);
    EXPECT_EQ(json["loop"], "lined up");
    EXPECT_GT(json["machine"]["cores"], 0);
    ASSERT_EQ(json["rows"].size(), 2u);
    const auto& first = json["rows"][0];
    EXPECT_EQ(first["case"], "allreduce");
    EXPECT_EQ(first["bytes"], 8);
    EXPECT_EQ(first["samples"], 3);
    EXPECT_EQ(first["p50_us"], 0.5);
    EXPECT_EQ(first["p99_us"], 0.75);
    EXPECT_EQ(first["bus_gbs"], 3.0);
    EXPECT_EQ(first["verified"], true);
    EXPECT_FALSE(json["rows"][1].contains("bus_gbs"));
    EXPECT_EQ(json["rows"][1]["extra"]["unpack us"], 2.5);
}

std::string printed(const std::vector<Row>& rows) {
    FILE* file = std::tmpfile();
    Table table(file);
    table.title("title");
    for (const Row& row : rows) table.row(row);
    std::rewind(file);
    std::string out;
    char text[256];
    while (size_t got = std::fread(text, 1, sizeof text, file)) out.append(text, got);
    std::fclose(file);
    return out;
}

TEST(Table, ColumnsLineUpUnderOneHeader) {
    std::istringstream lines(printed({allreduce_row(8, 0.25), allreduce_row(16 << 20, 3300)}));
    std::string blank, title, header, first, second;
    std::getline(lines, blank), std::getline(lines, title), std::getline(lines, header);
    std::getline(lines, first), std::getline(lines, second);
    EXPECT_EQ(title, "title");
    EXPECT_NE(header.find("p50 us"), std::string::npos);
    EXPECT_NE(header.find("bus GB/s"), std::string::npos);
    EXPECT_EQ(header.size(), first.size());
    EXPECT_EQ(first.size(), second.size());
    EXPECT_NE(second.find("16 MiB"), std::string::npos);
}

TEST(Table, NumbersKeepThreeDigits) {
    EXPECT_EQ(show_number(0.1234), "0.123");
    EXPECT_EQ(show_number(1.234), "1.23");
    EXPECT_EQ(show_number(12.34), "12.3");
    EXPECT_EQ(show_number(12345.6), "12346");
    EXPECT_EQ(show_number(-1), "-");
}

TEST(Output, AnUnwritableFileIsReported) {
    EXPECT_FALSE(write_file("/nonexistent-folder/out.json", "{}"));
}

}  // namespace
}  // namespace pomona::bench
