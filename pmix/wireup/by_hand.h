// pmix/wireup/by_hand.h: ranks that were started one at a time, by RANK, WORLD_SIZE, MASTER_ADDR
// and MASTER_PORT in their environment, as torch has it.
// Idea: rank 0 listens at MASTER_PORT while MPI starts and keeps a table (meeting.h); the others
// connect to it, again and again until it is there, in whatever order all come. Both ends prove
// POMONA_JOB_SECRET by the handshake of links, and the connection is encrypted by it. Without that
// variable the secret is empty, which anybody can prove: the handshake then only keeps out what
// speaks something else, as torch's own store does. By that table the ranks join as all do that
// bring one (table_wireup.h), and when MPI has started nobody listens any more.
#pragma once

#include "btl/link/handshake.h"
#include "btl/tcp/socket.h"
#include "pmix/wireup/origin.h"
#include "pmix/wireup/table_wireup.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace pomona {

inline constexpr size_t kJobSecretLeast = 16;  // letters of POMONA_JOB_SECRET

// The variables; none: this process was not started so. A mistake in them is told in `refusal`.
std::optional<ByHand> read_by_hand(const char* const* environment, std::string& refusal);

Result<std::unique_ptr<Wireup>> start_by_hand(const ByHand& hand);

// ---- what both ends share

constexpr double kMeetingTellAfter = 5;  // seconds without the others that the user hears of
constexpr double kMeetingGreeting = 10;  // from a connection to the end of its handshake

// What this rank proves with; a mistake is logged.
Result<link::Identity> identity_by_hand(const ByHand& hand);

// The addresses of a name; none: why.
std::vector<tcp::End> places_of(const std::string& host, std::string& why);

// The table of one end, which puts, gets and leaves.
template <class End> MeetingTable table_of(const ByHand& hand, const std::shared_ptr<End>& end) {
    MeetingTable out;
    out.rank = hand.rank;
    out.size = hand.size;
    out.timeout_s = hand.wait_seconds;
    out.put = [end](const std::string& key, ConstBytes value) { return end->put(key, value); };
    out.get = [end](const std::string& key) { return end->get(key); };
    out.leave = [end] { end->leave(); };
    return out;
}

// The table as rank 0 (by_hand_root.cc) and as another rank has it (by_hand_rank.cc), when all are
// there. What went wrong is logged.
Result<MeetingTable> meet_as_root(const ByHand& hand);
Result<MeetingTable> meet_root(const ByHand& hand);

}  // namespace pomona
