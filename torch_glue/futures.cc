// futures.cc: see futures.h.
#include <Python.h>  // first, as it asks

#include "torch_glue/futures.h"

#include <torch/csrc/jit/python/pybind_utils.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "torch_glue/work.h"

namespace py = pybind11;

namespace pomona::glue {
namespace {

using Future = c10::ivalue::Future;
using FuturePointer = c10::intrusive_ptr<Future>;
using PythonFuture = std::shared_ptr<torch::jit::PythonFutureWrapper>;

// Of Futures that are not complete: which ones they are made of.
class Origins {
public:
    static Origins& instance() {
        static Origins* const origins = new Origins;  // outlives static destructors
        return *origins;
    }

    void note(const FuturePointer& made, const std::vector<FuturePointer>& from) {
        Entry entry;
        entry.made = c10::weak_intrusive_ptr<Future>(made);
        for (const FuturePointer& each : from) entry.from.emplace_back(each);
        // A Future's value goes with the last weak pointer to it, and that takes Python's lock,
        // whose holder may wait for ours.
        std::vector<Entry> gone;
        std::lock_guard lock(mutex_);
        if (entries_.size() >= limit_) forget(gone);
        std::swap(entries_[made.get()], entry);
    }

    // It, and all that it waits for.
    std::vector<FuturePointer> all_of(FuturePointer future) {
        std::vector<FuturePointer> found{std::move(future)};
        std::lock_guard lock(mutex_);
        for (size_t i = 0; i < found.size(); ++i) {
            const auto entry = entries_.find(found[i].get());
            // Another may stand where one that is gone was.
            if (entry == entries_.end() || entry->second.made.lock() != found[i]) continue;
            for (const auto& weak : entry->second.from) {
                FuturePointer each = weak.lock();
                if (each && std::find(found.begin(), found.end(), each) == found.end())
                    found.push_back(std::move(each));
            }
        }
        return found;
    }

private:
    struct Entry {
        c10::weak_intrusive_ptr<Future> made{FuturePointer()};
        std::vector<c10::weak_intrusive_ptr<Future>> from;
    };

    void forget(std::vector<Entry>& gone) {
        for (auto entry = entries_.begin(); entry != entries_.end();) {
            if (!entry->second.made.expired()) {
                ++entry;
                continue;
            }
            gone.push_back(std::move(entry->second));
            entry = entries_.erase(entry);
        }
        limit_ = std::max<size_t>(64, 2 * entries_.size());
    }

    std::mutex mutex_;
    std::unordered_map<const Future*, Entry> entries_;
    size_t limit_ = 64;
};

void note_origins(const PythonFuture& made, const std::vector<PythonFuture>& from) {
    std::vector<FuturePointer> origins;
    for (const PythonFuture& each : from) origins.push_back(each->fut);
    const FuturePointer future = made->fut;
    const py::gil_scoped_release without;
    Origins::instance().note(future, origins);
}

void callback_waits(const PythonFuture& future) {
    if (future->done()) return;
    const py::gil_scoped_release without;
    const std::vector<FuturePointer> all = Origins::instance().all_of(future->fut);
    std::vector<const Future*> pointers;
    for (const FuturePointer& each : all) pointers.push_back(each.get());
    FutureOrder::callback_waits(pointers);
}

void future_awaited(const PythonFuture& future) {
    const py::gil_scoped_release without;
    const std::vector<FuturePointer> all = Origins::instance().all_of(future->fut);
    std::vector<const Future*> pointers;
    for (const FuturePointer& each : all) pointers.push_back(each.get());
    GlueWork::futures_awaited(pointers);
}

}  // namespace

void bind_futures(py::module_& module) {
    module.def("in_ordered_callback", &FutureOrder::in_callback);
    module.def("callback_waits", &callback_waits, py::arg("future"));
    module.def("future_awaited", &future_awaited, py::arg("future"));
    module.def("note_origins", &note_origins, py::arg("made"), py::arg("origins"));
}

}  // namespace pomona::glue
