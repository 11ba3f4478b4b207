// pmix/control.h: the words ranks and mpirun exchange on the job's socket, and their framing.
// Idea: a frame is a 32-bit length, a type byte and the payload, all little-endian (bytes.h). A
// rank says hello, publishes, fences, looks up, and says finalized before it goes; the answers
// come in order. The socket is <job directory>/mpirun.sock, in a directory of mode 0700.
#pragma once

#include "btl/base/bytes.h"
#include "btl/base/result.h"

#include <optional>
#include <string>
#include <vector>

namespace pomona {

enum class ControlType : uint8_t {
    hello = 1,  // rank i32, process i32: this process is that rank now (no answer)
    publish,    // key, value (no answer)
    fence,      // answered by fence_done when all ranks have sent it
    lookup,     // rank i32, key; answered by value
    finalized,  // the rank leaves in good order (no answer)
    abort,      // code i32, message: end the job
    fence_done,
    value,    // found u8, value
    gone,     // rank i32 has ended, in good order or not; text: how, or nothing
    refused,  // reason: the hello was not accepted
    request,  // Service u8, its words (services.h); answered by answer
    answer,   // Code u8, the service's words
    waiting,  // number u32, nanoseconds so far i64, explain u8, Waiting (btl/base/waiting.h): a wait
              // lasts long; answered by explanation if that is asked for
    waited,   // number u32: it is over (no answer)
    explanation,  // number u32, text
    queues,  // somebody who is no rank asks: process i32 (of a rank, or mpirun's), answered by JSON;
             // mpirun asks a rank: number u32, answered by number u32, JSON
    lines,   // what the rank has seen of the lines to other hosts (link_learning.h; no answer)
    missing,  // who is not in the fence that the rank waits in? Answered by number u32, ranks i32
    sessions  // u32 that the rank has open; u8: MPI_Finalize is to be called, too (no answer)
};

constexpr size_t kControlFrameMax = 64u << 20;
constexpr size_t kControlKeyMax = 255;
constexpr size_t kControlTextMax = 64u << 10;

struct ControlFrame {
    ControlType type{};
    std::vector<std::byte> payload;
};

std::vector<std::byte> control_frame(ControlType type, const Writer& payload = {});

// Cuts a stream of bytes into frames.
class ControlParser {
public:
    void feed(ConstBytes bytes);
    // The next whole frame; nothing when more bytes are needed or the stream is malformed().
    std::optional<ControlFrame> next();
    bool malformed() const { return malformed_; }

private:
    std::vector<std::byte> pending_;
    size_t start_ = 0;
    bool malformed_ = false;
};

std::string control_socket_path(const std::string& directory);

// A connection to who listens there, closed on exec. Sent with these flags, nothing raises SIGPIPE
// where that one has ended. Code::refused: nobody listens.
Result<int> connect_to_control(const std::string& directory);
extern const int kNoSignal;

// A descriptor that listens there, does not block and closes on exec. For mpirun and its agents.
Result<int> listen_for_ranks(const std::string& directory);

// Who is at the other end of a Unix socket; -1 when the system does not say.
int socket_peer_user(int descriptor);

}  // namespace pomona
