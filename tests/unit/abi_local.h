// tests/unit/abi_local.h: a single rank for tests of local MPI functions.
// Errors come back as codes (MPI_ERRORS_RETURN), so that wrong arguments can be tested.
#pragma once

#include "mpi/include/mpi.h"
#include "mpi/include/mpix.h"

#include <gtest/gtest.h>
#include <cstdlib>
#include <string>

class AbiLocal : public testing::Test {
protected:
    static void SetUpTestSuite() {
        int running = 0;
        MPI_Initialized(&running);
        if (running) return;
        int provided = 0;
        ASSERT_EQ(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), MPI_SUCCESS);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
        std::atexit([] { MPI_Finalize(); });
    }
};

#define EXPECT_OK(call) EXPECT_EQ((call), MPI_SUCCESS)
