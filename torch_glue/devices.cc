// devices.cc: lets tensors on Apple's GPU (MPS) reach the backend.
// Idea: torch registers its collectives for CPU and CUDA only. For MPS we register a kernel that
// goes on to the CPU's, which does nothing but call the group's backend. Only where torch has no
// kernel of its own. How MPI gets at their memory: device.h.
// Written without a Mac: it runs on Linux against a stand-in for torch's MPS
// (tests/torch/fake_mps.cc).
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "torch_glue/backend.h"
#include "torch_glue/messages.h"

namespace pomona::glue {

c10::intrusive_ptr<c10d::ProcessGroup> group_among(const torch::jit::Stack& arguments) {
    static const auto group_type =
        c10::getCustomClassType<c10::intrusive_ptr<c10d::ProcessGroup>>();
    for (const c10::IValue& value : arguments) {
        if (value.isObject() && *value.type() == *group_type)
            return value.toCustomClass<c10d::ProcessGroup>();
    }
    return {};
}

namespace {

void through_cpu_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet,
                        torch::jit::Stack* stack) {
    const auto group = group_among(*stack);
    TORCH_CHECK(group && group->getBackend(c10::DeviceType::MPS).get() ==
                             group->getBackend(c10::DeviceType::CPU).get(),
                filled(messages::mps_backends, op.operator_name().name));
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
}

}  // namespace

void register_device_kernels() {
    constexpr auto kKey = c10::DispatchKey::MPS;
    static torch::Library library(torch::Library::IMPL, "c10d", kKey, __FILE__, __LINE__);
    auto& dispatcher = c10::Dispatcher::singleton();
    for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
        if (name.name.rfind("c10d::", 0) != 0) continue;
        const auto op = dispatcher.findOp(name);
        if (!op || op->hasKernelForDispatchKey(kKey) ||
            !op->hasKernelForDispatchKey(c10::DispatchKey::CPU))
            continue;
        library.impl(name.name.c_str() + sizeof("c10d::") - 1,
                     torch::CppFunction::makeFromBoxedFunction<&through_cpu_kernel>());
    }
}

}  // namespace pomona::glue
