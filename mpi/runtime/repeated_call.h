// mpi/runtime/repeated_call.h: blocking collectives called again with the same arguments.
// Idea: programs repeat their collectives with other buffers at most. Checking, decoding, choosing
// and preparing then give what they gave before, so a communicator keeps prepared requests by the
// arguments, and a small blocking call only binds its buffers and runs. Kept are calls within one
// group, on predefined types and operations (their handles are numbers that never change meaning),
// of at most kRepeatedBytes, so that what is kept stays small. Of calls with a list of counts, the
// second with the same lists is kept: many programs never give the same ones twice.
#pragma once

#include "mpi/runtime/collective_request.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace pomona {

inline constexpr size_t kRepeatedBytes = 64 << 10;
inline constexpr size_t kRepeatedSlots = 33;

// All arguments but the communicator and the addresses. Handles as the user gave them.
struct CallKey {
    coll::Collective collective = coll::Collective::barrier;
    bool in_place = false;
    int root = 0;
    MPI_Count send_count = 0, recv_count = 0;
    MPI_Datatype send_type = MPI_DATATYPE_NULL, recv_type = MPI_DATATYPE_NULL;
    MPI_Op op = MPI_OP_NULL;

    // In place of the counts that a v-form gives in lists, at all ranks.
    static constexpr MPI_Count kListed = -1;
    bool listed() const { return send_count == kListed || recv_count == kListed; }

    bool operator==(const CallKey&) const = default;
    // Equals no key of a call any more.
    void forget() { root = kForgotten; }
    static constexpr int kForgotten = -1000000;
    // Barriers stand between everything: nothing shares their slot.
    size_t slot() const {
        if (collective == coll::Collective::barrier) return kRepeatedSlots - 1;
        uint64_t mixed = static_cast<uint64_t>(collective) * 31 +
                         static_cast<uint64_t>(send_count) * 7 +
                         static_cast<uint64_t>(recv_count) * 13 + static_cast<uint64_t>(root) * 3;
        static_assert(kRepeatedSlots - 1 == 1 << 5);
        return mixed * 0x9e3779b97f4a7c15u >> (64 - 5);
    }
};

// Counts and displacements of a v-form, where significant, as the user gave them, in the user's
// memory.
class CallLists {
public:
    void add(std::span<const std::byte> list) { lists_[number_++] = list; }
    std::vector<std::byte> copy() const;
    // Are they those that were copied from another call of the same key?
    bool equal(const std::vector<std::byte>& copied) const;
    uint64_t hash() const;

private:
    std::span<const std::span<const std::byte>> all() const { return {lists_.data(), number_}; }

    std::array<std::span<const std::byte>, 4> lists_;
    size_t number_ = 0;
};

struct RepeatedCall {
    CallKey key;
    std::unique_ptr<CollectiveRequest> request;   // null: nothing kept
    std::vector<std::byte> lists;                 // of a v-form
    uint64_t seen = 0;                            // the last v-form not kept: CallLists::hash()
    ptrdiff_t input_shift = 0, result_shift = 0;  // from its buffers to the first block
    bool running = false;                         // begun and not over
};

using RepeatedCalls = std::array<RepeatedCall, kRepeatedSlots>;  // by CallKey::slot()

enum class Repeated { unknown, over, under_way };
// Begins the prepared call for these arguments, if there is one. `input` and `result` as in
// CollectivePlan. Sets `call` when it is under way.
Repeated repeat_call(Communicator& comm, const CallKey& key, const void* input, void* result,
                     RepeatedCall*& call);
// The same of a v-form; `input` and `result` are the user's buffers.
Repeated repeat_call(Communicator& comm, const CallKey& key, const CallLists& lists,
                     const void* input, void* result, RepeatedCall*& call);
// Keeps the plan as prepared call, as good as begun; null (and an untouched plan) when it is not
// one of those kept. `lists`, and the user's buffers `input` and `result`: of a v-form, else null.
RepeatedCall* keep_call(CollectivePlan& plan, const CallKey& key, const CallLists* lists,
                        const void* input, void* result);
// Begins that; true when it is over already.
bool begin_call(RepeatedCall& call, const void* input, void* result);
// Waits for the end. An MPI error class, with all that is known of it in `failed`.
int finish_call(RepeatedCall& call, Outcome& failed);

// A barrier within the library that is likely to come again, as MPI_Barrier goes: prepared, and by
// a board where one is to be had (while half of the process's strips are free: MPI_Win_fence makes
// many windows' boards). An MPI error class.
int run_barrier_again(Communicator& comm);

}  // namespace pomona
