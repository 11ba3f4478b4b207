// mpi/check/checked_request.h: a send or receive of a program that is checked. It knows its call,
// uses its buffer from start to end, and compares the types of what it meets with its own.
#pragma once

#include "mpi/check/checker.h"

namespace pomona {

class CheckedRequest final : public P2pRequest {
public:
    // With the engine held.
    CheckedRequest(Checker& checker, const Checker::Call& call);
    ~CheckedRequest() override;

    int start() override;
    int finish(MPI_Status* status) override;
    void give_up() override;
    void met(const Header& header, uint64_t theirs) override;

    // Its buffer is in use from now on.
    void begin();
    // "MPI_Irecv (from rank 1, tag 5, 8 bytes)"
    std::string text() const;
    const std::string& function() const { return function_; }
    // The user still has to end it.
    bool held_by_user() const { return held_; }

protected:
    void recycle() override;
    void recycle_held() override;

private:
    Memory memory() const;
    void end();

    Checker& checker_;
    std::string function_;
    uint64_t use_ = 0;  // 0: none
    bool held_ = true;
};

}  // namespace pomona
