// mpi/abi/env.cc: the environment: versions, names, time, memory, addresses, hardware, and what
// the ABI says about itself (MPI 5.0, chapters 9, 11 and 20). Most of it works before MPI_Init.
#include "btl/sim/remote.h"
#include "mpi/abi/define.h"
#include "mpi/abi/guard.h"
#include "mpi/runtime/extensions.h"
#include "mpi/runtime/hardware.h"

#include <cstdlib>
#include <cstring>
#include <ctime>
#include <unistd.h>

#if !defined(POMONA_VERSION)
#define POMONA_VERSION "0.1.0"
#endif

using namespace pomona;

#define RESULT(pointer) REQUIRE(pointer, nullptr, MPI_ERR_ARG, #pointer " is a null pointer")

// ---- versions and names

POMONA_MPI(int, Get_version, (int* version, int* subversion)) {
    RESULT(version);
    RESULT(subversion);
    *version = MPI_VERSION;
    *subversion = MPI_SUBVERSION;
    return MPI_SUCCESS;
}

POMONA_MPI(int, Get_library_version, (char* version, int* resultlen)) {
    RESULT(version);
    RESULT(resultlen);
    static const char text[] = "Pomona " POMONA_VERSION ", MPI 5.0, standard ABI 1.0";
    static_assert(sizeof text <= MPI_MAX_LIBRARY_VERSION_STRING);
    std::memcpy(version, text, sizeof text);
    *resultlen = static_cast<int>(sizeof text - 1);
    return MPI_SUCCESS;
}

POMONA_MPI(int, Abi_get_version, (int* abi_major, int* abi_minor)) {
    RESULT(abi_major);
    RESULT(abi_minor);
    *abi_major = MPI_ABI_VERSION;
    *abi_minor = MPI_ABI_SUBVERSION;
    return MPI_SUCCESS;
}

POMONA_MPI(int, Get_processor_name, (char* name, int* resultlen)) {
    RESULT(name);
    RESULT(resultlen);
    char host[MPI_MAX_PROCESSOR_NAME] = "";
    if (process().simulated) process().job().host.copy(host, sizeof host - 1);
    else if (gethostname(host, sizeof host - 1) != 0) std::strcpy(host, "localhost");
    size_t length = std::strlen(host);
    std::memcpy(name, host, length + 1);
    *resultlen = static_cast<int>(length);
    return MPI_SUCCESS;
}

// ---- time: the monotonic clock, whose origin is the same for all processes of a machine

POMONA_MPI(double, Wtime, (void)) {
    if (sim::Remote* simulated = process().simulated.get()) {
        constexpr Nanoseconds kLook = 50;
        simulated->spend(kLook);
        return static_cast<double>(simulated->clock().now()) * 1e-9;
    }
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

POMONA_MPI(double, Wtick, (void)) {
    timespec step;
    if (clock_getres(CLOCK_MONOTONIC, &step) != 0) return 1e-6;
    return static_cast<double>(step.tv_sec) + static_cast<double>(step.tv_nsec) * 1e-9;
}

// Tracing tools replace this one; alone it does nothing.
POMONA_MPI(int, Pcontrol, (const int, ...)) { return MPI_SUCCESS; }

// Nobody was started by MPI_Comm_spawn, which Pomona does not have.
// ---- memory and addresses

POMONA_MPI(int, Alloc_mem, (MPI_Aint size, MPI_Info info, void* baseptr)) {
    RESULT(baseptr);
    REQUIRE(size >= 0, nullptr, MPI_ERR_ARG, "size is {}; it must not be negative", size);
    size_t alignment = 64;  // a cache line; vector loads never straddle two
    if (info != MPI_INFO_NULL) {
        Info* hints = resolve(info);
        REQUIRE(hints, nullptr, MPI_ERR_INFO, "info is not a valid info object");
        const std::string* wanted = hints->get("mpi_minimum_memory_alignment");
        size_t number = wanted ? std::strtoull(wanted->c_str(), nullptr, 10) : 0;
        if (number > alignment && (number & (number - 1)) == 0) alignment = number;
    }
    void* memory = nullptr;
    bool made = posix_memalign(&memory, alignment, size > 0 ? static_cast<size_t>(size) : 1) == 0;
    REQUIRE(made, nullptr, MPI_ERR_NO_MEM, "the system has no {} bytes of memory left", size);
    *static_cast<void**>(baseptr) = memory;
    return MPI_SUCCESS;
}

POMONA_MPI(int, Free_mem, (void* base)) {
    std::free(base);
    return MPI_SUCCESS;
}

POMONA_MPI(int, Get_address, (const void* location, MPI_Aint* address)) {
    RESULT(address);
    *address = reinterpret_cast<MPI_Aint>(location);
    return MPI_SUCCESS;
}

POMONA_MPI(MPI_Aint, Aint_add, (MPI_Aint base, MPI_Aint disp)) {
    return static_cast<MPI_Aint>(static_cast<uintptr_t>(base) + static_cast<uintptr_t>(disp));
}

POMONA_MPI(MPI_Aint, Aint_diff, (MPI_Aint addr1, MPI_Aint addr2)) {
    return static_cast<MPI_Aint>(static_cast<uintptr_t>(addr1) - static_cast<uintptr_t>(addr2));
}

// ---- hardware

POMONA_MPI(int, Get_hw_resource_info, (MPI_Info* hw_info)) {
    RESULT(hw_info);
    auto* made = new Info;
    made->set("mpi://shared_memory", "true");
    for (const auto& [kind, single] : describe_hardware()) made->set(kind, single);
    *hw_info = hand_out<MPI_Info>(made);
    return MPI_SUCCESS;
}

// ---- the ABI about itself and about Fortran

POMONA_MPI(int, Abi_get_info, (MPI_Info* info)) {
    RESULT(info);
    auto* made = new Info;
    made->set("mpi_aint_size", std::to_string(sizeof(MPI_Aint)));
    made->set("mpi_count_size", std::to_string(sizeof(MPI_Count)));
    made->set("mpi_offset_size", std::to_string(sizeof(MPI_Offset)));
    *info = hand_out<MPI_Info>(made);
    return MPI_SUCCESS;
}

namespace {
// What a Fortran binding above the ABI told; it may tell it once.
struct Fortran final : Process::Extension {
    static constexpr Slot slot = Slot::fortran;
    std::mutex mutex;
    Ref<Info> info;
    int logical_size = 0;  // 0: not told
    char literal_true[16] = {}, literal_false[16] = {};
};
Fortran& fortran() { return extension<Fortran>(process()); }
}  // namespace

POMONA_MPI(int, Abi_set_fortran_info, (MPI_Info info)) {
    Info* told = resolve(info);
    REQUIRE(told, nullptr, MPI_ERR_INFO, "info is not a valid info object");
    Fortran& known = fortran();
    std::unique_lock guard(known.mutex);
    bool first = !known.info;
    if (first) {
        known.info = Ref(new Info);
        known.info->entries = told->entries;
    }
    guard.unlock();
    REQUIRE(first, nullptr, MPI_ERR_ABI,
            "the Fortran types are set already; that is possible once");
    return MPI_SUCCESS;
}

POMONA_MPI(int, Abi_get_fortran_info, (MPI_Info* info)) {
    RESULT(info);
    Fortran& known = fortran();
    std::lock_guard guard(known.mutex);
    *info = MPI_INFO_NULL;
    if (known.info) {
        auto* made = new Info;
        made->entries = known.info->entries;
        *info = hand_out<MPI_Info>(made);
    }
    return MPI_SUCCESS;
}

POMONA_MPI(int, Abi_set_fortran_booleans,
           (int logical_size, void* logical_true, void* logical_false)) {
    bool power =
        logical_size >= 1 && logical_size <= 16 && (logical_size & (logical_size - 1)) == 0;
    REQUIRE(power, nullptr, MPI_ERR_ARG, "logical_size is {}; it must be 1, 2, 4, 8 or 16",
            logical_size);
    RESULT(logical_true);
    RESULT(logical_false);
    Fortran& known = fortran();
    std::unique_lock guard(known.mutex);
    bool first = known.logical_size == 0;
    if (first) {
        known.logical_size = logical_size;
        std::memcpy(known.literal_true, logical_true, static_cast<size_t>(logical_size));
        std::memcpy(known.literal_false, logical_false, static_cast<size_t>(logical_size));
    }
    guard.unlock();
    REQUIRE(first, nullptr, MPI_ERR_ABI,
            "the Fortran booleans are set already; that is possible once");
    return MPI_SUCCESS;
}

POMONA_MPI(int, Abi_get_fortran_booleans,
           (int logical_size, void* logical_true, void* logical_false, int* is_set)) {
    RESULT(is_set);
    Fortran& known = fortran();
    std::unique_lock guard(known.mutex);
    int size = known.logical_size;
    *is_set = size != 0;
    if (size != 0 && size == logical_size && logical_true && logical_false) {
        std::memcpy(logical_true, known.literal_true, static_cast<size_t>(size));
        std::memcpy(logical_false, known.literal_false, static_cast<size_t>(size));
    }
    guard.unlock();
    REQUIRE(size == 0 || size == logical_size, nullptr, MPI_ERR_ARG,
            "logical_size is {}, but LOGICAL was said to have {} bytes", logical_size, size);
    return MPI_SUCCESS;
}
