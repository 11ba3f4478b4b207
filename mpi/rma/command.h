// mpi/rma/command.h: what one process asks of another's window: the wire format and its parser.
// Idea: a command is a message on the window's own context: a fixed head, the places in the
// target's memory as (offset, length) blocks, and the data when it is short. Long data follows as a
// message of its own. The origin flattens the target's datatype, so a target never parses
// datatypes. All integers little-endian; offsets are bytes from the window's base (addresses when
// dynamic).
#pragma once

#include "accel/kernel.h"
#include "btl/base/bytes.h"

#include <array>
#include <optional>
#include <vector>

namespace pomona {

enum class RmaKind : uint8_t {
    put = 1,
    get,
    accumulate,
    get_accumulate,
    compare_swap,  // on memory
    lock,
    unlock,
    flush,
    post,
    complete,  // synchronisation
    holders,   // who has the lock
    wake,      // of a shared window: what the receiver waits for may be in its memory
    count_
};

inline constexpr size_t kRmaCommandMax = 4096;  // bytes of a command with its short data
inline constexpr size_t kRmaBlocksMax = 128;
inline constexpr size_t kRmaChunkBytes = 256 * 1024;  // of data that is packed or accumulated
inline constexpr size_t kRmaHeadBytes = 36;
inline constexpr uint8_t kRmaNoElement = 0xff;  // a type that is only moved (replace, no_op)

struct RmaBlock {
    uint64_t offset = 0;
    uint64_t length = 0;
};

// Those who must give a lock back before somebody gets it who asks for it: holders, and who asked
// before. The first ones; the others are -1.
struct LockQueue {
    std::array<int32_t, 16> ranks;
};

struct RmaCommand {
    RmaKind kind = RmaKind::put;
    ReduceOp op = ReduceOp::replace;
    uint8_t element = kRmaNoElement;  // ElementType of accumulations
    bool exclusive = false;           // lock
    bool short_data = false;          // the data is in the command
    uint32_t unit = 1;                // bytes from one element to the next; 1 for put and get
    uint32_t unit_true = 1;           // of which an element uses so many
    int32_t reply_tag = 0;            // of the answer
    uint64_t bytes = 0;               // sum of the blocks' lengths
    std::vector<RmaBlock> blocks;

    bool on_memory() const { return kind <= RmaKind::compare_swap; }
    // Bytes of data that come with it.
    uint64_t data_bytes() const {
        switch (kind) {
        case RmaKind::put:
        case RmaKind::accumulate: return bytes;
        case RmaKind::get_accumulate: return op == ReduceOp::no_op ? 0 : bytes;
        case RmaKind::compare_swap: return 2 * bytes;  // what to compare with, then the new value
        default: return 0;
        }
    }
    // Bytes of the answer: old values, or a status word.
    uint64_t reply_bytes() const {
        switch (kind) {
        case RmaKind::get:
        case RmaKind::get_accumulate:
        case RmaKind::compare_swap: return bytes;
        case RmaKind::lock:
        case RmaKind::unlock:
        case RmaKind::flush: return sizeof(uint64_t);
        case RmaKind::holders: return sizeof(LockQueue);
        default: return 0;
        }
    }
    size_t head_bytes() const { return kRmaHeadBytes + blocks.size() * sizeof(RmaBlock); }
};

// Writes head and blocks: command.head_bytes() bytes.
void write_command(const RmaCommand& command, std::byte* out);
// Reads a command into `out` (whose memory is reused) and finds its short data. False for what no
// sender of ours can have written; nothing in `out` may be used then.
bool parse_command(ConstBytes message, RmaCommand& out, ConstBytes& data);

// Does the command's work on one block at `target`. `data` and `old` point to the block's part of
// the data and of the answer; `old` may be null.
void apply_command(const RmaCommand& command, std::byte* target, size_t length,
                   const std::byte* data, std::byte* old);

}  // namespace pomona
