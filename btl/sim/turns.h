// btl/sim/turns.h: what a rank of a simulated job and its simulator say to each other.
// Idea: by a Unix socket, strictly in turn. The simulator hands a rank what has arrived for it and
// the time (`go`); the rank runs, and answers with what it sends and why it can do no more (`test`,
// `wait` or `leave`). Both are of one machine and one version.
#pragma once

#include "btl/base/bytes.h"
#include "btl/transport.h"

#include <cstdint>
#include <string>
#include <vector>

namespace pomona::sim {

// Names the simulator's socket to the ranks.
inline constexpr char kSimulationVariable[] = "POMONA_SIMULATION";

enum class Word : uint32_t {
    hello,    // rank -> simulator: `peer` is the rank, `value` its process
    frame,    // both: to or from `peer`; to the simulator `value` is when, in ns of this turn
    waiting,  // rank -> simulator: a wait of `value` ns numbered `peer`, and what for
    waited,   // that wait is over
    test,     // it has looked in vain and goes on in `value` ns at the latest
    wait,     // it goes on when something arrives
    leave,    // it is in no need of the network any more
    begin,    // simulator -> rank: who it is (Beginning)
    gone,     // `peer` has died
    go,       // it is the rank's turn, at `value` ns
};

struct Record {
    Word word;
    int32_t peer = 0;
    int64_t value = 0;
    int64_t worked = 0;   // of test, wait, leave: how long the turn lasted, ns
    uint64_t length = 0;  // of what follows
    FrameHeader header{};
};

// What a rank is told before its first turn.
struct Beginning {
    std::vector<int> hosts;  // of all ranks
    std::string host;        // this rank's
    double compute = 0;      // how many times its processor time counts
    std::vector<std::byte> write() const;
    bool read(ConstBytes bytes);  // false: it does not parse
};

// One end. A channel that has failed stays so.
class Channel {
public:
    explicit Channel(int descriptor) : descriptor_(descriptor) {}
    ~Channel();
    Channel(const Channel&) = delete;
    Channel& operator=(const Channel&) = delete;

    void put(Record record, ConstBytes body = {});  // goes out with flush()
    Bytes put_room(Record record, size_t length);   // to be filled in before the next call
    bool flush();
    bool get(Record& record, std::vector<std::byte>& body);

private:
    int descriptor_;
    std::vector<std::byte> out_, in_;
    size_t in_begin_ = 0;
};

}  // namespace pomona::sim
