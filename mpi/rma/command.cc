// mpi/rma/command.cc: commands to bytes, back, and into action.
#include "mpi/rma/command.h"

#include <algorithm>
#include <cstring>

namespace pomona {

static_assert(sizeof(RmaBlock) == 16);

static constexpr uint8_t kExclusive = 1;
static constexpr uint8_t kShortData = 2;
static constexpr uint64_t kBytesMax = uint64_t{1} << 48;
static constexpr uint32_t kUnitMax = 64;  // the largest element: two 16-byte floats, or a pair

void write_command(const RmaCommand& command, std::byte* out) {
    auto put = [&](auto value) {
        std::memcpy(out, &value, sizeof value);
        out += sizeof value;
    };
    put(command.kind);
    put(command.op);
    put(command.element);
    put(static_cast<uint8_t>((command.exclusive ? kExclusive : 0) |
                             (command.short_data ? kShortData : 0)));
    put(command.unit);
    put(command.unit_true);
    put(command.reply_tag);
    put(command.bytes);
    put(static_cast<uint64_t>(command.blocks.size()));
    put(uint32_t{0});
    if (!command.blocks.empty())
        std::memcpy(out, command.blocks.data(), command.blocks.size() * sizeof(RmaBlock));
}

// Whether the element, operation and unit of an accumulation fit each other.
static bool consistent(const RmaCommand& command) {
    if (command.op >= ReduceOp::count_) return false;
    if (command.unit == 0 || command.unit > kUnitMax) return false;
    if (command.unit_true == 0 || command.unit_true > command.unit) return false;
    if (command.element == kRmaNoElement)
        return command.op == ReduceOp::replace || command.op == ReduceOp::no_op;
    if (command.element >= static_cast<uint8_t>(ElementType::count_)) return false;
    auto type = static_cast<ElementType>(command.element);
    bool moves = command.op == ReduceOp::replace || command.op == ReduceOp::no_op;
    return element_size(type) == command.unit && (moves || find_kernel(command.op, type));
}

bool parse_command(ConstBytes message, RmaCommand& out, ConstBytes& data) {
    Reader in(message);
    out.kind = in.get<RmaKind>();
    out.op = in.get<ReduceOp>();
    out.element = in.get<uint8_t>();
    auto flags = in.get<uint8_t>();
    out.exclusive = flags & kExclusive;
    out.short_data = flags & kShortData;
    out.unit = in.get<uint32_t>();
    out.unit_true = in.get<uint32_t>();
    out.reply_tag = in.get<int32_t>();
    out.bytes = in.get<uint64_t>();
    auto count = in.get<uint64_t>();
    in.get<uint32_t>();
    if (in.failed() || count > kRmaBlocksMax || out.bytes > kBytesMax) return false;
    if (out.kind < RmaKind::put || out.kind >= RmaKind::count_ || out.reply_tag < 0) return false;
    out.blocks.resize(count);
    ConstBytes list = in.take(count * sizeof(RmaBlock));
    if (in.failed()) return false;
    if (count) std::memcpy(out.blocks.data(), list.data(), list.size());
    if (!out.on_memory()) {
        data = {};
        return count == 0 && !out.short_data;
    }
    bool whole_units = out.kind != RmaKind::put && out.kind != RmaKind::get;
    if (whole_units ? !consistent(out) : out.unit != 1 || out.unit_true != 1) return false;
    uint64_t sum = 0;
    for (const RmaBlock& block : out.blocks) {
        if (block.length > kBytesMax || block.length % out.unit != 0) return false;
        sum += block.length;  // at most 128 * 2^48
    }
    if (sum != out.bytes) return false;
    // Only what is one block on both sides comes whole.
    if (sum > kRmaChunkBytes && (whole_units || count != 1)) return false;
    if (out.kind == RmaKind::compare_swap && (count != 1 || out.bytes != out.unit)) return false;
    data = out.short_data ? in.take(out.data_bytes()) : ConstBytes{};
    return !in.failed();
}

// ---- action

// Elements with bytes behind them that are not theirs are worked on in a copy.
static void accumulate_gapped(const RmaCommand& command, const ReduceKernel* kernel,
                              std::byte* target, size_t length, const std::byte* data,
                              std::byte* old) {
    alignas(16) std::byte element[kUnitMax] = {};
    for (size_t at = 0; at < length; at += command.unit) {
        if (old) std::memcpy(old + at, target + at, command.unit_true);
        if (command.op == ReduceOp::no_op) continue;
        if (command.op == ReduceOp::replace) {
            std::memcpy(target + at, data + at, command.unit_true);
            continue;
        }
        std::memcpy(element, target + at, command.unit_true);
        kernel->into(element, data + at, 1);
        std::memcpy(target + at, element, command.unit_true);
    }
}

void apply_command(const RmaCommand& command, std::byte* target, size_t length,
                   const std::byte* data, std::byte* old) {
    if (length == 0) return;
    switch (command.kind) {
    case RmaKind::put: std::memmove(target, data, length); return;
    case RmaKind::get: std::memmove(old, target, length); return;
    case RmaKind::compare_swap: {
        std::memcpy(old, target, length);
        if (std::memcmp(target, data, length) == 0) std::memcpy(target, data + length, length);
        return;
    }
    case RmaKind::accumulate:
    case RmaKind::get_accumulate: break;
    default: return;
    }
    bool moves = command.op == ReduceOp::replace || command.op == ReduceOp::no_op;
    const ReduceKernel* kernel =
        moves ? nullptr : find_kernel(command.op, static_cast<ElementType>(command.element));
    if (command.unit_true != command.unit)
        return accumulate_gapped(command, kernel, target, length, data, old);
    if (old) std::memcpy(old, target, length);
    if (command.op == ReduceOp::replace) std::memmove(target, data, length);
    else if (kernel) kernel->into(target, data, length / command.unit);
}

}  // namespace pomona
