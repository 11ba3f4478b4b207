// tests/unit/request_end.cc: how a request's end is told.
// Goal: whoever ends one gets its status; the peer and the tag are named; a thread's last sentence
// is its own; and mpi's library stands by itself, without the functions of mpi/abi. Method:
// requests made by hand; this program is linked with all of that library and nothing of mpi/abi.
// That a failed one keeps its sentence is seen by the programs on errors.
#include "mpi/object/last_error.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/status.h"

#include <gtest/gtest.h>
#include <thread>

namespace pomona {
namespace {

struct Ended : Request {
    Ended(Communicator* comm, const Outcome& outcome) : Request(comm) { outcome_ = outcome; }
};

TEST(RequestEnd, tells_the_status) {
    Ended request(nullptr, {.source = 3, .tag = 7, .cancelled = true, .bytes = MPI_Count{1} << 40});
    MPI_Status status;
    status.MPI_ERROR = 99;
    EXPECT_EQ(request.finish(&status), MPI_SUCCESS);
    EXPECT_EQ(status.MPI_SOURCE, 3);
    EXPECT_EQ(status.MPI_TAG, 7);
    EXPECT_EQ(status.MPI_ERROR, 99);
    EXPECT_EQ(status_bytes(&status), MPI_Count{1} << 40);
    EXPECT_TRUE(status_cancelled(&status));
    EXPECT_EQ(request.finish(MPI_STATUS_IGNORE), MPI_SUCCESS);
}

TEST(RequestEnd, names_the_peer_and_the_tag) {
    EXPECT_EQ(whom_text({.source = 2, .tag = 5}), "peer 2, tag 5");
    EXPECT_EQ(whom_text({.tag = 5}), "any peer, tag 5");
    EXPECT_EQ(whom_text({.source = 2}), "peer 2");
    EXPECT_EQ(whom_text({}), "");
}

// One for each thread, and only for the code that was its last one.
TEST(LastError, is_the_threads_own) {
    keep_sentence(MPI_ERR_RANK, "here");
    EXPECT_EQ(last_error_sentence(MPI_ERR_RANK), "here");
    EXPECT_EQ(last_error_sentence(MPI_ERR_TAG), "");
    std::thread([] {
        EXPECT_EQ(last_error_sentence(MPI_ERR_RANK), "");
        keep_sentence(MPI_ERR_RANK, "there");
    }).join();
    EXPECT_EQ(last_error_sentence(MPI_ERR_RANK), "here");
}

}  // namespace
}  // namespace pomona
