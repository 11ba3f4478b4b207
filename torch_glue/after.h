// after.h: what is left to do when MPI is done: divide for averages, copy out of staging memory.
// Idea: collected while an operation is built, then split by who may do it: host memory is finished
// by whatever thread sees the end, device memory only by a thread of the user's, in its stream's
// order. Empty for a plain operation on flat CPU tensors, which then allocates nothing here.
#pragma once

#include "torch_glue/tensor.h"
#include "torch_glue/work.h"

#include <utility>

namespace pomona::glue {

// Do the two tensors' bytes overlap? (Flat host tensors.)
inline bool overlaps(const at::Tensor& a, const at::Tensor& b) {
    const auto* a_begin = static_cast<const char*>(a.data_ptr());
    const auto* b_begin = static_cast<const char*>(b.data_ptr());
    return a_begin < b_begin + b.nbytes() && b_begin < a_begin + a.nbytes();
}

class After {
public:
    // Divide `host`; comes before its copy.
    void divide(const at::Tensor& host, int64_t divisor) { divisions_.push_back({host, divisor}); }

    // Copy `host` to `target` unless they are the same memory.
    void copy(const at::Tensor& host, const at::Tensor& target) {
        if (host.is_same(target)) return;
        if (is_shared_on_host(host, target)) {
            in_place_on_device_ = true;
            return;
        }
        auto& list = target.device().is_cpu() ? host_copies_ : device_copies_;
        list.push_back({host, target});
    }

    void copies(const Slots& slots, const std::vector<at::Tensor>& targets) {
        if (!slots.staged) return;
        for (size_t i = 0; i < targets.size(); ++i) copy(slots.host[i], targets[i]);
    }

    void install(GlueWork& work) {
        if (!divisions_.empty() || !host_copies_.empty()) {
            work.set_unpack([divisions = std::move(divisions_), copies = std::move(host_copies_)] {
                for (const auto& [host, divisor] : divisions) glue::divide(host, divisor);
                copy_all(copies);
            });
        }
        if (in_place_on_device_ || !device_copies_.empty())
            work.set_deliver([copies = std::move(device_copies_)] { copy_all(copies); });
    }

private:
    using Copies = std::vector<std::pair<at::Tensor, at::Tensor>>;
    static void copy_all(const Copies& copies) {
        for (const auto& [host, target] : copies) at::Tensor(target).copy_(host.view_as(target));
    }

    std::vector<std::pair<at::Tensor, int64_t>> divisions_;
    Copies host_copies_;
    Copies device_copies_;
    bool in_place_on_device_ = false;  // the end concerns the user's stream, without a copy
};

}  // namespace pomona::glue
