// tests/metal/mock.cc: the Objective-C runtime and as much of Metal as accel/metal.cc uses.
// Goal: the host code runs here and its mistakes end the program: unknown selectors, messages to
// freed objects, commit before endEncoding, encoding after commit, no-copy buffers off the pages,
// dispatch without a pipeline or arguments, blocks that would need copying. Committed commands run
// on a thread of their own, as on a GPU, with the kernels of reduce.metal compiled as C++.
#include "tests/metal/mock.h"

#include "tests/metal/kernels.h"

#include <condition_variable>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

namespace {

[[noreturn]] void misuse(const std::string& what) {
    std::fprintf(stderr, "Metal mock: %s\n", what.c_str());
    std::abort();
}
void demand(bool holds, const std::string& what) {
    if (!holds) misuse(what);
}

struct Object {
    std::string kind;
    int references = 1;
    explicit Object(std::string kind) : kind(std::move(kind)) {}
    virtual ~Object() = default;
};

// One lock for everything: the mock is not about speed. Recursive, since releases nest.
// Never destroyed: a detached thread may be at its last lines when the program ends.
std::recursive_mutex& mutex = *new std::recursive_mutex;
std::condition_variable_any& changed = *new std::condition_variable_any;
std::set<Object*>& live = *new std::set<Object*>;
bool released_to_go = false;
int commands = 0;
size_t dispatches = 0;
thread_local std::vector<std::vector<Object*>> pools;

template <class T> T* as(void* id, const char* use) {
    std::lock_guard lock(mutex);
    auto* object = static_cast<Object*>(id);
    demand(live.count(object) != 0, std::string(use) + ": the object was freed or never was");
    auto* typed = dynamic_cast<T*>(object);
    demand(typed != nullptr, std::string(use) + ": wrong kind of object: " + object->kind);
    return typed;
}

template <class T, class... Args> T* make(Args&&... args) {
    auto* object = new T(std::forward<Args>(args)...);
    std::lock_guard lock(mutex);
    live.insert(object);
    return object;
}
void retain(Object* object) {
    std::lock_guard lock(mutex);
    ++object->references;
}
void release(Object* object) {
    std::lock_guard lock(mutex);
    demand(live.count(object) != 0, "release of an object that was freed");
    if (--object->references > 0) return;
    live.erase(object);
    delete object;
}
template <class T> T* autoreleased(T* object) {
    demand(!pools.empty(), "autorelease without a pool: a leak on a thread of the library's");
    pools.back().push_back(object);
    return object;
}

struct Size {
    unsigned long width, height, depth;
};
struct String : Object {
    explicit String(const char* text) : Object("NSString"), text(text) {}
    std::string text;
};
struct Class : Object {
    explicit Class(const char* name) : Object(std::string("class ") + name), name(name) {}
    std::string name;
};
struct Plain : Object {
    using Object::Object;
};
struct Options : Object {
    Options() : Object("MTLCompileOptions") {}
    bool fast_math = true;
};
struct Buffer : Object {
    Buffer(char* bytes, size_t length) : Object("MTLBuffer"), bytes(bytes), length(length) {}
    char* bytes;
    size_t length;
};
struct Function : Object {
    explicit Function(const MetalKernel& kernel) : Object("MTLFunction"), kernel(kernel) {}
    const MetalKernel& kernel;
};
struct Pipeline : Object {
    explicit Pipeline(const MetalKernel& kernel) : Object("MTLPipeline"), kernel(kernel) {}
    const MetalKernel& kernel;
};
struct Event : Object {
    Event() : Object("MTLSharedEvent") {}
    unsigned long value = 0;
};

// The header of a block, as Metal sees it.
struct Block {
    void* isa;
    int32_t flags, reserved;
    void (*invoke)(void* self, void* argument);
};

struct Dispatch {
    const MetalKernel* kernel;
    Buffer* buffers[3];
    std::vector<char> shape;
    unsigned long threads;
};

struct Command : Object {
    Command() : Object("MTLCommandBuffer") {}
    ~Command() override {
        if (thread.joinable()) thread.detach();
        for (Object* object : kept) release(object);
    }
    void keep(Object* object) {
        retain(object);
        kept.push_back(object);
    }
    std::vector<Object*> kept;  // Metal keeps what an encoded command refers to
    std::vector<Dispatch> work;
    std::vector<Block*> handlers;
    Event* event = nullptr;
    unsigned long event_value = 0;
    bool encoding = false, committed = false;
    unsigned long status = 0;
    std::thread thread;
};
struct Encoder : Object {
    explicit Encoder(Command* command) : Object("MTLComputeCommandEncoder"), command(command) {
        command->encoding = true;
    }
    ~Encoder() override {
        if (!ended) misuse("an encoder was freed before endEncoding");
    }
    Command* command;
    const MetalKernel* kernel = nullptr;
    Buffer* buffers[3] = {};
    std::vector<char> shape;
    bool ended = false;
};

void execute(Command* command) {
    bool fails = mock_faults.execution_fails;
    unsigned delay = 0;
    {
        std::unique_lock lock(mutex);
        int number = commands++;
        fails |= number == mock_faults.failing_command;
        if (mock_faults.delay_us)
            delay = static_cast<unsigned>(number) * 7919 % mock_faults.delay_us;
        changed.wait(lock, [&] {
            bool held = mock_faults.hold && !released_to_go;
            return !held && (!command->event || command->event->value >= command->event_value);
        });
    }
    if (delay) std::this_thread::sleep_for(std::chrono::microseconds(delay));
    for (const Dispatch& d : command->work) {
        if (fails) break;
        for (unsigned long i = d.threads; i-- > 0;)
            d.kernel->thread(d.buffers[0]->bytes, d.buffers[1]->bytes, d.buffers[2]->bytes,
                             d.shape.data(), static_cast<unsigned>(i));
        std::lock_guard lock(mutex);
        ++dispatches;
    }
    command->status = fails ? 5 : 4;
    for (Block* block : command->handlers) {
        block->invoke(block, command);
        demand(block->flags == 1 << 28, "a block went before Metal was done with it");
    }
    release(command);
}

// ---- methods, by "kind selector"

using Method = std::function<void*(Object* self, va_list* args)>;

template <class T> T next(va_list* args) { return va_arg(*args, T); }

void* compile(Object*, va_list* args) {
    auto* source = as<String>(next<void*>(args), "library source");
    auto* options = as<Options>(next<void*>(args), "library options");
    auto** error = next<void**>(args);
    demand(source->text.find("REDUCE_KERNELS(DEFINE_KERNEL)") != std::string::npos,
           "the source is not reduce.metal");
    demand(!options->fast_math, "fast arithmetic is on: sums would not round as the CPU's do");
    if (!mock_faults.library_fails) return make<Plain>("MTLLibrary");
    if (error) *error = autoreleased(make<Plain>("NSError"));
    return nullptr;
}

void* find_function(Object*, va_list* args) {
    auto* name = as<String>(next<void*>(args), "function name");
    for (const MetalKernel& kernel : metal_kernels())
        if (name->text == kernel.name) return make<Function>(kernel);
    return nullptr;
}

void* make_pipeline(Object*, va_list* args) {
    auto* function = as<Function>(next<void*>(args), "pipeline function");
    auto** error = next<void**>(args);
    if (!mock_faults.pipeline_fails) return make<Pipeline>(function->kernel);
    if (error) *error = autoreleased(make<Plain>("NSError"));
    return nullptr;
}

void* wrap_memory(Object*, va_list* args) {
    auto* bytes = next<char*>(args);
    auto length = next<unsigned long>(args);
    auto options = next<unsigned long>(args);
    auto* deallocator = next<void*>(args);
    auto page = static_cast<unsigned long>(getpagesize());
    demand(reinterpret_cast<uintptr_t>(bytes) % page == 0, "a no-copy buffer is not page-aligned");
    demand(length > 0 && length % page == 0, "a no-copy buffer's length is not whole pages");
    demand(options == 0 && !deallocator, "unexpected options of a no-copy buffer");
    if (mock_faults.memory_unreachable) return nullptr;
    return make<Buffer>(bytes, length);
}

void* new_encoder(Object* self, va_list*) {
    auto* command = as<Command>(self, "computeCommandEncoder");
    demand(!command->committed, "an encoder of a committed command buffer");
    demand(!command->encoding, "a second encoder before endEncoding of the first");
    return autoreleased(make<Encoder>(command));
}

void* commit(Object* self, va_list*) {
    auto* command = as<Command>(self, "commit");
    demand(!command->committed, "a second commit");
    demand(!command->encoding, "commit before endEncoding");
    command->committed = true;
    retain(command);
    std::thread(execute, command).detach();
    return nullptr;
}

void* add_handler(Object* self, va_list* args) {
    auto* command = as<Command>(self, "addCompletedHandler:");
    auto* block = next<Block*>(args);
    demand(!command->committed, "a completed handler after commit");
    demand(block->flags == 1 << 28 && block->isa, "a block that would have to be copied");
    command->handlers.push_back(block);
    return nullptr;
}

void* wait_for_event(Object* self, va_list* args) {
    auto* command = as<Command>(self, "encodeWaitForEvent:value:");
    demand(!command->encoding && !command->committed, "an event inside an encoder");
    command->event = as<Event>(next<void*>(args), "shared event");
    command->event_value = next<unsigned long>(args);
    command->keep(command->event);
    return nullptr;
}

Encoder* open_encoder(Object* self) {
    auto* encoder = as<Encoder>(self, "encoder");
    demand(!encoder->ended, "encoding after endEncoding");
    return encoder;
}

void* set_buffer(Object* self, va_list* args) {
    Encoder* encoder = open_encoder(self);
    auto* buffer = as<Buffer>(next<void*>(args), "setBuffer");
    auto offset = next<unsigned long>(args), index = next<unsigned long>(args);
    demand(index < 3, "setBuffer: an argument that the kernels do not have");
    demand(offset % 4 == 0 && offset < buffer->length, "setBuffer: a bad offset");
    encoder->buffers[index] = buffer;
    encoder->command->keep(buffer);
    return nullptr;
}

void* set_bytes(Object* self, va_list* args) {
    Encoder* encoder = open_encoder(self);
    auto* bytes = next<const char*>(args);
    auto length = next<unsigned long>(args), index = next<unsigned long>(args);
    demand(index == 3 && length == 40, "setBytes: not a ReduceShape");
    encoder->shape.assign(bytes, bytes + length);
    return nullptr;
}

void* dispatch(Object* self, va_list* args) {
    Encoder* encoder = open_encoder(self);
    Size grid = next<Size>(args), group = next<Size>(args);
    demand(encoder->kernel != nullptr, "dispatch without a pipeline");
    for (Buffer* buffer : encoder->buffers) demand(buffer, "dispatch without a buffer");
    demand(!encoder->shape.empty(), "dispatch without a ReduceShape");
    demand(group.width > 0 && group.width <= 1024 && group.height == 1 && group.depth == 1 &&
               grid.width > 0 && grid.height == 1 && grid.depth == 1,
           "a bad grid");
    uint64_t starts[3];
    uint32_t count;
    std::memcpy(starts, encoder->shape.data(), sizeof starts);
    std::memcpy(&count, encoder->shape.data() + sizeof starts, sizeof count);
    for (int i = 0; i < 3; ++i)
        demand((starts[i] + count) * encoder->kernel->element_size <= encoder->buffers[i]->length,
               "an array reaches beyond its buffer");
    Dispatch d{encoder->kernel, {}, encoder->shape, grid.width};
    std::copy(encoder->buffers, encoder->buffers + 3, d.buffers);
    encoder->command->work.push_back(d);
    return nullptr;
}

void* end_encoding(Object* self, va_list*) {
    Encoder* encoder = open_encoder(self);
    encoder->ended = true;
    encoder->command->encoding = false;
    return nullptr;
}

void* set_pipeline(Object* self, va_list* args) {
    auto* pipeline = as<Pipeline>(next<void*>(args), "setComputePipelineState");
    open_encoder(self)->kernel = &pipeline->kernel;
    return nullptr;
}

void* number(unsigned long value) { return reinterpret_cast<void*>(value); }

const std::map<std::string, Method>& methods() {
    static const auto& table = *new std::map<std::string, Method>{
        {"class NSString stringWithUTF8String:",
         [](Object*, va_list* a) { return autoreleased(make<String>(next<const char*>(a))); }},
        {"class MTLCompileOptions alloc", [](Object*, va_list*) { return make<Options>(); }},
        {"MTLCompileOptions init", [](Object* self, va_list*) { return self; }},
        {"MTLCompileOptions setFastMathEnabled:",
         [](Object* self, va_list* a) {
             as<Options>(self, "options")->fast_math = next<int>(a) & 0xff;
             return nullptr;
         }},
        {"NSString UTF8String",
         [](Object* self, va_list*) { return as<String>(self, "text")->text.data(); }},
        {"NSError localizedDescription",
         [](Object*, va_list*) { return autoreleased(make<String>("injected fault")); }},
        {"MTLDevice name",
         [](Object*, va_list*) { return autoreleased(make<String>("Mock GPU")); }},
        {"MTLDevice newCommandQueue",
         [](Object*, va_list*) { return make<Plain>("MTLCommandQueue"); }},
        {"MTLDevice newLibraryWithSource:options:error:", compile},
        {"MTLDevice newComputePipelineStateWithFunction:error:", make_pipeline},
        {"MTLDevice newBufferWithBytesNoCopy:length:options:deallocator:", wrap_memory},
        {"MTLLibrary newFunctionWithName:", find_function},
        {"MTLPipeline maxTotalThreadsPerThreadgroup",
         [](Object*, va_list*) { return number(1024); }},
        {"MTLCommandQueue commandBuffer",
         [](Object*, va_list*) { return autoreleased(make<Command>()); }},
        {"MTLCommandBuffer computeCommandEncoder", new_encoder},
        {"MTLCommandBuffer encodeWaitForEvent:value:", wait_for_event},
        {"MTLCommandBuffer addCompletedHandler:", add_handler},
        {"MTLCommandBuffer commit", commit},
        {"MTLCommandBuffer status",
         [](Object* self, va_list*) { return number(as<Command>(self, "status")->status); }},
        {"MTLCommandBuffer error",
         [](Object*, va_list*) { return autoreleased(make<Plain>("NSError")); }},
        {"MTLComputeCommandEncoder setComputePipelineState:", set_pipeline},
        {"MTLComputeCommandEncoder setBuffer:offset:atIndex:", set_buffer},
        {"MTLComputeCommandEncoder setBytes:length:atIndex:", set_bytes},
        {"MTLComputeCommandEncoder dispatchThreads:threadsPerThreadgroup:", dispatch},
        {"MTLComputeCommandEncoder endEncoding", end_encoding},
    };
    return table;
}

}  // namespace

MockFaults mock_faults;

void mock_reset() {
    std::lock_guard lock(mutex);
    mock_faults = {};
    released_to_go = false;
    dispatches = 0;
    commands = 0;
}
void mock_let_go() {
    std::lock_guard lock(mutex);
    released_to_go = true;
    changed.notify_all();
}
// Classes are no instances: they stay.
size_t mock_live_objects() {
    std::lock_guard lock(mutex);
    size_t count = 0;
    for (Object* object : live) count += !dynamic_cast<Class*>(object);
    return count;
}
size_t mock_dispatches() {
    std::lock_guard lock(mutex);
    return dispatches;
}
void* mock_new_event() { return static_cast<Object*>(make<Event>()); }
void mock_signal_event(void* event, unsigned long value) {
    std::lock_guard lock(mutex);
    as<Event>(event, "signal")->value = value;
    changed.notify_all();
}

extern "C" {

void* _NSConcreteGlobalBlock[32];

void* MTLCreateSystemDefaultDevice(void) {
    if (mock_faults.no_device) return nullptr;
    return static_cast<Object*>(make<Plain>("MTLDevice"));
}

void* objc_getClass(const char* name) {
    static auto& classes = *new std::map<std::string, Class*>;
    std::lock_guard lock(mutex);
    Class*& found = classes[name];
    if (!found) found = make<Class>(name);
    return static_cast<Object*>(found);
}

void* sel_registerName(const char* name) {
    static auto& names = *new std::set<std::string>;
    std::lock_guard lock(mutex);
    return const_cast<char*>(names.insert(name).first->c_str());
}

void* objc_autoreleasePoolPush(void) {
    pools.emplace_back();
    return reinterpret_cast<void*>(pools.size());
}
void objc_autoreleasePoolPop(void* pool) {
    demand(reinterpret_cast<size_t>(pool) == pools.size(), "pools are popped out of order");
    std::vector<Object*> objects = std::move(pools.back());
    pools.pop_back();
    for (Object* object : objects) release(object);
}

// Called through casts to the methods' types: on the ABIs of x86-64 and aarch64 a variadic
// function finds integers, pointers and structs there where a plain one would.
void* objc_msgSend(void* receiver, void* selector, ...) {
    if (!receiver) return nullptr;
    const char* name = static_cast<const char*>(selector);
    auto* self = as<Object>(receiver, name);
    if (!std::strcmp(name, "release")) return release(self), nullptr;
    if (!std::strcmp(name, "retain")) return retain(self), receiver;
    auto found = methods().find(self->kind + " " + name);
    demand(found != methods().end(), "unrecognized selector " + self->kind + " " + name);
    va_list args;
    va_start(args, selector);
    void* result = found->second(self, &args);
    va_end(args);
    return result;
}

}  // extern "C"
