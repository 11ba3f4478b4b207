// mail.h: short messages between the ranks of the first group, which are taken in by whoever looks.
// Words are so short that they are sent without their receiver's help. Not safe for threads.
#pragma once

#include <cstddef>
#include <cstring>
#include <deque>

#include "torch_glue/library.h"
#include "torch_glue/world.h"

namespace pomona::glue {

// `Word`: plain data. Only its first bytes need to be sent.
template <class Word> class Mail {
public:
    // Collective over the first group. MPI error code.
    int open(MPI_Comm first_group) {
        const int error = copy_comm(first_group, &comm_);
        if (error != MPI_SUCCESS) return error;
        mpi().Comm_rank(comm_, &rank_);
        mpi().Comm_size(comm_, &size_);
        // Who looks for words waits for nobody: `pomona top` shall not say so.
        MPI_Info hints = MPI_INFO_NULL;
        mpi().Info_create(&hints);
        mpi().Info_set(hints, "pomona_quiet", "true");
        mpi().Comm_set_info(comm_, hints);
        mpi().Info_free(&hints);
        return MPI_SUCCESS;
    }
    void close() { comm_ = MPI_COMM_NULL; }  // MPI ends; nobody looks from here on

    bool is_open() const { return comm_ != MPI_COMM_NULL; }
    MPI_Comm comm() const { return comm_; }
    int rank() const { return rank_; }
    int size() const { return size_; }

    void send(int peer, const Word& word, size_t bytes) {
        Sent& sent = sent_.emplace_back();
        sent.word = word;
        mpi().Isend(&sent.word, static_cast<int>(bytes), MPI_BYTE, peer, kTag, comm_,
                    &sent.request);
    }

    // Takes in what has come: take(rank, word), where the bytes that were not sent are zero.
    template <class Take> void look(const Take& take) {
        drop_sent();
        for (;;) {
            int found = 0;
            MPI_Message message = MPI_MESSAGE_NULL;
            MPI_Status status;
            std::memset(&status, 0, sizeof status);
            const int error = mpi().Improbe(MPI_ANY_SOURCE, kTag, comm_, &found, &message, &status);
            if (error != MPI_SUCCESS) {
                // A rank has died, and MPI says so until it is told that this is known.
                int known = 0;
                if (mpi().X_Comm_ack_failed) mpi().X_Comm_ack_failed(comm_, size_, &known);
                return;
            }
            if (!found) return;
            Word word{};
            MPI_Status received;
            std::memset(&received, 0, sizeof received);
            if (mpi().Mrecv(&word, sizeof word, MPI_BYTE, &message, &received) == MPI_SUCCESS)
                take(status.MPI_SOURCE, word);
        }
    }

private:
    static constexpr int kTag = 1;
    struct Sent {
        MPI_Request request = MPI_REQUEST_NULL;
        Word word{};
    };

    void drop_sent() {
        while (!sent_.empty()) {
            int done = 0;
            MPI_Status status;
            const int error = mpi().Test(&sent_.front().request, &done, &status);
            if (error == MPI_SUCCESS && !done) return;
            sent_.pop_front();
        }
    }

    MPI_Comm comm_ = MPI_COMM_NULL;
    int rank_ = 0;
    int size_ = 0;
    std::deque<Sent> sent_;  // on their way
};

}  // namespace pomona::glue
