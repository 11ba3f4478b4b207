// tests/unit/counters_page.cc: counters that another process reads from a file.
// Goal: what is counted before and after show() stands in the file, with each counter in its place;
// what is no such file, or of other counters, is refused; a file that stands there is left alone.
#include "btl/base/counters_page.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include <unistd.h>

namespace pomona {
namespace {

class CountersPages : public ::testing::Test {
protected:
    void SetUp() override {
        char name[] = "/tmp/counters-page-XXXXXX";
        ASSERT_NE(mkdtemp(name), nullptr);
        folder_ = name;
        path_ = counters_file(folder_, 3);
    }
    void TearDown() override {
        unlink(path_.c_str());
        rmdir(folder_.c_str());
    }
    static uint64_t value(const std::vector<uint64_t>& values, const std::string& name) {
        for (size_t i = 0; i < values.size(); ++i)
            if (counter_table()[i].name == name) return values[i];
        ADD_FAILURE() << "no counter " << name;
        return 0;
    }
    std::string folder_, path_;
};

TEST_F(CountersPages, what_is_counted_can_be_read) {
    CountersPage page;
    count(page.counters().bytes_sent, 5);
    EXPECT_FALSE(read_counters(path_));
    Counters* const before = &page.counters();
    ASSERT_TRUE(page.show(path_).ok());
    EXPECT_EQ(before, &page.counters());
    count(page.counters().bytes_sent, 7);
    count(page.counters().reduce_ns, 1);
    const auto values = read_counters(path_);
    ASSERT_TRUE(values);
    ASSERT_EQ(values->size(), counter_table().size());
    EXPECT_EQ(value(*values, "bytes_sent"), 12U);
    EXPECT_EQ(value(*values, "reduce_ns"), 1U);
    EXPECT_EQ(value(*values, "messages_sent"), 0U);
}

TEST_F(CountersPages, two_pages_are_apart) {
    CountersPage one, other;
    count(one.counters().sleeps);
    EXPECT_EQ(other.counters().sleeps.load(), 0U);
    ASSERT_TRUE(one.show(path_).ok());
    EXPECT_FALSE(other.show(path_).ok());  // it stands
    count(other.counters().sleeps, 9);
    EXPECT_EQ(value(*read_counters(path_), "sleeps"), 1U);
}

TEST_F(CountersPages, other_files_are_refused) {
    std::ofstream(path_) << "short";
    EXPECT_FALSE(read_counters(path_));
    std::ofstream(path_) << std::string(1 << 16, 'x');
    EXPECT_FALSE(read_counters(path_));
    unlink(path_.c_str());
    ASSERT_EQ(symlink("/etc/passwd", path_.c_str()), 0);
    EXPECT_FALSE(read_counters(path_));
    EXPECT_FALSE(CountersPage().show(path_).ok());
}

}  // namespace
}  // namespace pomona
