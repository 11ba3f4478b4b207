// tests/repeat.cc: linked to every GoogleTest program: a failed test ends with the command that
// repeats it. Seeds are fixed, so the command alone does; a seed from outside is part of it.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <string>

namespace {

std::string program() {
#if defined(__APPLE__)
    return getprogname();
#else
    std::error_code failed;
    return std::filesystem::read_symlink("/proc/self/exe", failed).string();
#endif
}

class Repeat final : public testing::EmptyTestEventListener {
    void OnTestEnd(const testing::TestInfo& test) override {
        if (!test.result()->Failed()) return;
        const char* seed = std::getenv("POMONA_SEED");
        std::printf("Repeat with: %s%s%s%s --gtest_filter=%s.%s\n", seed ? "POMONA_SEED=" : "",
                    seed ? seed : "", seed ? " " : "", program().c_str(), test.test_suite_name(),
                    test.name());
    }
};

[[maybe_unused]] const bool registered = [] {
    testing::UnitTest::GetInstance()->listeners().Append(new Repeat);
    return true;
}();

}  // namespace
