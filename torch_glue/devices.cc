// devices.cc: lets tensors on Apple's GPU (MPS) reach the backend, and MPI their memory.
// Idea: torch registers its collectives for CPU and CUDA only. For MPS we register a kernel that
// goes on to the CPU's, which does nothing but call the group's backend. Only where torch has no
// kernel of its own. CPU and GPU share memory: where torch's allocator gives a buffer an address on
// the CPU, MPI reads and writes it there; else tensors are copied through the host, in the order of
// the caller's stream.
// Written without a Mac: it runs on Linux against a stand-in for torch's MPS (tests/torch/fake_mps.cc).
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/MPSHooksInterface.h>
#include <ATen/mps/MPSAllocatorInterface.h>
#include <torch/library.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "torch_glue/backend.h"

#include <exception>

namespace pomona::glue {
namespace {

c10::intrusive_ptr<c10d::ProcessGroup> group_among(const torch::jit::Stack& arguments) {
    static const auto group_type =
        c10::getCustomClassType<c10::intrusive_ptr<c10d::ProcessGroup>>();
    for (const c10::IValue& value : arguments) {
        if (value.isObject() && *value.type() == *group_type)
            return value.toCustomClass<c10d::ProcessGroup>();
    }
    return {};
}

void through_cpu_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet,
                        torch::jit::Stack* stack) {
    const auto group = group_among(*stack);
    TORCH_CHECK(
        group && group->getBackend(c10::DeviceType::MPS).get() ==
                     group->getBackend(c10::DeviceType::CPU).get(),
        op.operator_name().name,
        ": tensors on MPS need a process group with one backend for CPU and MPS; make it with "
        "init_process_group(\"mpi\") or (\"pomona\"), not with a list of devices");
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
}

// The tensor's first element on the CPU; null where torch's allocator keeps the buffer for the GPU.
char* host_pointer(const at::Tensor& t) {
    auto* allocator =
        static_cast<at::mps::IMPSAllocator*>(at::detail::getMPSHooks().getMPSDeviceAllocator());
    auto* start = static_cast<const char*>(allocator->getSharedBufferPtr(t.storage().data()).first);
    if (start == nullptr) return nullptr;
    return const_cast<char*>(start) + static_cast<size_t>(t.storage_offset()) * t.element_size();
}

// What torch says of shared buffers, tried once in both directions before it is relied on.
bool shares_memory() {
    static const bool works = [] {
        try {
            const at::Tensor numbers = at::arange(5000, at::kInt);
            const at::Tensor on_device = numbers.to(at::kMPS);
            at::detail::getMPSHooks().deviceSynchronize();
            auto* values = reinterpret_cast<int*>(host_pointer(on_device));
            if (values == nullptr) return false;
            for (int i = 0; i < 5000; ++i) {
                if (values[i] != i) return false;
                values[i] = ~i;
            }
            return on_device.to(at::kCPU).equal(numbers.bitwise_not());
        } catch (const std::exception& e) {
            TORCH_WARN("MPS tensors are copied through the host: ", e.what());
            return false;
        }
    }();
    return works;
}

}  // namespace

at::Tensor shared_on_host(const at::Tensor& t) {
    const bool flat = t.is_contiguous() && !t.is_conj() && !t.is_neg();
    if (!t.device().is_mps() || t.numel() == 0 || !flat || !shares_memory()) return {};
    char* place = host_pointer(t);
    if (place == nullptr) return {};
    // The GPU may still write it, or read what MPI is about to overwrite.
    at::detail::getMPSHooks().deviceSynchronize();
    return at::from_blob(
        place, t.sizes(), [t](void*) {},  // keeps the buffer
        at::TensorOptions().dtype(t.scalar_type()).device(at::kCPU));
}

bool is_shared_on_host(const at::Tensor& host, const at::Tensor& t) {
    return t.device().is_mps() && t.numel() > 0 && t.is_contiguous() && shares_memory() &&
           host.data_ptr() == host_pointer(t);
}

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
