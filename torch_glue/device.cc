// device.cc: see device.h. The adapters: any device by c10's guards, with a few words for CUDA
// (memory that is pinned where it lies) and Apple's MPS (events by torch's hooks, shared buffers).
#include "torch_glue/device.h"

#include <ATen/detail/MPSHooksInterface.h>
#include <ATen/mps/MPSAllocatorInterface.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include <dlfcn.h>
#include <unistd.h>

namespace pomona::glue {
namespace {

std::atomic<uint64_t> host_visible{0};  // a bit for each kind

class EventMoment final : public Moment {
public:
    explicit EventMoment(const c10::Stream& stream) : event_(stream.device_type()) {
        event_.record(stream);
    }
    bool reached() const override { return event_.query(); }
    void delay(const c10::Stream& stream) const override { event_.block(stream); }

private:
    c10::Event event_;
};

// Memory that is the device's own, or that the CPU sees where a program has said so.
class AnyDevice : public Device {
public:
    explicit AnyDevice(c10::DeviceType type) : Device(type) {}

    char* host_pointer(const at::Tensor& t) const override {
        return is_host_visible(type_) ? static_cast<char*>(t.data_ptr()) : nullptr;
    }
};

// torch 2.10 tells no stream's handle.
template <class Stream> constexpr bool kTellsHandle = requires(const Stream& stream) {
    stream.native_handle();
};

template <class Stream> void* handle_of(const Stream& stream) {
    if constexpr (kTellsHandle<Stream>) return stream.native_handle();
    else return nullptr;
}

// Pages of our own, which CUDA pins where they lie: unlike those of CUDA's allocator other
// processes may read them (process_vm_readv), as MPI does between ranks of one machine.
class CudaDevice final : public AnyDevice {
public:
    explicit CudaDevice(c10::DeviceType type) : AnyDevice(type) {}

    at::Tensor pinned(int64_t bytes) const override {
        using Register = int (*)(void*, size_t, unsigned);
        using Unregister = int (*)(void*);
        static const auto pin = reinterpret_cast<Register>(dlsym(RTLD_DEFAULT, "cudaHostRegister"));
        static const auto unpin =
            reinterpret_cast<Unregister>(dlsym(RTLD_DEFAULT, "cudaHostUnregister"));
        static const auto take_error =
            reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "cudaGetLastError"));
        constexpr unsigned kPortable = 1;
        if (pin == nullptr || unpin == nullptr) return Device::pinned(bytes);
        const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
        const size_t size = (static_cast<size_t>(bytes) + page - 1) / page * page;
        void* memory = std::aligned_alloc(page, size);
        if (memory == nullptr) return Device::pinned(bytes);
        if (pin(memory, size, kPortable) != 0) {
            if (take_error != nullptr)
                take_error();  // else torch would find it after its next kernel
            std::free(memory);
            return Device::pinned(bytes);
        }
        const auto release = [](void* address) {
            unpin(address);
            std::free(address);
        };
        return at::from_blob(memory, {bytes}, release, at::TensorOptions().dtype(at::kByte));
    }

    // CUDA copies 16 KiB and less to the device as a kernel would, which waits for the process's
    // turn where several share a GPU; in two rows they go by the engine for copies (4 KiB, two
    // processes on an H200, median: 275 us as one row, 13 as two).
    bool copy_up(const at::Tensor& target, const at::Tensor& pinned,
                 const c10::Stream& stream) const override {
        using Copy2d = int (*)(void*, size_t, const void*, size_t, size_t, size_t, int, void*);
        static const auto copy = reinterpret_cast<Copy2d>(dlsym(RTLD_DEFAULT, "cudaMemcpy2DAsync"));
        static const auto take_error =
            reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "cudaGetLastError"));
        constexpr size_t kLikeKernels = 16 << 10, kRows = 2;
        constexpr int kHostToDevice = 1;
        const size_t row = target.nbytes() / kRows;
        if (!kTellsHandle<c10::Stream> || copy == nullptr || row == 0 ||
            target.nbytes() > kLikeKernels || row * kRows != target.nbytes() ||
            target.nbytes() != pinned.nbytes() || target.scalar_type() != pinned.scalar_type() ||
            !pinned.device().is_cpu() || !target.is_contiguous() || !pinned.is_contiguous() ||
            target.is_neg() || pinned.is_neg() || target.is_conj() || pinned.is_conj())
            return false;
        if (copy(target.data_ptr(), row, pinned.data_ptr(), row, row, kRows, kHostToDevice,
                 handle_of(stream)) == 0)
            return true;
        if (take_error != nullptr) take_error();
        return false;
    }
};

// ---- Apple's GPU ------------------------------------------------------------------------------

class MpsMoment final : public Moment {
public:
    MpsMoment() : event_(at::detail::getMPSHooks().acquireEvent(false)) {
        at::detail::getMPSHooks().recordEvent(event_);
        at::detail::getMPSHooks().commitStream();  // else nobody tells the GPU
    }
    ~MpsMoment() override { at::detail::getMPSHooks().releaseEvent(event_); }
    MpsMoment(const MpsMoment&) = delete;
    MpsMoment& operator=(const MpsMoment&) = delete;
    bool reached() const override { return at::detail::getMPSHooks().queryEvent(event_); }
    void delay(const c10::Stream&) const override {
        at::detail::getMPSHooks().waitForEvent(event_);
    }

private:
    const uint32_t event_;
};

// The tensor's first element on the CPU; null where torch's allocator keeps the buffer for the GPU.
char* shared_pointer(const at::Tensor& t) {
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
            auto* values = reinterpret_cast<int*>(shared_pointer(on_device));
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

class MpsDevice final : public Device {
public:
    MpsDevice() : Device(c10::DeviceType::MPS) {}

    char* host_pointer(const at::Tensor& t) const override {
        return shares_memory() ? shared_pointer(t) : nullptr;
    }
    MomentPointer now(c10::Device) const override {
        if (events_work()) return std::make_shared<MpsMoment>();
        at::detail::getMPSHooks().deviceSynchronize();
        return nullptr;
    }

private:
    static bool events_work() {
        static const bool work = [] {
            try {
                MpsMoment().reached();
                return true;
            } catch (const std::exception&) { return false; }
        }();
        return work;
    }
};

const Device* make_device(c10::DeviceType type) {
    if (type == c10::DeviceType::MPS) return new MpsDevice;
    if (type == c10::DeviceType::CUDA) return new CudaDevice(type);
    return new AnyDevice(type);
}

// Two streams of each device, from its pool.
c10::Stream side_stream(c10::Device device, int which) {
    static std::mutex mutex;
    static std::map<std::array<int, 3>, c10::Stream> streams;
    const c10::impl::VirtualGuardImpl guard(device.type());
    if (!device.has_index()) device = guard.getDevice();
    std::lock_guard lock(mutex);
    const std::array<int, 3> key{static_cast<int>(device.type()), device.index(), which};
    auto found = streams.find(key);
    if (found == streams.end())
        found = streams.emplace(key, guard.getStreamFromGlobalPool(device, true)).first;
    return found->second;
}

}  // namespace

const Device& Device::of(c10::DeviceType type) {
    static std::mutex mutex;
    static std::array<const Device*, static_cast<size_t>(c10::COMPILE_TIME_MAX_DEVICE_TYPES)> all{};
    std::lock_guard lock(mutex);
    const Device*& device = all.at(static_cast<size_t>(type));
    if (device == nullptr) device = make_device(type);
    return *device;
}

Device::Device(c10::DeviceType type) : type_(type) {
    if (type == c10::DeviceType::CPU || type == c10::DeviceType::MPS) return;
    try {
        const c10::impl::VirtualGuardImpl guard(type);
        const c10::Stream stream = guard.getStreamFromGlobalPool(guard.getDevice(), true);
        EventMoment(stream).reached();
        has_streams_ = true;
    } catch (const std::exception&) {}  // a device without streams, or without events
}

Passage Device::passage(const at::Tensor& t) const {
    const bool flat = t.is_contiguous() && !t.is_conj() && !t.is_neg() && t.numel() > 0;
    if (flat && host_pointer(t) != nullptr) return Passage::Direct;
    return has_streams_ ? Passage::Streams : Passage::Copies;
}

MomentPointer Device::now(c10::Device device) const {
    if (type_ == c10::DeviceType::CPU) return nullptr;
    const c10::impl::VirtualGuardImpl guard(type_);
    const c10::Stream stream = guard.getStream(device);
    if (has_streams_) return end_of(stream);
    try {
        guard.synchronizeStream(stream);
    } catch (const std::exception&) {}  // a device that does everything at once
    return nullptr;
}

MomentPointer Device::end_of(const c10::Stream& stream) const {
    return std::make_shared<EventMoment>(stream);
}

c10::Stream Device::down(c10::Device device) const { return side_stream(device, 0); }
c10::Stream Device::up(c10::Device device) const { return side_stream(device, 1); }

at::Tensor Device::pinned(int64_t bytes) const {
    const auto options = at::TensorOptions().dtype(at::kByte);
    try {
        return at::empty({bytes}, options.pinned_memory(true));
    } catch (const std::exception&) { return at::empty({bytes}, options); }
}

void Device::hold(const at::Tensor& t, const c10::Stream& stream) const {
    if (t.numel() == 0) return;
    c10::impl::VirtualGuardImpl(type_).recordDataPtrOnStream(t.storage().data_ptr(), stream);
}

bool is_host_visible(c10::DeviceType type) {
    return (host_visible.load() >> static_cast<unsigned>(type)) & 1u;
}

void set_host_visible(c10::DeviceType type) {
    host_visible.fetch_or(uint64_t{1} << static_cast<unsigned>(type));
}

bool has_remote_memory() {
    using c10::DeviceType;
    for (DeviceType type : {DeviceType::CUDA, DeviceType::HIP, DeviceType::XPU, DeviceType::HPU,
                            DeviceType::PrivateUse1}) {
        if (is_host_visible(type) || !c10::impl::hasDeviceGuardImpl(type)) continue;
        if (c10::impl::VirtualGuardImpl(type).deviceCount() > 0) return true;
    }
    return false;
}

// ---- staging memory ---------------------------------------------------------------------------

struct StagingPool::Impl {
    struct Entry {
        at::Tensor memory;
        MomentPointer busy_until;
    };
    mutable std::mutex mutex;
    std::vector<Entry> free;  // by age
};

StagingPool& StagingPool::of(const Device& device) {
    static std::mutex mutex;
    static auto* const pools = new std::map<const Device*, StagingPool*>;  // never destroyed
    std::lock_guard lock(mutex);
    StagingPool*& pool = (*pools)[&device];
    if (pool == nullptr) {
        pool = new StagingPool(device);
        pool->impl_ = std::make_shared<Impl>();
    }
    return *pool;
}

namespace {
// Few sizes, so that what is given back fits again.
int64_t rounded(int64_t bytes) {
    constexpr int64_t kSmallest = 4096, kStep = int64_t{1} << 20;
    if (bytes >= kStep) return (bytes + kStep - 1) / kStep * kStep;
    int64_t size = kSmallest;
    while (size < bytes) size *= 2;
    return size;
}
bool is_over(const MomentPointer& moment) { return !moment || moment->reached(); }
}  // namespace

at::Tensor StagingPool::take(int64_t bytes) {
    const int64_t size = rounded(bytes);
    {
        std::lock_guard lock(impl_->mutex);
        auto& free = impl_->free;
        for (auto entry = free.begin(); entry != free.end(); ++entry) {
            if (entry->memory.numel() != size || !is_over(entry->busy_until)) continue;
            at::Tensor memory = std::move(entry->memory);
            free.erase(entry);
            return memory;
        }
    }
    return device_.pinned(size);
}

void StagingPool::give(at::Tensor memory, MomentPointer busy_until) {
    std::lock_guard lock(impl_->mutex);
    impl_->free.push_back({std::move(memory), std::move(busy_until)});
    trim();
}

void StagingPool::trim() {
    int64_t total = 0;
    for (const auto& entry : impl_->free) total += entry.memory.numel();
    auto& free = impl_->free;
    for (auto entry = free.begin(); entry != free.end() && total > kKept;) {
        if (!is_over(entry->busy_until)) {
            ++entry;
            continue;
        }
        total -= entry->memory.numel();
        entry = free.erase(entry);
    }
}

int64_t StagingPool::kept() const {
    std::lock_guard lock(impl_->mutex);
    int64_t total = 0;
    for (const auto& entry : impl_->free) total += entry.memory.numel();
    return total;
}

}  // namespace pomona::glue
