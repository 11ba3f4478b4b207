// accel/metal.h: reductions on the GPU through Metal.
// Idea: memory is shared between CPU and GPU, so arrays are wrapped where they lie (whole pages,
// no copy) or are a tensor's own MTLBuffer. A reduction is started, and a function called when it
// is done; find_metal_kernel (accel/modules.h) offers the same with waiting, as a ReduceKernel.
#pragma once

#include "accel/kernel.h"
#include "btl/base/result.h"

#include <memory>

namespace pomona {

// Host memory, or a place in an MTLBuffer.
struct MetalOperand {
    void* pointer = nullptr;
    void* buffer = nullptr;  // id<MTLBuffer>; `pointer` is not looked at
    size_t offset = 0;       // bytes into `buffer`
};

struct MetalReduction {
    ReduceOp op;
    ElementType type;
    MetalOperand out, a, b;  // out[i] = a[i] op b[i]; out may be a or b
    size_t count = 0;
    void* event = nullptr;  // id<MTLSharedEvent>: start when it has reached `event_value`
    uint64_t event_value = 0;
};

// Called once, on a thread of Metal's: must be short and must not start a reduction.
using MetalDone = void (*)(void* context, bool ok);

struct MetalOptions {
    const char* source = nullptr;    // text of the kernels; nullptr: the built-in reduce.metal
    const char* metallib = nullptr;  // a compiled library instead
};

class Metal {
public:
    // Fails where there is no GPU or its compiler refuses the kernels; the log says why.
    static Result<std::unique_ptr<Metal>> open(MetalOptions options = {});
    virtual ~Metal() = default;  // waits for what has been started

    // Code::unsupported: not for the GPU (combination, alignment, memory it cannot reach).
    // Nothing is touched then and `done` is not called.
    virtual Status start(const MetalReduction& reduction, MetalDone done, void* context) = 0;
    // The same, and waits.
    Status run(const MetalReduction& reduction);
    // The GPU's name, as Metal reports it.
    virtual const char* device_name() const = 0;

    static bool supports(ReduceOp op, ElementType type);
};

}  // namespace pomona
