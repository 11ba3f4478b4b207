// mpi/fortran/pending.cc: the table of what is pending, by request.
#include "mpi/fortran/pending.h"

#include <mutex>
#include <unordered_map>
#include <utility>

namespace pomona::fortran {

std::atomic<int> pending_count{0};  // guides those who look whether to; the mutex orders the rest

namespace {
// Several under one handle: a library may have one request for all that are complete at once.
struct Table {
    std::mutex mutex;
    std::unordered_multimap<MPI_Request, std::unique_ptr<Pending>> entries;
};
Table& table() {
    static auto* made = new Table;  // used in callbacks at the end of programs
    return *made;
}
}  // namespace

void put_pending(MPI_Request request, std::unique_ptr<Pending> pending) {
    std::lock_guard guard(table().mutex);
    table().entries.emplace(request, std::move(pending));
    pending_count.fetch_add(1, std::memory_order_relaxed);  // read by Completions
}

std::unique_ptr<Pending> take_pending(MPI_Request request) {
    std::lock_guard guard(table().mutex);
    auto found = table().entries.find(request);
    if (found == table().entries.end()) return nullptr;
    auto pending = std::move(found->second);
    table().entries.erase(found);
    pending_count.fetch_sub(1, std::memory_order_relaxed);  // read by Completions
    return pending;
}

Pending* find_pending(MPI_Request request) {
    std::lock_guard guard(table().mutex);
    auto found = table().entries.find(request);
    return found == table().entries.end() ? nullptr : found->second.get();
}

Completions::Completions(const MPI_Request* requests, size_t count) {
    // A request's own thread has put what is pending for it before it waits.
    if (pending_count.load(std::memory_order_relaxed) == 0) return;
    for (size_t i = 0; i < count; ++i)
        taken_.emplace_back(requests[i],
                            requests[i] == MPI_REQUEST_NULL ? nullptr : take_pending(requests[i]));
}

Completions::~Completions() {
    for (auto& [request, pending] : taken_)
        if (pending) put_pending(request, std::move(pending));
}

void Completions::complete(size_t place, MPI_Request after) {
    if (place >= taken_.size() || !taken_[place].second) return;
    Pending& pending = *taken_[place].second;
    pending.finish();
    // A persistent request stays, and so does what it needs.
    if (!pending.persistent && after == MPI_REQUEST_NULL) taken_[place].second.reset();
}

}  // namespace pomona::fortran
