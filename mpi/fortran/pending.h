// mpi/fortran/pending.h: what a non-blocking call of Fortran leaves to be done when its request is
// complete: copies back to sections, arrays to be kept, handles to be told.
// Requests that leave nothing cost one look at a counter.
#pragma once

#include "mpi/fortran/section.h"

#include <atomic>
#include <functional>
#include <utility>

namespace pomona::fortran {

struct Pending {
    bool persistent = false;
    bool active = true;  // a persistent one: between start and completion
    std::vector<std::unique_ptr<Copy>> copies;
    std::vector<std::shared_ptr<void>> kept;
    std::function<void()> told;

    bool nothing() const { return copies.empty() && kept.empty() && !told; }
    void start() {
        active = true;
        for (auto& copy : copies) copy->fill();
    }
    void finish() {
        if (!active) return;
        active = false;
        for (auto& copy : copies) copy->empty();
        if (told) told();
    }
};

// How many requests have something pending.
extern std::atomic<int> pending_count;

void put_pending(MPI_Request request, std::unique_ptr<Pending> pending);
std::unique_ptr<Pending> take_pending(MPI_Request request);
// For all of its starts; null where nothing is pending.
Pending* find_pending(MPI_Request request);

inline void leave(Pending& pending, Whole& part) {
    if (auto copy = part.take_copy()) pending.copies.push_back(std::move(copy));
}
inline void leave(Pending& pending, Counted& part) {
    if (auto copy = part.take_copy()) pending.copies.push_back(std::move(copy));
}
template <class Handle> void leave(Pending& pending, Handles<Handle>& part) {
    pending.kept.push_back(std::make_shared<Handles<Handle>>(std::move(part)));
}
// MPI_Comm_idup: libraries may make the new handle known later than at the call's end.
inline void leave(Pending& pending, const std::pair<std::shared_ptr<MPI_Comm>, Integer*>& part) {
    pending.told = [part] { *part.second = to_fortran(*part.first); };
}

// After a non-blocking call: its parts live on until the request is complete.
template <class... Parts>
void defer(int error, MPI_Request request, bool persistent, Parts&&... parts) {
    if (error != MPI_SUCCESS) return;
    auto pending = std::make_unique<Pending>();
    (leave(*pending, parts), ...);
    if (pending->nothing()) return;
    pending->persistent = persistent;
    pending->active = !persistent;
    put_pending(request, std::move(pending));
}

// Around a call that may complete requests. What is pending is taken away before: a completed
// request's handle may be another one's at once.
class Completions {
public:
    Completions(const MPI_Request* requests, size_t count);
    ~Completions();
    // The request at this place is complete, and its handle is now `after`.
    void complete(size_t place, MPI_Request after);
    void complete_all(const MPI_Request* after) {
        for (size_t i = 0; i < taken_.size(); ++i) complete(i, after[i]);
    }

private:
    std::vector<std::pair<MPI_Request, std::unique_ptr<Pending>>> taken_;  // empty: nothing pending
};

}  // namespace pomona::fortran
