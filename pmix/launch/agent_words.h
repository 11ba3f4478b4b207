// pmix/launch/agent_words.h: the words that mpirun and its agents on other hosts exchange.
// Idea: frames as on the job's socket (pmix/control.h), over the standard streams of the program
// that started the agent (ssh). The agent speaks first: a fixed line, so that what a login shell
// prints before is told apart, then its facts. Streams and connections have credit: whoever reads
// says how much it has taken.
#pragma once

#include "pmix/control.h"
#include "pmix/launch/host.h"

#include <optional>

namespace pomona {

inline constexpr uint32_t kAgentProtocol = 3;
inline constexpr std::string_view kAgentLine = "\npomona-agent-speaks\n";

enum class AgentWord : uint8_t {
    // From the agent.
    facts = 1,     // protocol u32, HostFacts
    prepared,      // mistake text, or ""
    started,       // rank i32, pid i32, binding
    refused,       // rank i32, code i32, why
    output,        // rank i32, stream u8 (1, 2), bytes
    output_end,    // rank i32, stream u8
    ended,         // count u32, each: rank i32, status i32
    stacks,        // rank i32, text
    control_open,  // connection u32
    input_taken,   // rank i32, bytes u32
    input_closed,  // rank i32
    remark,        // text
    program,       // question u32, found u8
    // From mpirun.
    prepare = 64,  // JobOrders
    start,         // StartOrder
    guard,
    signal,           // number i32
    signal_catchers,  // number i32
    ask_stacks,       // rank i32
    ask_program,      // question u32, name, directory
    output_taken,     // rank i32, stream u8, bytes u32
    input,            // rank i32, bytes
    input_end,        // rank i32
    sweep,
    pause,  // mpirun is stopped: its silence is no bad sign
    leave,
    // From both.
    control_bytes = 128,  // connection u32, bytes: of a rank's connection to the job's socket
    control_close,        // connection u32
    beat,                 // nothing else to say
};

std::vector<std::byte> agent_frame(AgentWord word, const Writer& payload = {});

void write_facts(Writer& out, const HostFacts& facts);
std::optional<HostFacts> read_facts(Reader& in);
void write_orders(Writer& out, const JobOrders& orders);
std::optional<JobOrders> read_orders(Reader& in);
void write_start(Writer& out, const StartOrder& order);
std::optional<StartOrder> read_start(Reader& in);

// Bytes of a stream that may be on their way; the reader's word for them makes room.
inline constexpr size_t kStreamCredit = 256u << 10;

}  // namespace pomona
