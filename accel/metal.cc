// accel/metal.cc: the host side of accel/reduce.metal.
// Idea: one queue, pipelines made at first use; a reduction is one command buffer, one encoder.
// Its wrapped buffers are released when Metal says it is done; that call comes through a hand-made
// block, taken from a list that is never freed.
#include "accel/metal.h"

#include "accel/metal_shape.h"
#include "accel/objc.h"
#include "btl/base/log.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <string>
#include <unistd.h>
#include <vector>

#if defined(__APPLE__)
#include <dlfcn.h>
#else
extern "C" void* MTLCreateSystemDefaultDevice(void);
#endif

namespace pomona {

extern const char metal_source[];

namespace {

using objc::Id;
using objc::Owned;
using objc::send;

// Opened at first use: loading Metal costs every MPI program time that few of them get back.
Id create_device() {
#if defined(__APPLE__)
    void* metal = dlopen("/System/Library/Frameworks/Metal.framework/Metal", RTLD_LAZY);
    using Create = Id (*)();
    auto create =
        metal ? reinterpret_cast<Create>(dlsym(metal, "MTLCreateSystemDefaultDevice")) : nullptr;
    return create ? create() : nullptr;
#else
    return MTLCreateSystemDefaultDevice();
#endif
}

// MTLSize: passed by value.
struct Size {
    unsigned long width, height, depth;
};

// Which kernel of reduce.metal serves, and how many of its elements make one of ours.
struct KernelName {
    const char* suffix = nullptr;
    size_t factor = 1;
    size_t size = 0;  // bytes of the kernel's element
};

KernelName arithmetic_name(ElementType type) {
    switch (type) {
    case ElementType::f32: return {"float", 1, 4};
    case ElementType::f16: return {"half", 1, 2};
    case ElementType::bf16: return {"bfloat", 1, 2};
    case ElementType::i32:
    case ElementType::u32: return {"int", 1, 4};
    case ElementType::i64:
    case ElementType::u64: return {"long", 1, 8};
    default: return {};
    }
}

KernelName kernel_name(ReduceOp op, ElementType type) {
    if (!is_allowed(op, type)) return {};
    switch (op) {
    case ReduceOp::sum:
        if (type == ElementType::complex_f32) return {"float", 2, 4};
        if (type == ElementType::complex_f16) return {"half", 2, 2};
        return arithmetic_name(type);
    case ReduceOp::prod: return arithmetic_name(type);
    case ReduceOp::min:
    case ReduceOp::max:
        if (type == ElementType::u32) return {"uint", 1, 4};
        if (type == ElementType::u64) return {"ulong", 1, 8};
        return arithmetic_name(type);
    case ReduceOp::band:
    case ReduceOp::bor:
    case ReduceOp::bxor: {
        size_t bytes = element_size(type);
        if (bytes < 4) return {"uchar", bytes, 1};
        return {"uint", bytes / 4, 4};
    }
    default: return {};
    }
}

// Pages [begin, end) of an operand, wrapped as one buffer.
struct Range {
    uintptr_t begin = 0, end = 0;
    Owned buffer;

    bool meets(const Range& other) const { return begin < other.end && other.begin < end; }
};

class MetalDevice;

// One reduction under way.
struct Work {
    objc::Block block;  // first: Metal gives us its address back
    MetalDevice* device = nullptr;
    MetalDone done = nullptr;
    void* context = nullptr;
    std::vector<Range> ranges;
};

constexpr objc::BlockDescriptor block_descriptor{0, sizeof(Work)};

// Never freed: Metal looks at a block once more after calling it, when its device may be gone.
class WorkList {
public:
    Work* take() {
        std::lock_guard lock(mutex_);
        if (idle_.empty()) {
            works_.push_back(std::make_unique<Work>());
            works_.back()->block.descriptor = &block_descriptor;
            return works_.back().get();
        }
        Work* work = idle_.back();
        idle_.pop_back();
        return work;
    }
    void give_back(Work& work) {
        work.ranges.clear();
        std::lock_guard lock(mutex_);
        idle_.push_back(&work);
    }

private:
    std::mutex mutex_;
    std::vector<std::unique_ptr<Work>> works_;
    std::vector<Work*> idle_;
};
WorkList& work_list() {
    static auto* list = new WorkList;
    return *list;
}

// Where an operand lies: buffer and offset in elements.
struct Place {
    Id buffer = nullptr;
    uint64_t start = 0;
};

void log_error(const char* what, Id error) {
    Id text = error ? send<Id>(error, "localizedDescription") : nullptr;
    const char* words = text ? send<const char*>(text, "UTF8String") : "no reason given";
    LOG(warn, accel, "{}: {}", what, words);
}

Id string_of(const char* text) {
    return send<Id>(objc_getClass("NSString"), "stringWithUTF8String:", text);
}

class MetalDevice final : public Metal {
public:
    ~MetalDevice() override {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return under_way_ == 0; });
    }

    Status prepare(const MetalOptions& options) {
        objc::Pool pool;
        device_ = Owned(create_device());
        if (!device_) return Error{Code::unsupported, "This machine has no GPU for Metal"};
        Id name = send<Id>(device_.get(), "name");
        name_ = name ? send<const char*>(name, "UTF8String") : "GPU";
        queue_ = Owned(send<Id>(device_.get(), "newCommandQueue"));
        if (!queue_) return Error{Code::out_of_memory, "Metal gives no command queue"};
        Id error = nullptr;
        const char* source = options.source ? options.source : metal_source;
        library_ = options.metallib ? load(options.metallib, &error) : compile(source, &error);
        if (library_) return {};
        log_error("Metal does not accept the reduction kernels, which stay on the CPU", error);
        return Error{Code::unsupported, "Metal does not accept the reduction kernels"};
    }

    const char* device_name() const override { return name_.c_str(); }

    Status start(const MetalReduction& r, MetalDone done, void* context) override {
        KernelName name = kernel_name(r.op, r.type);
        if (!name.suffix) return Error{Code::unsupported, "No GPU kernel for this reduction"};
        if (r.count == 0) {
            done(context, true);
            return {};
        }
        objc::Pool pool;
        Id pipeline = TRY(pipeline_of(r.op, r.type, name));
        Work* work = take_work();
        work->done = done;
        work->context = context;
        Status encoded = encode(*work, r, name, pipeline);
        if (!encoded) give_back(*work);
        return encoded;
    }

private:
    Owned compile(const char* text, Id* error) {
        Owned options(send<Id>(send<Id>(objc_getClass("MTLCompileOptions"), "alloc"), "init"));
        // Sums must round as the CPU's do.
        send<void>(options.get(), "setFastMathEnabled:", false);
        return Owned(send<Id>(device_.get(), "newLibraryWithSource:options:error:", string_of(text),
                              options.get(), error));
    }

    Owned load(const char* path, Id* error) {
        Id url = send<Id>(objc_getClass("NSURL"), "fileURLWithPath:", string_of(path));
        return Owned(send<Id>(device_.get(), "newLibraryWithURL:error:", url, error));
    }

    Result<Id> pipeline_of(ReduceOp op, ElementType type, const KernelName& name) {
        std::lock_guard lock(mutex_);
        Owned& kept = pipelines_[static_cast<int>(op)][static_cast<int>(type)];
        if (kept) return kept.get();
        std::string full = std::string("reduce_") + op_name(op) + "_" + name.suffix;
        Owned function(send<Id>(library_.get(), "newFunctionWithName:", string_of(full.c_str())));
        if (!function) return Error{Code::unsupported, "The Metal library lacks a kernel"};
        Id error = nullptr;
        kept = Owned(send<Id>(
            device_.get(), "newComputePipelineStateWithFunction:error:", function.get(), &error));
        if (kept) return kept.get();
        log_error("Metal makes no pipeline of a reduction kernel, which stays on the CPU", error);
        return Error{Code::unsupported, "Metal makes no pipeline of a reduction kernel"};
    }

    // Host operands that share pages share a buffer, so that no page is wrapped twice.
    Status wrap(Work& work, const MetalReduction& r, size_t bytes) {
        const auto page = static_cast<uintptr_t>(getpagesize());
        for (const MetalOperand* operand : {&r.out, &r.a, &r.b}) {
            if (operand->buffer) continue;
            auto address = reinterpret_cast<uintptr_t>(operand->pointer);
            Range range{address / page * page, (address + bytes + page - 1) / page * page, {}};
            for (size_t i = 0; i < work.ranges.size();) {
                if (!range.meets(work.ranges[i])) {
                    ++i;
                    continue;
                }
                range.begin = std::min(range.begin, work.ranges[i].begin);
                range.end = std::max(range.end, work.ranges[i].end);
                work.ranges.erase(work.ranges.begin() + static_cast<std::ptrdiff_t>(i));
                i = 0;  // the larger range may meet one that was passed over
            }
            work.ranges.push_back(std::move(range));
        }
        for (Range& range : work.ranges) {
            constexpr unsigned long shared = 0;  // MTLResourceStorageModeShared
            range.buffer = Owned(
                send<Id>(device_.get(), "newBufferWithBytesNoCopy:length:options:deallocator:",
                         reinterpret_cast<void*>(range.begin),
                         static_cast<unsigned long>(range.end - range.begin), shared, Id(nullptr)));
            if (!range.buffer) return Error{Code::unsupported, "Metal cannot reach this memory"};
        }
        return {};
    }

    Result<Place> place_of(const Work& work, const MetalOperand& operand, size_t size) {
        Place place{operand.buffer, operand.offset};
        if (!operand.buffer) {
            auto address = reinterpret_cast<uintptr_t>(operand.pointer);
            for (const Range& range : work.ranges)
                if (address >= range.begin && address < range.end)
                    place = {range.buffer.get(), address - range.begin};
        }
        if (place.start % size != 0)
            return Error{Code::unsupported, "An array is not aligned to its elements"};
        place.start /= size;
        return place;
    }

    Status encode(Work& work, const MetalReduction& r, const KernelName& name, Id pipeline) {
        size_t count = r.count * name.factor;
        TRY(wrap(work, r, count * name.size));
        Place out = TRY(place_of(work, r.out, name.size));
        Place a = TRY(place_of(work, r.a, name.size));
        Place b = TRY(place_of(work, r.b, name.size));
        Id command = send<Id>(queue_.get(), "commandBuffer");
        if (!command) return Error{Code::out_of_memory, "Metal gives no command buffer"};
        if (r.event) send<void>(command, "encodeWaitForEvent:value:", r.event, r.event_value);
        Id encoder = send<Id>(command, "computeCommandEncoder");
        if (!encoder) return Error{Code::out_of_memory, "Metal gives no encoder"};
        send<void>(encoder, "setComputePipelineState:", pipeline);
        unsigned long index = 0;
        for (const Place* place : {&out, &a, &b})
            send<void>(encoder, "setBuffer:offset:atIndex:", place->buffer, 0ul, index++);
        auto group = send<unsigned long>(pipeline, "maxTotalThreadsPerThreadgroup");
        for (size_t done = 0; done < count; done += metal_count_max) {
            auto length = static_cast<uint32_t>(std::min(count - done, metal_count_max));
            MetalShape shape =
                metal_shape(out.start + done, a.start + done, b.start + done, length);
            send<void>(encoder, "setBytes:length:atIndex:", static_cast<const void*>(&shape),
                       static_cast<unsigned long>(sizeof shape), 3ul);
            send<void>(encoder,
                       "dispatchThreads:threadsPerThreadgroup:", Size{shape.threads(), 1, 1},
                       Size{std::min(group, 256ul), 1, 1});
        }
        send<void>(encoder, "endEncoding");
        send<void>(command, "addCompletedHandler:", static_cast<Id>(&work.block));
        send<void>(command, "commit");
        return {};
    }

    // The completed handler. What we wrapped goes before the caller may free its memory.
    static void completed(objc::Block* block, Id command) {
        auto* work = reinterpret_cast<Work*>(block);
        constexpr unsigned long status_completed = 4;  // MTLCommandBufferStatusCompleted
        bool ok = send<unsigned long>(command, "status") == status_completed;
        if (!ok) {
            objc::Pool pool;
            log_error("The GPU failed in a reduction", send<Id>(command, "error"));
        }
        work->ranges.clear();
        MetalDone done = work->done;
        void* context = work->context;
        MetalDevice* device = work->device;
        done(context, ok);
        device->give_back(*work);
    }

    Work* take_work() {
        Work* work = work_list().take();
        work->block.invoke = completed;
        work->device = this;
        std::lock_guard lock(mutex_);
        ++under_way_;
        return work;
    }

    void give_back(Work& work) {
        work_list().give_back(work);
        std::lock_guard lock(mutex_);
        --under_way_;
        changed_.notify_all();  // under the lock: the destructor may run as soon as it is free
    }

    Owned device_, queue_, library_;
    std::string name_;
    Owned pipelines_[op_count][type_count];
    size_t under_way_ = 0;
    std::mutex mutex_;
    std::condition_variable changed_;
};

}  // namespace

bool Metal::supports(ReduceOp op, ElementType type) {
    return kernel_name(op, type).suffix != nullptr;
}

Result<std::unique_ptr<Metal>> Metal::open(MetalOptions options) {
    auto device = std::make_unique<MetalDevice>();
    TRY(device->prepare(options));
    return std::unique_ptr<Metal>(std::move(device));
}

Status Metal::run(const MetalReduction& reduction) {
    struct Wait {
        std::mutex mutex;
        std::condition_variable changed;
        bool over = false, ok = false;
    } wait;
    auto done = [](void* context, bool ok) {
        auto* waiting = static_cast<Wait*>(context);
        std::lock_guard lock(waiting->mutex);
        waiting->over = true;
        waiting->ok = ok;
        waiting->changed.notify_one();
    };
    TRY(start(reduction, done, &wait));
    std::unique_lock lock(wait.mutex);
    wait.changed.wait(lock, [&] { return wait.over; });
    if (wait.ok) return {};
    return Error{Code::io, "The GPU failed in a reduction"};
}

}  // namespace pomona
