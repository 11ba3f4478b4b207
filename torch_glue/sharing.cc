// sharing.cc: see sharing.h.
#include "torch_glue/sharing.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <array>
#include <atomic>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>

#include <dlfcn.h>

#include "torch_glue/device.h"

namespace pomona::glue {
namespace {

std::array<std::atomic<const MemorySharing*>,
           static_cast<size_t>(c10::COMPILE_TIME_MAX_DEVICE_TYPES)>
    given{};
std::atomic<bool> refused{false};

uint64_t hash_of(std::string_view text) {
    uint64_t hash = 14695981039346656037u;  // FNV-1a
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
    return hash;
}

// The CUDA runtime's functions, as its header declares them.
struct Cuda {
    struct Handle {
        char bytes[MemorySharing::kHandle];
    };
    int (*Malloc)(void**, size_t) = nullptr;
    int (*Free)(void*) = nullptr;
    int (*IpcGetMemHandle)(Handle*, void*) = nullptr;
    int (*IpcOpenMemHandle)(void**, Handle, unsigned) = nullptr;
    int (*IpcCloseMemHandle)(void*) = nullptr;
    int (*GetDevice)(int*) = nullptr;
    int (*DeviceGetPCIBusId)(char*, int, int) = nullptr;
    int (*GetLastError)() = nullptr;
    bool complete = true;

    Cuda() {
        find("cudaMalloc", Malloc);
        find("cudaFree", Free);
        find("cudaIpcGetMemHandle", IpcGetMemHandle);
        find("cudaIpcOpenMemHandle", IpcOpenMemHandle);
        find("cudaIpcCloseMemHandle", IpcCloseMemHandle);
        find("cudaGetDevice", GetDevice);
        find("cudaDeviceGetPCIBusId", DeviceGetPCIBusId);
        find("cudaGetLastError", GetLastError);
    }
    template <class Function> void find(const char* name, Function& function) {
        function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
        complete &= function != nullptr;
    }
};

const Cuda& cuda() {
    static const Cuda functions;
    return functions;
}

// An error that nobody takes from the runtime would be found by torch, after a kernel of its own.
int taken(int error) {
    if (error != 0) cuda().GetLastError();
    return error;
}

// CUDA lays small allocations beside each other in blocks of 2 MiB, and a handle stands for a whole
// block: who opens it would see the block's beginning.
int cuda_allocate(size_t wanted, void** address, char* handle) {
    constexpr size_t kBlock = size_t{2} << 20;
    const size_t bytes = (wanted + kBlock - 1) / kBlock * kBlock;
    if (const int error = cuda().Malloc(address, bytes); error != 0) return taken(error);
    Cuda::Handle made;
    if (const int error = cuda().IpcGetMemHandle(&made, *address); error != 0) {
        taken(error);
        cuda().Free(*address);
        return error;
    }
    std::memcpy(handle, made.bytes, sizeof made.bytes);
    return 0;
}

int cuda_release(void* address) { return taken(cuda().Free(address)); }

int cuda_open(const char* handle, void** address) {
    constexpr unsigned kLazyEnablePeerAccess = 1;
    Cuda::Handle other;
    std::memcpy(other.bytes, handle, sizeof other.bytes);
    return taken(cuda().IpcOpenMemHandle(address, other, kLazyEnablePeerAccess));
}

int cuda_close(void* address) { return taken(cuda().IpcCloseMemHandle(address)); }

// Parts of one GPU (MIG) have one number: they share its way to others.
int cuda_identify(uint64_t* number) {
    int device = 0;
    char name[32] = {};
    if (const int error = cuda().GetDevice(&device); error != 0) return taken(error);
    if (const int error = cuda().DeviceGetPCIBusId(name, sizeof name, device); error != 0)
        return taken(error);
    *number = hash_of(name);
    return 0;
}

constexpr MemorySharing kCuda{cuda_allocate, cuda_release, cuda_open, cuda_close, cuda_identify};

}  // namespace

void set_memory_sharing(c10::DeviceType type, const MemorySharing* sharing) {
    given.at(static_cast<size_t>(type)).store(sharing);
}

const MemorySharing* memory_sharing(c10::DeviceType type) {
    if (const MemorySharing* sharing = given.at(static_cast<size_t>(type)).load()) return sharing;
    return type == c10::DeviceType::CUDA && cuda().complete ? &kCuda : nullptr;
}

bool can_share_memory() {
    if (refused.load()) return false;
    for (c10::DeviceType type : {c10::DeviceType::CUDA, c10::DeviceType::PrivateUse1}) {
        if (is_host_visible(type) || !c10::impl::hasDeviceGuardImpl(type)) continue;
        if (c10::impl::VirtualGuardImpl(type).deviceCount() > 0 && memory_sharing(type) != nullptr)
            return true;
    }
    return false;
}

void refuse_sharing() { refused.store(true); }

int64_t machine_number() {
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    std::string text;
    if (!std::getline(file, text)) return -1;
    return static_cast<int64_t>(hash_of(text) >> 2);
}

}  // namespace pomona::glue
