// mpi/rma/window_check.h: one-sided operations of a program that is checked (POMONA_CHECK,
// docs/checking.md).
// Idea: an operation uses memory at two places until it is complete there. Here its buffers are
// among those of all operations (mpi/check/checker.h), until a local flush, its request's end or
// the epoch's. In the target's memory this origin keeps what it accesses, until a flush or the end
// of the epoch: two accesses that meet there are a conflict (MPI 5.0, section 12.7). What several
// origins access in one epoch only fences know, which all members call: they tell each other and
// compare alike.
#pragma once

#include "mpi/check/checker.h"
#include "mpi/rma/window.h"

#include <map>
#include <string>
#include <vector>

namespace pomona {

class WindowCheck {
public:
    explicit WindowCheck(Window& window);
    ~WindowCheck();

    // Before an operation begins, whose number it gives; with an error it must not.
    RmaError begin(const std::string& function, const RmaAccess& access, uint64_t& number);
    // It did not begin.
    void take_back(int target, uint64_t number);
    // What has been sent to `target` is complete here, and unless `local` over there.
    void complete(int target, bool local);
    // Operations have begun that are not complete.
    bool pending() const;
    // Collective, at a fence: the accesses of all members since the last one.
    RmaError compare();

private:
    struct Access {
        std::string function;
        RmaKind kind;
        ReduceOp op;
        uint64_t memory;  // its use of memory here (Checker::use)
        BufferUses::Entry there;
    };
    struct Target {
        BufferUses uses;
        std::map<uint64_t, Access> accesses;
    };
    // A run of bytes of one access, as members tell it.
    struct Told;

    Target& target(int rank) { return targets_[static_cast<size_t>(rank)]; }
    bool open(const Access& access) const;
    std::string conflict(const RmaAccess& access, const Memory& there);
    std::vector<Told> tell() const;
    RmaError problem(int error, std::string sentence);

    Window& window_;
    Checker& checker_;
    std::vector<Target> targets_;
    uint64_t made_ = 0;  // with the engine held, as the lists
};

}  // namespace pomona
