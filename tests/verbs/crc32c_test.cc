// tests/verbs/crc32c_test.cc: the checksum of messages by RDMA, by each form that this processor
// has (a table, an instruction, products in vectors). Arm's run under qemu: tests/cross/aarch64.sh.
#include "btl/base/random.h"
#include "btl/rdma/copiers.h"
#include "btl/rdma/crc32c.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <unistd.h>

namespace pomona {
namespace {

// RFC 3720, B.4: 32 bytes of zeros, and of ones.
TEST(Crc32c, is_that_of_the_standard) {
    std::vector<std::byte> bytes(32);
    EXPECT_EQ(rdma::crc32c(bytes), 0x8a9136aau);
    std::fill(bytes.begin(), bytes.end(), std::byte{0xff});
    EXPECT_EQ(rdma::crc32c(bytes), 0x62a8ab43u);
}

// Summed up from any state, and copied as well to anywhere, where nothing beside it is touched.
TEST(Crc32c, is_the_same_by_each_form) {
    Random random(7);
    for (size_t i = 0; i < 1200; ++i) {
        std::vector<std::byte> any(i < 800 ? i : random.below(20000));
        for (auto& each : any) each = static_cast<std::byte>(random.next());
        uint32_t plain = rdma::crc32c_plain(any), state = static_cast<uint32_t>(random.next());
        EXPECT_EQ(rdma::crc32c(any), plain) << any.size() << " bytes";
        std::vector<std::byte> taken(any.size());
        EXPECT_EQ(~rdma::crc32c_state(~0u, any, taken.data()), plain) << any.size() << " bytes";
        EXPECT_EQ(taken, any) << any.size() << " bytes";
        uint32_t on = rdma::crc32c_forms().front().sum(state, any, nullptr);
        for (const rdma::CrcForm& form : rdma::crc32c_forms()) {
            EXPECT_EQ(form.sum(~0u, any, nullptr), ~plain) << form.name << " of " << any.size();
            size_t before = random.below(70);
            std::vector<std::byte> wanted(before + any.size() + 70, std::byte{0xa5}), copy = wanted;
            std::copy(any.begin(), any.end(), wanted.begin() + static_cast<ptrdiff_t>(before));
            EXPECT_EQ(form.sum(state, any, copy.data() + before), on) << form.name;
            EXPECT_EQ(copy, wanted) << form.name << ", " << any.size() << " behind " << before;
        }
    }
}

// By threads that come and go, of all lengths that are cut in parts, and into memory that nobody
// else may touch.
TEST(Crc32c, is_the_same_in_parts) {
    Random random(11);
    std::vector<std::byte> bytes(300 << 10);
    for (auto& each : bytes) each = static_cast<std::byte>(random.next());
    for (size_t threads : {0, 1, 3}) {
        rdma::Copiers copiers(threads);
        for (int i = 0; i < 300; ++i) {
            size_t length = i % 3 == 0 ? size_t{64} << 10 : random.below(bytes.size() - 200);
            size_t from = random.below(200), to = random.below(70);
            ConstBytes part{bytes.data() + from, length};
            uint32_t alone = rdma::crc32c(part);
            ASSERT_EQ(copiers.sum(nullptr, part), alone) << length << " bytes";
            std::vector<std::byte> copy(to + length + 70, std::byte{0xa5}), wanted = copy;
            std::copy(part.begin(), part.end(), wanted.begin() + static_cast<ptrdiff_t>(to));
            ASSERT_EQ(copiers.sum(copy.data() + to, part), alone) << length << " bytes";
            ASSERT_EQ(copy, wanted) << length << " bytes";
            if (i % 100 == 99) usleep(2000);  // they fall asleep
        }
        // The threads take part, some time, where payloads follow each other.
        std::vector<std::byte> copy(64 << 10);
        uint32_t alone = rdma::crc32c({bytes.data(), copy.size()});
        for (int i = 0; i < 500'000 && copiers.helped() == 0 && threads > 0; ++i)
            ASSERT_EQ(copiers.sum(copy.data(), {bytes.data(), copy.size()}), alone);
        EXPECT_EQ(copiers.helped() > 0, threads > 0);
    }
}

// POMONA_CRC_FORM names the one that has to be chosen: under qemu, where the processor is known.
TEST(Crc32c, is_by_the_form_that_is_asked_for) {
    const char* asked = std::getenv("POMONA_CRC_FORM");
    if (!asked) GTEST_SKIP() << "POMONA_CRC_FORM is not set";
    EXPECT_EQ(std::string(rdma::crc32c_forms().back().name), asked);
}

}  // namespace
}  // namespace pomona
