// mpi/rma/origin.cc: MPI_Put, MPI_Get, MPI_Accumulate and relatives where they are called.
// Idea: the target's datatype becomes a list of blocks; memory that is mapped here is used at once,
// other memory by commands of at most kRmaBlocksMax blocks. Data that is one block on both sides
// goes whole and uncopied; the rest is cut into chunks, so that nobody needs a copy of it all.
#include "mpi/check/checker.h"
#include "mpi/rma/blocks.h"
#include "mpi/rma/window.h"
#include "mpi/runtime/process.h"

#include <algorithm>

namespace pomona {

enum : int { kCommandTag = 0, kDataTag = 1, kFirstReplyTag = 2 };

// Of memory that the system reads and writes: all runs from so many bytes on, else the first since
// the last flush.
static constexpr size_t kReachedAlways = 4096;
static constexpr size_t kPendingMost = 16384;  // operations under way; then callers wait

// ---- requests

void RmaRequest::recycle() {
    Engine::Hold hold(comm_->process.engine);
    delete this;
}

void RmaRequest::part_over(Engine& engine, int error) {
    if (error != MPI_SUCCESS) {
        outcome_.error = error;
        outcome_.reason = "The target has ended";
    }
    if (--parts_ == 0) engine.complete(*this);
}

int RmaRequest::finish(MPI_Status* status) {
    if (__builtin_expect(memory_use_ != 0, 0)) {
        Process& process = comm_->process;
        Engine::Hold hold(process.engine);
        process.checker->release(std::exchange(memory_use_, 0));
    }
    return Request::finish(status);
}

// ---- one access

// What an accumulation computes on; null for put and get, and for types that are only moved.
static void describe_element(const RmaAccess& access, RmaCommand& command) {
    if (access.kind == RmaKind::put || access.kind == RmaKind::get) return;
    const Datatype& basic = *access.type->uniform();
    command.unit = static_cast<uint32_t>(basic.size());
    command.unit_true = command.unit;
    if (!basic.element()) return;
    command.element = static_cast<uint8_t>(*basic.element());
    if (basic.contiguous()) return;
    command.unit = static_cast<uint32_t>(basic.extent());
    command.unit_true = static_cast<uint32_t>(basic.true_extent());
}

static bool gapped(const RmaCommand& command) { return command.unit != command.unit_true; }

// The one run of bytes that user data is, or null.
static std::byte* run_of(const Data& data) {
    if (!data.type->contiguous(data.count)) return nullptr;
    return static_cast<std::byte*>(data.buffer) + data.type->true_lb();
}

// Most short ones are numbers of 8 bytes.
static inline void copy_run(std::byte* to, const std::byte* from, size_t bytes) {
    if (bytes == 8) std::memcpy(to, from, 8);
    else std::memcpy(to, from, bytes);
}

// One run of bytes here and there, in memory that is mapped here: the whole of most accesses within
// a machine. False: it takes more, and nothing has happened.
inline bool Window::access_run(const RmaAccess& access) {
    const Part& there = part(access.target);
    bool moves = access.kind == RmaKind::get || access.kind == RmaKind::put;
    if ((!there.direct && !(there.address && moves)) || access.request ||
        access.kind == RmaKind::compare_swap || flavor_ == MPI_WIN_FLAVOR_DYNAMIC ||
        !access.type->contiguous(access.count))
        return false;
    auto bytes = static_cast<size_t>(access.count * access.type->size());
    uint64_t offset = 0;
    bool fits = there.place(access.displacement, offset);
    offset += static_cast<uint64_t>(access.type->true_lb());
    auto size = static_cast<uint64_t>(there.size);
    if (!fits || bytes == 0 || offset > size || bytes > size - offset) return false;
    if (!there.direct) return reach(access, offset, bytes);
    std::byte* place = there.direct + offset;
    bool in = access.kind != RmaKind::get && access.op != ReduceOp::no_op;
    bool out = access.kind != RmaKind::put && access.kind != RmaKind::accumulate;
    std::byte* from = in ? run_of(access.origin) : nullptr;
    std::byte* to = out ? run_of(access.result) : nullptr;
    if ((in && !from) || (out && !to)) return false;
    stored_ = stored_ || access.kind != RmaKind::get;
    if (access.kind == RmaKind::put) return copy_run(place, from, bytes), true;
    if (access.kind == RmaKind::get) return copy_run(to, place, bytes), true;
    return update_run(access, place, bytes, from, to);
}

// MPI_Get and MPI_Put by the system, where it lets this process reach the target's memory: the
// target need not be in MPI.
bool Window::reach(const RmaAccess& access, uint64_t offset, size_t bytes) {
    // Many short ones are quicker by messages, which wait for each other's answers no more than one
    // waits for its own.
    if (bytes < kReachedAlways && std::exchange(reached_, true)) return false;
    std::byte* here = run_of(access.kind == RmaKind::get ? access.result : access.origin);
    if (!here) return false;
    uint64_t there = part(access.target).address + offset;
    Engine::Hold hold(engine());
    Endpoint* endpoint = comm_->peers[static_cast<size_t>(access.target)]->endpoint;
    if (!endpoint || !endpoint->pulls()) return false;
    return access.kind == RmaKind::get ? endpoint->pull(there, {here, bytes})
                                       : endpoint->put(there, {here, bytes});
}

static bool apart(const void* one, const void* other, size_t bytes) {
    auto a = reinterpret_cast<uintptr_t>(one), b = reinterpret_cast<uintptr_t>(other);
    return a + bytes <= b || b + bytes <= a;
}

// Does what is atomic. Of a shared window everybody works directly; of any other only this process,
// and agent.cc with the engine held.
template <class Change> inline bool Window::update(int target, Change change) {
    Engine::Hold hold(engine());
    SharedLock* lock = shared_ ? shared_lock(target) : nullptr;
    if (lock && !lock->take_at_once(comm_->rank())) take(*lock);
    change();
    if (lock) lock->give();
    return stored_ = true;
}

// The same of accumulations, which are atomic for each element.
bool Window::update_run(const RmaAccess& access, std::byte* place, size_t bytes,
                        const std::byte* from, std::byte* to) {
    // In its own window a program may well give memory as origin that it changes.
    auto is_apart = [&](const std::byte* other) { return !other || apart(other, place, bytes); };
    const Datatype& basic = *access.type->uniform();
    if (!basic.contiguous() || !is_apart(from) || !is_apart(to)) return false;
    if (from && to && !apart(from, to, bytes)) return false;
    bool moves = access.op == ReduceOp::replace || access.op == ReduceOp::no_op;
    const ReduceKernel* kernel = moves ? nullptr : find_kernel(access.op, *basic.element());
    return update(access.target, [&] {
        if (to) copy_run(to, place, bytes);
        if (kernel) kernel->into(place, from, bytes / static_cast<size_t>(basic.size()));
        else if (access.op == ReduceOp::replace) std::memcpy(place, from, bytes);
    });
}

// Where it is, if it can be worked on at once; else null.
inline std::byte* Window::place_of(const Element& element) const {
    if (check || !element.type || !element.type->predefined() || !element.type->element() ||
        !element.type->contiguous() || element.target < 0 || element.target >= comm_->size() ||
        element.displacement < 0 || element.count <= 0 || flavor_ == MPI_WIN_FLAVOR_DYNAMIC ||
        !may_access(element.target))
        return nullptr;
    const Part& there = part(element.target);
    uint64_t offset = 0;
    bool fits = there.place(element.displacement, offset);
    auto size = static_cast<uint64_t>(there.size), count = static_cast<uint64_t>(element.count);
    // An element has a byte at least: a count that fits keeps the product from wrapping around.
    bool inside = fits && count <= size && offset <= size &&
                  count * static_cast<uint64_t>(element.type->size()) <= size - offset;
    return there.direct && inside ? there.direct + offset : nullptr;
}

bool Window::put_at_once(const Element& elements, const void* origin) {
    std::byte* place = place_of(elements);
    if (!place || !origin || origin == MPI_IN_PLACE || !elements.type->plain) return false;
    copy_run(place, static_cast<const std::byte*>(origin),
             static_cast<size_t>(elements.count * elements.type->size()));
    return stored_ = true;
}

bool Window::get_at_once(const Element& elements, void* result) {
    std::byte* place = place_of(elements);
    if (!place || !result || result == MPI_IN_PLACE || !elements.type->plain) return false;
    copy_run(static_cast<std::byte*>(result), place,
             static_cast<size_t>(elements.count * elements.type->size()));
    return true;
}

bool Window::add_at_once(const Element& elements, const pomona::Operation* operation,
                         const void* origin) {
    std::byte* place = place_of(elements);
    if (!place || !operation || !origin || origin == MPI_IN_PLACE) return false;
    auto bytes = static_cast<size_t>(elements.count * elements.type->size());
    const ReduceKernel* kernel = operation->kernel(*elements.type);
    if (!kernel || !apart(origin, place, bytes)) return false;
    return update(elements.target,
                  [&] { kernel->into(place, origin, static_cast<size_t>(elements.count)); });
}

bool Window::fetch_at_once(const Element& element, const pomona::Operation* operation,
                           const void* origin, void* result) {
    std::byte* place = place_of(element);
    if (!place || !operation || !operation->op() || !result) return false;
    auto bytes = static_cast<size_t>(element.type->size());
    if (!apart(result, place, bytes)) return false;
    auto* to = static_cast<std::byte*>(result);
    ReduceOp op = *operation->op();
    if (op == ReduceOp::no_op) return update(element.target, [&] { copy_run(to, place, bytes); });
    if (!origin || !apart(origin, place, bytes) || !apart(origin, result, bytes)) return false;
    if (op == ReduceOp::sum && bytes == 8 &&
        type_family(*element.type->element()) == TypeFamily::integer)  // counters, most of all
        return update(element.target, [&] {
            copy_run(to, place, 8);
            uint64_t sum, add;
            std::memcpy(&sum, place, 8), std::memcpy(&add, origin, 8);
            sum += add;
            std::memcpy(place, &sum, 8);
        });
    const ReduceKernel* kernel = operation->kernel(*element.type);
    if (!kernel && op != ReduceOp::replace) return false;
    return update(element.target, [&] {
        copy_run(to, place, bytes);
        if (kernel) kernel->into(place, origin, 1);
        else copy_run(place, static_cast<const std::byte*>(origin), bytes);
    });
}

bool Window::swap_at_once(const Element& element, const void* origin, const void* compare,
                          void* result) {
    std::byte* place = place_of(element);
    if (!place || !origin || !compare || !result || !comparable(*element.type)) return false;
    auto bytes = static_cast<size_t>(element.type->size());
    for (const void* other : {origin, compare, static_cast<const void*>(place)})
        if (!apart(result, other, bytes)) return false;
    if (!apart(origin, place, bytes) || !apart(compare, place, bytes)) return false;
    return update(element.target, [&] {
        copy_run(static_cast<std::byte*>(result), place, bytes);
        if (std::memcmp(place, compare, bytes) == 0)
            copy_run(place, static_cast<const std::byte*>(origin), bytes);
    });
}

void Window::take(SharedLock& lock) {
    lock.take(comm_->rank(), [this](int member) { return process_has_ended(member); });
}

RmaError Window::access(const RmaAccess& access) {
    if (!may_access(access.target))
        return {MPI_ERR_RMA_SYNC,
                "no epoch is open to the target: call MPI_Win_fence, MPI_Win_lock "
                "or MPI_Win_start first"};
    if (__builtin_expect(access_run(access), 1)) return {};
    constexpr RmaError too_far{MPI_ERR_RMA_RANGE, "the target's memory does not reach that far"};
    RmaCommand command;
    command.kind = access.kind;
    command.op = access.op;
    // What is empty may be of any type, also of one without elements.
    bool empty = access.count == 0 || access.type->size() == 0;
    if (!empty) describe_element(access, command);
    bool dynamic = flavor_ == MPI_WIN_FLAVOR_DYNAMIC;
    auto base = static_cast<uint64_t>(access.displacement);
    if (!dynamic && !part(access.target).place(access.displacement, base) && !empty) return too_far;
    std::vector<RmaBlock> blocks;
    if (gapped(command))
        flatten_gapped(*access.type, access.count, *access.type->uniform(), base, blocks);
    else if (!empty) flatten(*access.type, access.count, base, blocks);
    Engine& here = engine();
    if (!blocks.empty()) {
        if (!in_range(access, command, blocks)) return too_far;
        if (access.target == comm_->rank() || part(access.target).direct)
            run_direct(access, command, blocks);
        else run_remote(access, command, blocks);
    }
    if (access.request) {
        Engine::Hold hold(here);
        here.hold_for_engine(*access.request);
        access.request->part_over(here, MPI_SUCCESS);
    }
    return {};
}

// Of dynamic windows only the target knows, unless that is this process.
bool Window::in_range(const RmaAccess& access, const RmaCommand& command,
                      const std::vector<RmaBlock>& blocks) {
    if (flavor_ == MPI_WIN_FLAVOR_DYNAMIC) {
        if (access.target != comm_->rank()) return true;
        Engine::Hold hold(engine());
        return std::all_of(blocks.begin(), blocks.end(),
                           [&](const RmaBlock& each) { return locate(command, each); });
    }
    auto size = static_cast<uint64_t>(part(access.target).size);
    return std::all_of(blocks.begin(), blocks.end(), [&](const RmaBlock& each) {
        uint64_t length = each.length - (command.unit - command.unit_true);
        return each.offset <= size && length <= size - each.offset;
    });
}

// ---- data between user buffers and streams. Streams of gapped elements are laid out in extents.

static void load(const RmaAccess& access, const RmaCommand& command, size_t offset, Bytes out) {
    if (!gapped(command))
        return access.origin.type->pack(access.origin.buffer, access.origin.count, offset, out);
    const Datatype& basic = *access.type->uniform();
    size_t count = out.size() / command.unit;
    std::vector<std::byte> packed(count * static_cast<size_t>(basic.size()));
    access.origin.type->pack(access.origin.buffer, access.origin.count,
                             offset / command.unit * static_cast<size_t>(basic.size()), packed);
    std::fill(out.begin(), out.end(), std::byte{});
    basic.unpack(out.data(), static_cast<MPI_Count>(count), 0, packed);
}

static void store(const Data& result, const Datatype* gapped_basic, size_t offset, ConstBytes in) {
    if (!gapped_basic) return result.type->unpack(result.buffer, result.count, offset, in);
    auto extent = static_cast<size_t>(gapped_basic->extent());
    auto size = static_cast<size_t>(gapped_basic->size());
    size_t count = in.size() / extent;
    std::vector<std::byte> packed(count * size);
    gapped_basic->pack(in.data(), static_cast<MPI_Count>(count), 0, packed);
    result.type->unpack(result.buffer, result.count, offset / extent * size, packed);
}

// All data of a compare-and-swap: two elements.
static std::vector<std::byte> swap_data(const RmaAccess& access, size_t unit) {
    std::vector<std::byte> data(2 * unit);
    std::memcpy(data.data(), access.compare, unit);
    std::memcpy(data.data() + unit, access.origin.buffer, unit);
    return data;
}

// ---- directly

void Window::run_direct(const RmaAccess& access, const RmaCommand& command,
                        const std::vector<RmaBlock>& blocks) {
    bool dynamic = flavor_ == MPI_WIN_FLAVOR_DYNAMIC;
    std::byte* memory = dynamic ? nullptr : part(access.target).direct;
    auto at = [&](const RmaBlock& block) {
        return dynamic ? reinterpret_cast<std::byte*>(static_cast<uintptr_t>(block.offset))
                       : memory + block.offset;
    };
    size_t offset = 0;
    stored_ = stored_ || access.kind != RmaKind::get;
    if (access.kind == RmaKind::put || access.kind == RmaKind::get) {
        for (const RmaBlock& block : blocks) {
            Bytes place{at(block), block.length};
            if (access.kind == RmaKind::put) load(access, command, offset, place);
            else store(access.result, nullptr, offset, place);
            offset += block.length;
        }
        return;
    }
    size_t bytes = 0;
    for (const RmaBlock& block : blocks) bytes += block.length;
    std::vector<std::byte> data, old;
    if (access.kind == RmaKind::compare_swap) {
        data = swap_data(access, command.unit);
    } else if (access.op != ReduceOp::no_op) {
        data.resize(bytes);
        load(access, command, 0, data);
    }
    if (access.kind != RmaKind::accumulate) old.resize(bytes);
    {
        // Of a shared window everybody works directly; of any other only this process, and agent.cc
        // with the engine held.
        Engine::Hold hold(engine());
        SharedLock* lock = shared_ ? shared_lock(access.target) : nullptr;
        if (lock) take(*lock);
        for (const RmaBlock& block : blocks) {
            apply_command(command, at(block), block.length,
                          data.empty() ? nullptr : data.data() + offset,
                          old.empty() ? nullptr : old.data() + offset);
            offset += block.length;
        }
        if (lock) lock->give();
    }
    if (!old.empty())
        store(access.result, gapped(command) ? access.type->uniform() : nullptr, 0, old);
}

// ---- by commands

void Window::run_remote(const RmaAccess& access, RmaCommand& command,
                        const std::vector<RmaBlock>& blocks) {
    if (pending_ > kPendingMost)
        engine().wait_until(Described{[&] { return pending_ <= kPendingMost / 2; },
                                      [&](Waiting& out) {
                                          describe(out, Need::answer, [&](int rank) {
                                              return target(rank).pending > 0;
                                          });
                                      }});
    const Data& user = access.kind == RmaKind::get ? access.result : access.origin;
    bool whole = blocks.size() == 1 && command.unit == 1 &&
                 (access.kind == RmaKind::put || access.kind == RmaKind::get) &&
                 user.type->contiguous(user.count);
    size_t chunk_max = whole ? blocks[0].length : kRmaChunkBytes / command.unit * command.unit;
    size_t offset = 0;  // of the chunk, in the stream
    auto flush_chunk = [&] {
        if (command.blocks.empty()) return;
        send_chunk(access, command, offset);
        offset += command.bytes;
        command.blocks.clear();
        command.bytes = 0;
    };
    for (RmaBlock block : blocks) {
        while (block.length > 0) {
            uint64_t length = std::min<uint64_t>(block.length, chunk_max - command.bytes);
            command.blocks.push_back({block.offset, length});
            command.bytes += length;
            block.offset += length;
            block.length -= length;
            if (command.bytes == chunk_max || command.blocks.size() == kRmaBlocksMax) flush_chunk();
        }
    }
    flush_chunk();
}

void Window::send_chunk(const RmaAccess& access, RmaCommand& command, size_t offset) {
    size_t length = command.data_bytes();
    command.short_data = length > 0 && command.head_bytes() + length <= kRmaCommandMax;
    Engine::Hold hold(engine());
    Operation& operation = *take_operation(access.target, access.request);
    const Datatype* basic = gapped(command) ? access.type->uniform() : nullptr;
    operation.message.resize(command.head_bytes() + (command.short_data ? length : 0));
    ConstBytes long_data;
    if (access.kind == RmaKind::compare_swap) {
        auto data = swap_data(access, command.unit);
        std::memcpy(operation.message.data() + command.head_bytes(), data.data(), data.size());
    } else if (command.short_data) {
        load(access, command, offset, Bytes(operation.message).subspan(command.head_bytes()));
    } else if (length > 0 && !basic && access.origin.type->contiguous(access.origin.count)) {
        const auto* from = static_cast<const std::byte*>(access.origin.buffer);
        long_data = {from + access.origin.type->true_lb() + offset, length};
    } else if (length > 0) {
        operation.staged.resize(length);
        load(access, command, offset, operation.staged);
        long_data = operation.staged;
    }
    Bytes answer;
    if (size_t expected = command.reply_bytes()) {
        const Data& result = access.result;
        if (!basic && result.type->contiguous(result.count)) {
            auto* to = static_cast<std::byte*>(result.buffer);
            answer = {to + result.type->true_lb() + offset, expected};
        } else {
            operation.answer.resize(expected);
            operation.type = Ref<Datatype>::share(const_cast<Datatype*>(result.type));
            operation.result = result;
            operation.offset = offset;
            operation.gapped = basic;
            answer = operation.answer;
        }
    }
    // An answer tells that the operation is over; of a dynamic window not that it was in range.
    if (answer.empty() || flavor_ == MPI_WIN_FLAVOR_DYNAMIC)
        targets_[static_cast<size_t>(access.target)].dirty = true;
    launch(operation, command, long_data, answer);
}

// A synchronisation command; with the engine held.
void Window::order(RmaKind kind, int target, bool exclusive) {
    Operation& operation = *take_operation(target, nullptr);
    RmaCommand command;
    command.kind = kind;
    command.exclusive = exclusive;
    operation.message.resize(command.head_bytes());
    Bytes answer;
    if (command.reply_bytes())
        answer = {reinterpret_cast<std::byte*>(&operation.status), sizeof operation.status};
    launch(operation, command, {}, answer);
}

void Window::ask_who_has_lock(int target) {
    Operation& operation = *take_operation(target, nullptr);
    operation.asked = RealClock().now();
    targets_[static_cast<size_t>(target)].asks = true;
    RmaCommand command;
    command.kind = RmaKind::holders;
    operation.message.resize(command.head_bytes());
    operation.answer.resize(command.reply_bytes());
    launch(operation, command, {}, operation.answer);
}

void Window::keep_answer(Operation& operation) {
    Target& target = targets_[static_cast<size_t>(operation.target)];
    target.asks = false;
    target.known = operation.failed ? 0 : operation.asked;
    std::memcpy(&target.queue, operation.answer.data(), sizeof target.queue);
    operation.asked = 0;
}

Window::Operation* Window::take_operation(int target, RmaRequest* request) {
    Operation* operation;
    if (idle_operations_.empty()) {
        operation = new Operation;
        for (Leg* leg : {&operation->command, &operation->data, &operation->reply}) {
            leg->function = leg_over;
            leg->operation = operation;
        }
        operation->window = this;
    } else {
        operation = idle_operations_.back();
        idle_operations_.pop_back();
    }
    operation->target = target;
    operation->request = request;
    if (request) request->add_part();
    ++pending_;
    ++targets_[static_cast<size_t>(target)].pending;
    return operation;
}

// The answer is expected before the question is asked; the last leg may end within this call.
void Window::launch(Operation& operation, RmaCommand& command, ConstBytes long_data, Bytes answer) {
    Peer& peer = *comm_->peers[static_cast<size_t>(operation.target)];
    operation.legs = 2 + !long_data.empty() + !answer.empty();  // one is this call's own
    if (!answer.empty()) {
        command.reply_tag = next_reply_;
        next_reply_ = next_reply_ == INT32_MAX ? int{kFirstReplyTag} : next_reply_ + 1;
        engine().recv_step(peer, comm_->context(), operation.target, command.reply_tag, answer,
                           operation.reply);
    }
    write_command(command, operation.message.data());
    engine().send_step(peer, comm_->context(), comm_->rank(), kCommandTag, operation.message,
                       operation.command);
    if (!long_data.empty())
        engine().send_step(peer, comm_->context(), comm_->rank(), kDataTag, long_data,
                           operation.data);
    if (--operation.legs == 0) operation_over(operation);
}

void Window::leg_over(coll::Completion* self, const Error* error) {
    Operation& operation = *static_cast<Leg*>(self)->operation;
    if (error) operation.failed = true;
    if (--operation.legs == 0) operation.window->operation_over(operation);
}

void Window::operation_over(Operation& operation) {
    if (operation.failed) error_ = {MPIX_ERR_PROC_FAILED, "the target has ended"};
    else if (operation.status != 0)
        error_ = {MPI_ERR_RMA_RANGE, "an earlier operation reached outside the target's memory"};
    if (operation.type && !operation.failed)
        store(operation.result, operation.gapped, operation.offset, operation.answer);
    if (operation.asked) keep_answer(operation);
    if (operation.request)
        operation.request->part_over(engine(),
                                     operation.failed ? MPIX_ERR_PROC_FAILED : MPI_SUCCESS);
    Target& target = targets_[static_cast<size_t>(operation.target)];
    --pending_;
    if (--target.pending == 0 || pending_ == kPendingMost / 2) engine().notify();
    operation.type = {};
    operation.gapped = nullptr;
    operation.status = 0;
    operation.failed = false;
    if (idle_operations_.size() >= 256) {
        delete &operation;
        return;
    }
    if (operation.staged.capacity() > kRmaCommandMax) operation.staged = {};
    if (operation.answer.capacity() > kRmaCommandMax) operation.answer = {};
    idle_operations_.push_back(&operation);
}

}  // namespace pomona
