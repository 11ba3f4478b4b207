// mpi/p2p/board_reports.cc: what a board tells of members that others wait for (waiting.h).
#include "mpi/p2p/board.h"

namespace pomona {

// Announced by Board::begin() or over(); a cell's later number means that this one is over there.
bool Board::has_come(int rank, uint64_t number) const {
    const BoardStrip* strip = members_[static_cast<size_t>(rank)].strip;
    if (!strip) return false;
    if (strip->done.load(std::memory_order_acquire) > board_position(number, 0)) return true;
    return strip->ways[number % kBoardCells].number.load(std::memory_order_acquire) > number;
}

std::vector<int> Board::behind(uint64_t position) const {
    std::vector<int> ranks;
    for (size_t rank = 0; rank < members_.size(); ++rank) {
        const BoardStrip* strip = members_[rank].strip;
        if (strip && strip->done.load(std::memory_order_acquire) < position)
            ranks.push_back(static_cast<int>(rank));
    }
    return ranks;
}

std::vector<int> Board::behind_post(uint64_t number) const { return behind(before_post(number)); }

}  // namespace pomona
