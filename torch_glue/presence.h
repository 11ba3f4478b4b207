// presence.h: which ranks have come to a collective, and which have left: their program has ended.
// Idea: an operation costs one store more, of its number. Only whoever waits for long asks the
// others how many collectives of the group they have started; a thread of theirs answers, whatever
// the rank is doing. Who ends in good order while others have not come to their end tells them the
// same unasked, and so does a rank in whose group an operation has failed that may be over for
// others. So a timeout names who has not come, and who waits for a rank that has left, or takes no
// part in its group any more, hears it soon. (MPI itself only knows of processes that die:
// MPI_Finalize waits for all.)
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "torch_glue/library.h"

namespace pomona::glue {

// What this process has started in a group, and what it knows of the group's other ranks.
class GroupCount {
public:
    // `members`: ranks in the first group; empty: the first group itself.
    GroupCount(uint64_t key, std::vector<int> members, int size)
        : key(key), members_(std::move(members)), size_(size) {}

    const uint64_t key;  // the same on all ranks

    void start(uint64_t sequence);  // this process starts collective `sequence`
    uint64_t started() const { return started_.load(); }
    std::chrono::nanoseconds idle() const;  // since then

    // This process sends or receives a message in the group; returns how many these are by now.
    uint64_t start_message();
    uint64_t messages() const { return messages_.load(); }
    std::chrono::nanoseconds idle_messages() const;

    // Asks the ranks that are not known to have started it. Their answers come later.
    void ask(uint64_t sequence, int self) const;
    // Who has not started it, as far as answers have come: sentences, or empty.
    std::string absent(uint64_t sequence, int self) const;

    // Asks who has not taken part in a message, `peer` or all (negative), what it has called last.
    void ask_peer(int peer, int self) const;
    // "rank 1 has not sent it (its last in this group: message number 3, ...)", as far as answers
    // have come; `done` is "sent" or "received".
    std::string absent_peer(int peer, int self, const std::string& done) const;

    // The ranks that have left before collective `sequence`; as "rank 1", "ranks 1, 3", or empty.
    std::string left(uint64_t sequence) const;
    // The same for a message from or to `peer`, or from anybody (negative).
    std::string left_peer(int peer, int self) const;

    // This process takes part in the group no more, from collective `sequence` on, since `cause`;
    // look_at_presence() tells the others.
    void give_up(uint64_t sequence, const std::string& cause, int self) const;
    // Who has told that, and why, of those that collective `sequence` needs, or a message as above:
    // "rank 1 has failed: ...", or empty.
    std::string given_up(uint64_t sequence) const;
    std::string given_up_peer(int peer, int self) const;

private:
    int world_rank(int rank) const {
        return members_.empty() ? rank : members_[static_cast<size_t>(rank)];
    }
    const std::vector<int> members_;
    const int size_;
    std::atomic<uint64_t> started_{0};
    std::atomic<int64_t> started_at_{0};  // nanoseconds of the steady clock
    std::atomic<uint64_t> messages_{0};
    std::atomic<int64_t> messaged_at_{0};
};

// The count of the group that this process makes now under `name`.
std::shared_ptr<GroupCount> count_group(const std::string& name, std::vector<int> members,
                                        int size);
// The group has ended here. Others may wait in it still, so that the last hundreds are remembered.
void end_count(const GroupCount& group);

// Collective: made once, with the communicator of the first group.
int watch_presence(MPI_Comm first_group);

// Takes in and answers what has come. Cheap; any thread.
void look_at_presence();

// At the end of the program, before MPI_Finalize: returns when all ranks have come here, or fails.
void depart();

}  // namespace pomona::glue
