// tests/fuzz/rma_command.cc: libFuzzer over what a rank asks of another's window. Any bytes must
// end in a command or a refusal; a command must survive the way out and back, and what it does must
// stay within its blocks, its data and its answer (which the address sanitizer watches).
#include "mpi/rma/command.h"

#include <cstdint>
#include <cstdlib>

using namespace pomona;

static void must(bool holds) {
    if (!holds) std::abort();
}

static void survives(const RmaCommand& command, ConstBytes data) {
    std::vector<std::byte> bytes(command.head_bytes());
    write_command(command, bytes.data());
    bytes.insert(bytes.end(), data.begin(), data.end());
    RmaCommand again;
    ConstBytes again_data;
    must(parse_command(bytes, again, again_data));
    must(again.kind == command.kind && again.op == command.op && again.bytes == command.bytes);
    must(again.element == command.element && again.unit == command.unit);
    must(again.exclusive == command.exclusive && again.reply_tag == command.reply_tag);
    must(again.blocks.size() == command.blocks.size() && again_data.size() == data.size());
    for (size_t i = 0; i < command.blocks.size(); ++i)
        must(again.blocks[i].offset == command.blocks[i].offset &&
             again.blocks[i].length == command.blocks[i].length);
}

// As the target does it, each block in memory of exactly its length.
static void act(const RmaCommand& command, ConstBytes data) {
    if (command.bytes > kRmaChunkBytes) return;
    std::vector<std::byte> sent(data.begin(), data.end()), old(command.reply_bytes());
    sent.resize(command.data_bytes());
    size_t at = 0;
    for (const RmaBlock& block : command.blocks) {
        std::vector<std::byte> target(block.length);
        apply_command(command, target.data(), block.length,
                      sent.empty() ? nullptr : sent.data() + at,
                      old.empty() ? nullptr : old.data() + at);
        at += block.length;
    }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
    RmaCommand command;
    ConstBytes data;
    if (!parse_command({reinterpret_cast<const std::byte*>(bytes), size}, command, data)) return 0;
    must(command.blocks.size() <= kRmaBlocksMax);
    must(data.size() == (command.short_data ? command.data_bytes() : 0));
    survives(command, data);
    if (command.on_memory()) act(command, data);
    return 0;
}
