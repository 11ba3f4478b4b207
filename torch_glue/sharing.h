// sharing.h: memory of a device that other processes of the machine can read.
// Idea: five functions for each kind of device that has such memory. CUDA's are taken from the CUDA
// runtime that torch has loaded, by name, so that nothing here is compiled against CUDA; a device
// of PrivateUse1 brings its own (set_memory_sharing).
#pragma once

#include <c10/core/DeviceType.h>

#include <cstddef>
#include <cstdint>

namespace pomona::glue {

// All act on the current device, and return 0 or an error of the device's.
struct MemorySharing {
    static constexpr size_t kHandle = 64;
    int (*allocate)(size_t bytes, void** address, char* handle);
    int (*release)(void* address);
    int (*open)(const char* handle, void** address);  // another process's memory
    int (*close)(void* address);
    // A number of the device, the same in all processes of the machine, and of no other device.
    int (*identify)(uint64_t* number);
};

void set_memory_sharing(c10::DeviceType type, const MemorySharing* sharing);
// Null where devices of this kind have none.
const MemorySharing* memory_sharing(c10::DeviceType type);

// Has this process a device whose memory others can read, as far as is known? Starts no device.
bool can_share_memory();
// It has been tried, and did not work.
void refuse_sharing();

// The same number in all processes that run on one operating system; negative where none is known.
int64_t machine_number();

}  // namespace pomona::glue
