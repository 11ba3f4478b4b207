// exchange.h: an operation on device tensors by memory that the ranks' devices read from each
// other.
// Idea: the tensor goes in pieces through the slots of the group's PeerRing. Of each piece a rank
// writes its slot, all meet, and each reads what it needs from the others' slots. Where a result is
// needed by all, each of three or more ranks first sums one part of the piece in its own slot; then
// all meet again and gather the parts. At the first meeting the ranks say whether their tensors are
// where the ring's memory is, and how much they exchange; if one says no (a CPU tensor), all go
// through the host instead. Where no rank knows how much others exchange (all_to_all), they tell
// before.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "torch_glue/library.h"
#include "torch_glue/ring.h"

namespace pomona::glue {

class Flow;
struct Stage;

class Exchange : public std::enable_shared_from_this<Exchange> {
public:
    // One piece, on the device; `ticket` says which slot. Each acts on the current stream.
    using Act = std::function<void(int64_t piece, uint64_t ticket)>;
    struct Acts {
        int64_t pieces = 0;
        int64_t bytes = 0;       // the same on all ranks, unless told
        int64_t told_from = -1;  // if not negative: all tell their bytes first; less go by the host
        bool usable =
            false;  // this rank's tensors are such that the others can go on; else no act runs
        Act write;  // own slot
        Act sum;    // parts, in the own slot; empty: one meeting is enough
        Act read;   // the others' slots, into the result
        std::function<void()> then;     // adds to the last stage
        std::function<void()> by_host;  // adds the stages that go through the host, to the end
    };
    static void plan(Flow& flow, std::shared_ptr<PeerRing> ring, Acts acts);

private:
    Exchange(Flow& flow, std::shared_ptr<PeerRing> ring, Acts acts);
    void begin();
    void tell();
    void connect();
    void opened();
    void compare();
    void refuse();
    void give_up();
    void first_piece();
    void other_pieces();
    void begin_piece(Stage& stage, int64_t piece);
    void end_piece(Stage& stage, int64_t piece);
    void middle(Stage& stage, int64_t piece);
    void gather(int64_t piece);
    void meet(Stage& stage);
    void meet_with_words(Stage& stage);
    int least_words(MPI_Comm comm, MPI_Request* request);
    void through_host();

    struct Piece {
        uint64_t ticket = 0;
        bool summed = false;
        MomentPointer sums;
    };
    Flow& flow_;
    const std::shared_ptr<PeerRing> ring_;
    Acts acts_;
    std::vector<Piece> pieces_;
    bool told_ = false;
    std::array<int64_t, 3> words_{};  // of a meeting: the least that any rank says
    std::vector<PeerRing::Offer> offers_;
    std::vector<at::Tensor> seen_;  // the others' patterns
};

// What a rank writes into its new memory, for the others to see that they read that very memory.
at::Tensor peer_pattern(int rank);

}  // namespace pomona::glue
