// tests/unit/counters_page.cc: counters that another process reads from shared memory.
// Goal: what is counted before and after show() stands there, with each counter in its place; what
// is no such memory, or of other counters, is refused; what stands there already is left alone; and
// the name goes with its maker.
#include "btl/base/counters_page.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace pomona {
namespace {

class CountersPages : public ::testing::Test {
protected:
    void SetUp() override {
        char name[] = "/tmp/counters-page-XXXXXX";
        ASSERT_NE(mkdtemp(name), nullptr);
        folder_ = name;
        path_ = counters_name("test" + std::to_string(getpid()), 3);
    }
    void TearDown() override {
        shm_unlink(path_.c_str());
        EXPECT_EQ(rmdir(folder_.c_str()), 0);
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
    ASSERT_TRUE(page.show(path_, folder_).ok());
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
    ASSERT_TRUE(one.show(path_, folder_).ok());
    EXPECT_FALSE(other.show(path_, folder_).ok());  // it stands
    count(other.counters().sleeps, 9);
    EXPECT_EQ(value(*read_counters(path_), "sleeps"), 1U);
}

TEST_F(CountersPages, the_name_goes_with_its_maker) {
    { ASSERT_TRUE(CountersPage().show(path_, folder_).ok()); }
    EXPECT_FALSE(read_counters(path_));
}

TEST_F(CountersPages, other_memory_is_refused) {
    int file = shm_open(path_.c_str(), O_CREAT | O_RDWR, 0600);
    ASSERT_GE(file, 0);
    ASSERT_EQ(ftruncate(file, 8), 0);
    EXPECT_FALSE(read_counters(path_));
    ASSERT_EQ(ftruncate(file, 1 << 16), 0);
    EXPECT_FALSE(read_counters(path_));
    EXPECT_FALSE(CountersPage().show(path_, folder_).ok());
    close(file);
}

}  // namespace
}  // namespace pomona
