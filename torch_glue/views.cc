// views.cc: lets tensors that are negated or conjugated lazily reach the backend.
// Idea: torch._neg_view(x) and torch.conj(z) share memory with x and z, and a bit says that their
// values are others. For operators that do not know the bits torch puts copies in the place of such
// tensors, and its collectives do not say that they write: their results would go to the copies,
// and be lost. So for groups of ours a kernel leaves the tensors as they are; for others it does
// what torch does without it. The backend reads copies and writes by torch's copy_ (transit.h).
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "torch_glue/backend.h"

#include <string_view>

namespace pomona::glue {
namespace {

constexpr std::string_view kNamespace = "c10d::";

bool is_ours(const c10::intrusive_ptr<c10d::ProcessGroup>& group, c10::DeviceType device) {
    if (!group) return false;
    const auto backend = group->getBackend(device);
    // The name: in its debug mode torch puts a wrapper around.
    return dynamic_cast<ProcessGroupPomona*>(backend.get()) != nullptr ||
           backend->getBackendName() == "pomona";
}

template <c10::DispatchKey kKey> void as_they_are(const c10::OperatorHandle& op,
                                                  c10::DispatchKeySet keys,
                                                  torch::jit::Stack* stack) {
    const auto is_lazy = [](const at::Tensor& t) { return t.defined() && t.key_set().has(kKey); };
    const auto arguments = torch::jit::last(*stack, op.schema().arguments().size());
    const auto group = group_among(*stack);
    bool decided = false, ours = false;
    const auto taken_as_it_is = [&](const at::Tensor& t) {
        if (!decided) ours = is_ours(group, t.device().type());
        decided = true;
        return ours;
    };
    const size_t first = stack->size() - arguments.size();
    for (size_t i = first; i < stack->size(); ++i) {
        c10::IValue& value = (*stack)[i];
        if (value.isTensor() && is_lazy(value.toTensor())) {
            if (!taken_as_it_is(value.toTensor())) value = value.toTensor().clone();
        } else if (value.isTensorList()) {
            auto tensors = value.toTensorList();
            for (size_t j = 0; j < tensors.size(); ++j) {
                const at::Tensor t = tensors[j];
                if (is_lazy(t) && !taken_as_it_is(t)) tensors[j] = t.clone();
            }
        }
    }
    op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey), stack);
}

template <c10::DispatchKey kKey> void register_for() {
    static torch::Library library(torch::Library::IMPL, "c10d", kKey, __FILE__, __LINE__);
    auto& dispatcher = c10::Dispatcher::singleton();
    for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
        if (name.name.rfind(kNamespace, 0) != 0) continue;
        const auto op = dispatcher.findOp(name);
        if (!op || op->hasKernelForDispatchKey(kKey) ||
            !op->hasKernelForDispatchKey(c10::DispatchKey::CPU))
            continue;
        library.impl(name.name.c_str() + kNamespace.size(),
                     torch::CppFunction::makeFromBoxedFunction<&as_they_are<kKey>>());
    }
}

}  // namespace

void register_view_kernels() {
    register_for<c10::DispatchKey::Negative>();
    register_for<c10::DispatchKey::Conjugate>();
}

}  // namespace pomona::glue
