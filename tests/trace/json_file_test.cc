// tests/trace/json_file_test.cc: the file of a trace, as text.
// Goal: whatever a communicator is called, and whatever a number is, the file is JSON that says it.
#include "mpi/trace/json_file.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <string>
#include <unistd.h>

namespace pomona::trace {
namespace {

// What a file holds of one event with these arguments.
template <class Write> std::string arguments(Write write) {
    auto folder = std::filesystem::path(testing::TempDir());
    std::string path = folder / ("json_file_test_" + std::to_string(getpid()));
    JsonFile out(path);
    EXPECT_TRUE(out.good());
    out.begin(1000);
    out.event("X", "call", "send", 3045, 7, 2);
    out.open("args");
    write(out);
    out.close();
    out.end();
    out.open("otherData", true);
    EXPECT_TRUE(out.finish());
    std::ifstream file(path);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    std::filesystem::remove(path);
    const std::string before =
        "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{\"ph\":\"X\",\"name\":\"call\",\"cat\":"
        "\"send\",\"ts\":2.045,\"pid\":7,\"tid\":2,\"args\":{";
    const std::string after = "}}\n],\n\"otherData\":{}}\n";
    EXPECT_EQ(text.substr(0, before.size()), before);
    EXPECT_EQ(text.substr(text.size() - after.size()), after);
    return text.substr(before.size(), text.size() - before.size() - after.size());
}

std::string text(std::string_view value) {
    return arguments([&](JsonFile& out) { out.text("a", value); });
}

TEST(JsonFile, texts) {
    EXPECT_EQ(text(""), R"("a":"")");
    EXPECT_EQ(text("rows of the grid, 3 by 4"), R"("a":"rows of the grid, 3 by 4")");
    EXPECT_EQ(text("the \"ring\""), R"("a":"the \"ring\"")");
    EXPECT_EQ(text("\\"), R"("a":"\\")");
    EXPECT_EQ(text("\"\\\""), R"("a":"\"\\\"")");
    EXPECT_EQ(text("a\tb\n"), R"("a":"a b ")") << "control characters may not stand in JSON";
    EXPECT_EQ(text("\x1f|\x7f"), "\"a\":\" |\x7f\"");
    EXPECT_EQ(text("größer"), R"("a":"größer")");
    // One character that is not plain, at each place of a long text.
    for (size_t place = 0; place < 70; ++place) {
        std::string value(70, 'x'), expected(70, 'x');
        value[place] = '"';
        expected.replace(place, 1, "\\\"");
        EXPECT_EQ(text(value), "\"a\":\"" + expected + "\"") << place;
    }
}

// The buffer is flushed at every place of a text, and a text may be longer than it.
TEST(JsonFile, long_texts) {
    const std::string longest(200000, 'y');
    EXPECT_EQ(text(longest), "\"a\":\"" + longest + "\"");
    for (size_t before = 65000; before < 65600; ++before) {
        std::string expected =
            "\"a\":\"" + std::string(before, 'x') + R"(","n":123456,"b":"\"yes\"")";
        EXPECT_EQ(arguments([&](JsonFile& out) {
                      out.text("a", std::string(before, 'x'));
                      out.number("n", 123456);
                      out.text("b", "\"yes\"");
                  }),
                  expected);
    }
}

TEST(JsonFile, numbers) {
    for (int64_t value : {int64_t{0}, int64_t{-1}, int64_t{1234567}, INT64_MAX, INT64_MIN})
        EXPECT_EQ(arguments([&](JsonFile& out) { out.number("n", value); }),
                  "\"n\":" + std::to_string(value));
    EXPECT_EQ(arguments([](JsonFile& out) {
                  out.number("n", 1);
                  out.text("t", "x");
                  out.duration(1234007);
                  out.duration(-5);
              }),
              R"("n":1,"t":"x","dur":1234.007,"dur":-0.005)");
}

}  // namespace
}  // namespace pomona::trace
