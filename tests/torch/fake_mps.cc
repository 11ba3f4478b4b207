// tests/torch/fake_mps.cc: a stand-in for torch's MPS, as far as torch_glue/devices.cc asks it.
// Idea: tensors whose device is MPS and whose storage points to a handle, not to memory, as with
// Metal's buffers; the memory is told by the allocator, unless the buffer is private. Copies are
// counted, and work of the "GPU" waits until somebody synchronises, so that a missing one shows.
#include <ATen/ATen.h>
#include <ATen/detail/MPSHooksInterface.h>
#include <ATen/mps/MPSAllocatorInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/library.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fake_tensor.h"

namespace {

struct Buffer {
    std::vector<char> bytes;
};

std::mutex mutex;
std::vector<std::function<void()>> pending;  // by mutex
int copies = 0, live = 0;                    // likewise
bool all_private = false;
std::atomic<bool> committed{false};  // the stream, up to the last event
std::atomic<int> looks{0};           // at that event, until it is reached

void finish_pending() {
    std::vector<std::function<void()>> work;
    {
        std::lock_guard lock(mutex);
        work.swap(pending);
    }
    for (auto& each : work) each();
}

char* memory_of(const at::Tensor& t) {
    if (t.device().is_cpu()) return static_cast<char*>(t.data_ptr());
    auto* buffer = static_cast<const Buffer*>(t.storage().data());
    return const_cast<char*>(buffer->bytes.data()) +
           static_cast<size_t>(t.storage_offset()) * t.element_size();
}

class FakeAllocator final : public at::mps::IMPSAllocator {
public:
    c10::DataPtr allocate(size_t bytes) override {
        auto* buffer = new Buffer{std::vector<char>(bytes ? bytes : 1)};
        std::lock_guard lock(mutex);
        ++live;
        return {buffer, buffer, &free_buffer, c10::Device(c10::kMPS, 0)};
    }
    static void free_buffer(void* buffer) {
        delete static_cast<Buffer*>(buffer);
        std::lock_guard lock(mutex);
        --live;
    }
    c10::DeleterFnPtr raw_deleter() const override { return &free_buffer; }
    void copy_data(void*, const void*, size_t) const override { TORCH_CHECK(false); }

    std::pair<const void*, uint32_t> getSharedBufferPtr(const void* handle) const override {
        if (all_private) return {nullptr, 0};
        return {static_cast<const Buffer*>(handle)->bytes.data(), 1};
    }
    bool isSharedBuffer(const void*) const override { return !all_private; }
    c10::Storage getHostAliasStorage(const c10::Storage&) const override { TORCH_CHECK(false); }

    // Not asked.
    bool initialized() override { return true; }
    void emptyCache(c10::MempoolId_t) override {}
    void recordStream(const c10::DataPtr&, c10::Stream) override {}
    c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override {
        return {};
    }
    void resetAccumulatedStats(c10::DeviceIndex) override {}
    void resetPeakStats(c10::DeviceIndex) override {}
    void freeInactiveBuffers() const override {}
    ssize_t getUnalignedBufferSize(const void*) const override { return 0; }
    at::IntArrayRef getBufferShape(const void*) const override { return {}; }
    id_t getBufferId(const void*) const override { return 0; }
    void setBufferShape(const void*, const at::IntArrayRef&) const override {}
    c10::DataPtr allocScalarBufferWithValue(void*, size_t) const override { return {}; }
    std::string formatSize(size_t) const override { return {}; }
    void setLowWatermarkRatio(double) const override {}
    void setHighWatermarkRatio(double) const override {}
    ssize_t getLowWatermarkValue() const override { return 0; }
    size_t getLowWatermarkLimit() const override { return 0; }
    size_t getHighWatermarkLimit() const override { return 0; }
    size_t getTotalAllocatedMemory() const override { return 0; }
    size_t getCurrentAllocatedMemory() const override { return 0; }
    size_t getDriverAllocatedMemory() const override { return 0; }
    size_t getRecommendedMaxMemory() const override { return 0; }
    bool recordEvents(c10::ArrayRef<const void*>) const override { return false; }
    bool waitForEvents(c10::ArrayRef<const void*>) const override { return false; }
};

FakeAllocator& allocator() {
    static auto* one = new FakeAllocator;
    return *one;
}

struct MPSHooks : at::MPSHooksInterface {
    explicit MPSHooks() = default;
    bool hasMPS() const override { return true; }
    at::Allocator* getMPSDeviceAllocator() const override { return &allocator(); }
    void deviceSynchronize() const override { finish_pending(); }
    void commitStream() const override { committed = true; }

    // An event is reached some looks after it has been recorded and the stream committed.
    uint32_t acquireEvent(bool) const override { return 7; }
    void releaseEvent(uint32_t) const override {}
    void recordEvent(uint32_t) const override {
        committed = false;
        looks = 3;
    }
    bool queryEvent(uint32_t) const override {
        if (!committed || --looks > 0) return false;
        finish_pending();
        return true;
    }
    void waitForEvent(uint32_t) const override {}
};

at::Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> dtype) {
    return empty_of(allocator(), c10::DispatchKey::MPS, /*resizable=*/false, size, dtype);
}

at::Tensor empty_memory_format(c10::IntArrayRef size, std::optional<at::ScalarType> dtype,
                               std::optional<at::Layout>, std::optional<at::Device>,
                               std::optional<bool>, std::optional<at::MemoryFormat>) {
    return empty(size, dtype);
}
at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                         std::optional<at::Device>, std::optional<bool>) {
    return empty(size, dtype);
}

// In stream order; the host sees the result.
at::Tensor& copy_(at::Tensor& self, const at::Tensor& from, bool) {
    TORCH_CHECK(self.is_contiguous() && from.is_contiguous() && self.nbytes() == from.nbytes());
    finish_pending();
    std::memcpy(memory_of(self), memory_of(from), self.nbytes());
    std::lock_guard lock(mutex);
    ++copies;
    return self;
}

// The "GPU" adds to each element of an int32 tensor, at some later time.
void add_later(const at::Tensor& t, int value) {
    std::lock_guard lock(mutex);
    pending.push_back([t, value] {
        auto* elements = reinterpret_cast<int*>(memory_of(t));
        for (int64_t i = 0; i < t.numel(); ++i) elements[i] += value;
    });
}

// Elements [from, from + count) of the same buffer.
at::Tensor part(const at::Tensor& t, int64_t from, int64_t count) {
    auto made = at::detail::make_tensor<c10::TensorImpl>(
        c10::Storage(t.storage()), c10::DispatchKeySet(c10::DispatchKey::MPS), t.dtype());
    made.unsafeGetTensorImpl()->set_sizes_contiguous({count});
    made.unsafeGetTensorImpl()->set_storage_offset(t.storage_offset() + from);
    return made;
}

}  // namespace

namespace at {
REGISTER_MPS_HOOKS(MPSHooks)
}
C10_REGISTER_GUARD_IMPL(MPS, c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::MPS>)

TORCH_LIBRARY_IMPL(aten, MPS, m) {
    m.impl("empty.memory_format", &empty_memory_format);
    m.impl("empty_strided", &empty_strided);
    m.impl("copy_", &copy_);
}

PYBIND11_MODULE(fake_mps, m) {
    m.def("part", &part);
    m.def("add_later", &add_later);
    m.def("set_private", [](bool on) { all_private = on; });
    m.def("copies", [] {
        std::lock_guard lock(mutex);
        return copies;
    });
    m.def("live", [] {
        std::lock_guard lock(mutex);
        return live;
    });
    m.def("to", [](const at::Tensor& t) {
        at::Tensor made = empty(t.sizes(), t.scalar_type());
        std::memcpy(memory_of(made), t.contiguous().data_ptr(), t.nbytes());
        return made;
    });
    m.def("values", [](const at::Tensor& t) {
        finish_pending();
        at::Tensor made = at::empty(t.sizes(), t.options().device(at::kCPU));
        std::memcpy(made.data_ptr(), memory_of(t), t.nbytes());
        return made;
    });
}
