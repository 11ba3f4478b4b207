// exchange.cc: see exchange.h.
#include "torch_glue/exchange.h"

#include <algorithm>
#include <utility>

#include "torch_glue/flow.h"
#include "torch_glue/tensor.h"

namespace pomona::glue {
namespace {
constexpr int64_t kPattern = 4096;  // values
}

at::Tensor peer_pattern(int rank) {
    return at::arange(kPattern, at::kInt).mul_(7).add_(rank * 1000003 + 1);
}

void Exchange::plan(Flow& flow, std::shared_ptr<PeerRing> ring, Acts acts) {
    const std::shared_ptr<Exchange> exchange(new Exchange(flow, std::move(ring), std::move(acts)));
    flow.set_plan([exchange] { exchange->begin(); });
}

Exchange::Exchange(Flow& flow, std::shared_ptr<PeerRing> ring, Acts acts)
    : flow_(flow), ring_(std::move(ring)), acts_(std::move(acts)) {}

void Exchange::begin() {
    if (ring_->state() == PeerRing::State::Refused) through_host();
    else if (acts_.told_from >= 0 && !told_) tell();
    else if (ring_->state() == PeerRing::State::Unknown) connect();
    else if (!ring_->is_worth(acts_.bytes)) through_host();
    else first_piece();
}

void Exchange::tell() {
    told_ = true;
    Stage& stage = flow_.new_stage();
    words_ = {0, -acts_.bytes, -acts_.pieces};
    meet_with_words(stage);
    stage.unpacks.push_back([self = shared_from_this()] {
        const int64_t most = -self->words_[1];
        self->acts_.bytes = most;
        self->acts_.pieces = std::max<int64_t>(-self->words_[2], 1);
        if (most < self->acts_.told_from || most == 0) self->through_host();
        else self->begin();
    });
}

// ---- connections: by the first operation, all ranks alike
// -----------------------------------------

void Exchange::connect() {
    offers_.resize(static_cast<size_t>(ring_->size()));
    PeerRing::Offer& own = offers_[static_cast<size_t>(ring_->rank())];
    if (acts_.usable) own = ring_->offer(flow_.where());
    Stage& stage = flow_.new_stage();
    if (own.word == PeerRing::kUsable) {
        const at::Tensor pattern = flow_.room(kPattern * 4).view(at::kInt);
        pattern.copy_(peer_pattern(ring_->rank()));
        stage.loads.push_back([self = shared_from_this(), pattern] {
            self->ring_->part(self->ring_->rank(), 0, 0, kPattern, at::kInt)
                .copy_(pattern, /*non_blocking=*/true);
        });
    }
    stage.calls.push_back([self = shared_from_this()](MPI_Comm comm, MPI_Request* request) {
        constexpr auto kBytes = static_cast<MPI_Count>(sizeof(PeerRing::Offer));
        return mpi().Iallgather_c(MPI_IN_PLACE, kBytes, MPI_BYTE, self->offers_.data(), kBytes,
                                  MPI_BYTE, comm, request);
    });
    stage.unpacks.push_back([self = shared_from_this()] { self->opened(); });
}

void Exchange::opened() {
    const auto said = [this](int32_t word) {
        return std::count_if(offers_.begin(), offers_.end(),
                             [word](const auto& offer) { return offer.word == word; });
    };
    if (said(PeerRing::kRefused) > 0) {
        ring_->release();
        refuse();
        through_host();
        return;
    }
    if (said(PeerRing::kUsable) < ring_->size()) {  // perhaps the next operation
        if (ring_->tried_in_vain()) {               // of this group no more: a GPU and a CPU, say
            ring_->release();
            ring_->decide(PeerRing::State::Refused);
        }
        through_host();
        return;
    }
    Stage& stage = flow_.new_stage();
    if (ring_->open(offers_)) {
        stage.loads.push_back([self = shared_from_this()] {
            PeerRing& ring = *self->ring_;
            for (int rank = 0; rank < ring.size(); ++rank) {
                if (rank == ring.rank()) continue;
                self->seen_.push_back(self->flow_.room(kPattern * 4).view(at::kInt));
                self->seen_.back().copy_(ring.part(rank, 0, 0, kPattern, at::kInt), true);
            }
        });
    }
    // What has been read is compared when it is there: just before the ranks tell it.
    stage.calls.push_back([self = shared_from_this()](MPI_Comm comm, MPI_Request* request) {
        self->compare();
        return self->least_words(comm, request);
    });
    stage.unpacks.push_back([self = shared_from_this()] {
        if (self->words_[0] == 0) {
            self->give_up();
            return;
        }
        self->ring_->decide(PeerRing::State::Ready);
        self->begin();
    });
}

void Exchange::compare() {
    int64_t& same = words_[0];
    same = static_cast<int>(seen_.size()) == ring_->size() - 1;
    size_t i = 0;
    for (int rank = 0; rank < ring_->size(); ++rank) {
        if (rank == ring_->rank() || same == 0) continue;
        if (!seen_[i++].equal(peer_pattern(rank))) same = 0;
    }
    seen_.clear();
}

void Exchange::refuse() {
    refuse_sharing();
    ring_->decide(PeerRing::State::Refused);
}

// Memory goes when nobody has it open.
void Exchange::give_up() {
    ring_->close_others();
    Stage& stage = flow_.new_stage();
    meet(stage);
    stage.unpacks.push_back([self = shared_from_this()] { self->ring_->release(); });
    refuse();
    through_host();
}

// ---- pieces
// ---------------------------------------------------------------------------------------

void Exchange::meet(Stage& stage) {
    stage.calls.push_back(
        [](MPI_Comm comm, MPI_Request* request) { return mpi().Ibarrier(comm, request); });
}

int Exchange::least_words(MPI_Comm comm, MPI_Request* request) {
    return mpi().Iallreduce_c(MPI_IN_PLACE, words_.data(), static_cast<MPI_Count>(words_.size()),
                              MPI_INT64_T, MPI_MIN, comm, request);
}

void Exchange::meet_with_words(Stage& stage) {
    stage.calls.push_back([self = shared_from_this()](MPI_Comm comm, MPI_Request* request) {
        return self->least_words(comm, request);
    });
}

void Exchange::begin_piece(Stage& stage, int64_t piece) {
    if (static_cast<int64_t>(pieces_.size()) <= piece) pieces_.emplace_back();
    const uint64_t ticket = ring_->take();
    pieces_.back().ticket = ticket;
    stage.may_load = [ring = ring_, ticket] { return ring->may_write(ticket); };
    stage.may_call = [ring = ring_, ticket] { return ring->may_meet(ticket); };
    if (acts_.usable) {
        stage.loads.push_back(
            [self = shared_from_this(), piece, ticket] { self->acts_.write(piece, ticket); });
    }
    stage.unpacks.push_back([ring = ring_, ticket] { ring->met(ticket); });
}

void Exchange::end_piece(Stage& stage, int64_t piece) {
    const uint64_t ticket = pieces_[static_cast<size_t>(piece)].ticket;
    stage.stores.push_back(
        [self = shared_from_this(), piece, ticket] { self->acts_.read(piece, ticket); });
    stage.stored = [ring = ring_, ticket](MomentPointer when) {
        ring->has_read(ticket, std::move(when));
        count_piece_by_peers();
    };
}

// After the first meeting of a piece: what this rank does with the others' slots.
void Exchange::middle(Stage& stage, int64_t piece) {
    if (!acts_.sum) {
        end_piece(stage, piece);
        return;
    }
    const uint64_t ticket = pieces_[static_cast<size_t>(piece)].ticket;
    stage.stores.push_back(
        [self = shared_from_this(), piece, ticket] { self->acts_.sum(piece, ticket); });
    stage.stored = [self = shared_from_this(), piece](MomentPointer when) {
        Piece& summed = self->pieces_[static_cast<size_t>(piece)];
        summed.sums = std::move(when);
        summed.summed = true;
    };
}

void Exchange::gather(int64_t piece) {
    if (!acts_.sum) return;
    Stage& stage = flow_.new_stage();
    stage.may_call = [self = shared_from_this(), piece] {
        const Piece& summed = self->pieces_[static_cast<size_t>(piece)];
        return summed.summed && (!summed.sums || summed.sums->reached());
    };
    meet(stage);
    end_piece(stage, piece);
}

void Exchange::first_piece() {
    Stage& stage = flow_.new_stage();
    acts_.usable = acts_.usable && ring_->is_on(flow_.where());
    const int64_t bytes = told_ ? 0 : acts_.bytes;
    words_ = {acts_.usable, bytes, -bytes};
    begin_piece(stage, 0);
    meet_with_words(stage);
    stage.unpacks.push_back([self = shared_from_this(), &stage] {
        const auto [usable, least, most] = self->words_;
        TORCH_CHECK(least == -most, "the ranks' tensors differ in size: from ", least, " to ",
                    -most, " bytes");
        if (usable == 0) {
            self->ring_->has_read(self->pieces_[0].ticket, nullptr);
            self->through_host();
            return;
        }
        self->middle(stage, 0);
        self->other_pieces();
    });
}

// The next piece's meeting comes before this one's second, so that the devices have work meanwhile.
void Exchange::other_pieces() {
    for (int64_t piece = 1; piece < acts_.pieces; ++piece) {
        Stage& stage = flow_.new_stage();
        begin_piece(stage, piece);
        meet(stage);
        middle(stage, piece);
        gather(piece - 1);
    }
    gather(acts_.pieces - 1);
    acts_.then();
    flow_.end_of_plan();
}

void Exchange::through_host() {
    flow_.new_stage();
    acts_.by_host();
    flow_.end_of_plan();
}

}  // namespace pomona::glue
