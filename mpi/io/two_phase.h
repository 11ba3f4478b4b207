// mpi/io/two_phase.h: collective access by a few members for all (two_phase.cc).
#pragma once

#include "mpi/io/file.h"

namespace pomona {

// What a member tells the others of its part in a collective access.
struct Offer {
    MPI_Offset start = 0, end = 0;  // offsets; none when equal
    MPI_Offset length = 0;          // bytes of data
    MPI_Offset mean_block = 0;
    int32_t error = MPI_SUCCESS;
    int32_t ordered = 1;
    // Hints; rank 0's count, as they may differ.
    int64_t buffer_size = 0;
    int32_t nodes = 0;
    Hints::When when = Hints::When::automatic;
};

// Whether it is worth it; the same answer at all members.
bool two_phase_pays(const std::vector<Offer>& offers, bool write);

// Memory that is kept for the next use, without being set to anything.
class Scratch {
public:
    std::byte* room(size_t bytes) {
        if (bytes > size_) {
            data_.reset(new std::byte[bytes]);
            size_ = bytes;
        }
        return data_.get();
    }
    std::byte* data() const { return data_.get(); }

private:
    std::unique_ptr<std::byte[]> data_;
    size_t size_ = 0;
};

class TwoPhase {
public:
    TwoPhase(File& file, const Transfer& access, const std::vector<Offer>& offers);
    // The error is that of this process or of a member that has ended. `done`: bytes read.
    IoError run(MPI_Offset& done);

private:
    struct Segment {
        MPI_Offset offset, length;
    };
    // One aggregator's window of this round, from the member's side.
    struct Part {
        int rank = 0;  // the aggregator's
        bool empty = true;
        MPI_Offset position = 0, length = 0;  // of the stream
        std::vector<Segment> segments;
        Scratch message, reply;
        size_t message_bytes = 0;
    };
    // One member's wishes, from the aggregator's side.
    struct Wish {
        const std::byte* message = nullptr;
        Scratch received, reply;
        int64_t count = 0;  // of segments
        MPI_Offset bytes = 0;
        const Segment* segments() const {
            return reinterpret_cast<const Segment*>(message + 2 * sizeof(int64_t));
        }
        const std::byte* data() const {
            return message + 2 * sizeof(int64_t) + count * sizeof(Segment);
        }
    };
    class Messages;

    int rank_of(int aggregator) const {
        return static_cast<int>(static_cast<int64_t>(aggregator) * members_ / spread_);
    }
    std::pair<MPI_Offset, MPI_Offset> window_of(int aggregator, int64_t round) const;
    void make_part(Part& part, MPI_Offset start, MPI_Offset end);
    void leave();
    IoError round(int64_t number, MPI_Offset& done);
    void take_wish(Wish& wish, const std::byte* message);
    std::vector<Segment> united(size_t first, size_t last) const;
    void write_window();
    void read_window();

    File& file_;
    const Transfer& access_;
    Communicator& comm_;
    int members_;
    int spread_ = 1;       // aggregators are spread over the ranks as if there were so many
    int aggregators_ = 1;  // that have something to do
    int mine_ = -1;        // which one this process is
    MPI_Offset first_ = 0, last_ = 0, domain_ = 0, window_bytes_ = 0;
    int64_t rounds_ = 0;
    std::vector<Part> parts_;
    std::vector<Wish> wishes_;
    Scratch window_;
    MPI_Offset window_start_ = 0;
    IoError failure_;  // of this process as an aggregator
};

}  // namespace pomona
