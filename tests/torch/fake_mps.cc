// tests/torch/fake_mps.cc: a stand-in for torch's MPS, as far as torch_glue/devices.cc asks it.
// Idea: tensors whose device is MPS and whose storage points to a handle, not to memory, as with
// Metal's buffers; the memory is told by the allocator, unless the buffer is private. Copies are
// counted. The "GPU" is a thread that does what its stream was given, in order and late: some time
// after it was committed, and never before. An event is reached when all that the stream was given
// before it is done, so that a wait that is missing, or is for another event, shows.
#include <ATen/ATen.h>
#include <ATen/detail/MPSHooksInterface.h>
#include <ATen/mps/MPSAllocatorInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/library.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fake_tensor.h"

namespace {

struct Buffer {
    std::vector<char> bytes;
};

std::mutex mutex;
int copies = 0, live = 0;  // by mutex
bool all_private = false;

// MPS has one stream. What it does is numbered from 1 on, in the order in which it was given.
class Gpu {
public:
    void add(std::function<void()> work) {
        std::lock_guard lock(mutex_);
        if (!begun_) std::thread([this] { run(); }).detach();
        begun_ = true;
        given_.push_back(std::move(work));
        ++last_;
    }
    void commit() {
        std::lock_guard lock(mutex_);
        committed_ = last_;
        changed_.notify_all();
    }
    void synchronize() {
        std::unique_lock lock(mutex_);
        committed_ = last_;
        changed_.notify_all();
        changed_.wait(lock, [&, all = last_] { return done_ >= all; });
    }

    uint32_t acquire_event() {
        std::lock_guard lock(mutex_);
        events_[++newest_] = kNotRecorded;
        return newest_;
    }
    void release_event(uint32_t event) {
        std::lock_guard lock(mutex_);
        TORCH_CHECK(events_.erase(event) == 1, "event ", event, " is nobody's");
    }
    void record(uint32_t event) {
        std::lock_guard lock(mutex_);
        of(event) = last_;
    }
    bool query(uint32_t event) {
        std::lock_guard lock(mutex_);
        return blind_ || done_ >= recorded(event);
    }
    // The only stream has all that the event waits for before it already.
    void wait_for(uint32_t event) {
        std::lock_guard lock(mutex_);
        recorded(event);
    }
    // Events are told as reached at once: what a glue that waits for none would do.
    void set_blind(bool on) {
        std::lock_guard lock(mutex_);
        blind_ = on;
    }

private:
    static constexpr uint64_t kNotRecorded = UINT64_MAX;
    static constexpr std::chrono::milliseconds kLate{2};

    uint64_t& of(uint32_t event) {
        const auto at = events_.find(event);
        TORCH_CHECK(at != events_.end(), "event ", event, " is nobody's");
        return at->second;
    }
    uint64_t recorded(uint32_t event) {
        TORCH_CHECK(of(event) != kNotRecorded, "event ", event, " was not recorded");
        return of(event);
    }
    void run() {
        std::unique_lock lock(mutex_);
        for (;;) {
            changed_.wait(lock, [&] { return done_ < committed_; });
            auto work = std::move(given_.front());
            given_.pop_front();
            lock.unlock();
            std::this_thread::sleep_for(kLate);
            work();
            work = nullptr;  // with its tensors
            lock.lock();
            ++done_;
            changed_.notify_all();
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> given_;
    std::map<uint32_t, uint64_t> events_;  // the number of what was given last before it
    uint64_t last_ = 0, committed_ = 0, done_ = 0;
    uint32_t newest_ = 0;
    bool begun_ = false, blind_ = false;
};

Gpu& gpu() {
    static auto* one = new Gpu;  // its thread outlives what is static
    return *one;
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
    void deviceSynchronize() const override { gpu().synchronize(); }
    void commitStream() const override { gpu().commit(); }
    uint32_t acquireEvent(bool) const override { return gpu().acquire_event(); }
    void releaseEvent(uint32_t event) const override { gpu().release_event(event); }
    void recordEvent(uint32_t event) const override { gpu().record(event); }
    bool queryEvent(uint32_t event) const override { return gpu().query(event); }
    void waitForEvent(uint32_t event) const override { gpu().wait_for(event); }
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

// In stream order. Whoever does not say non_blocking has the result at once, as with Metal.
at::Tensor& copy_(at::Tensor& self, const at::Tensor& from, bool non_blocking) {
    TORCH_CHECK(self.is_contiguous() && from.is_contiguous() && self.nbytes() == from.nbytes());
    gpu().add([self, from] { std::memcpy(memory_of(self), memory_of(from), self.nbytes()); });
    if (!non_blocking) gpu().synchronize();
    std::lock_guard lock(mutex);
    ++copies;
    return self;
}

// The "GPU" adds to each element of an int32 tensor.
void add_later(const at::Tensor& t, int value) {
    gpu().add([t, value] {
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
    m.def("set_blind", [](bool on) { gpu().set_blind(on); });
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
        gpu().synchronize();
        at::Tensor made = at::empty(t.sizes(), t.options().device(at::kCPU));
        std::memcpy(made.data_ptr(), memory_of(t), t.nbytes());
        return made;
    });
}
