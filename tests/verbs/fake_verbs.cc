// tests/verbs/fake_verbs.cc: a verbs library without devices: libibverbs' functions over shared
// memory.
// Goal: what runs over it keeps to Apple's limits, and survives what cables and drivers do. Every
// limit of btl/rdma/limits.h is enforced, per device and over all processes, with the errno that
// the real one gives where that is known; fabric.h tells the faults. POMONA_TEST_FABRIC is the
// folder with `cables`; POMONA_TEST_MACHINE says which machine's devices this process sees; without
// it, those of all machines, named MACHINE.DEVICE.
#include "tests/verbs/fake_verbs.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace fake {

using namespace pomona::rdma;
using namespace verbs;

Fabric* fabric = nullptr;
// Never destroyed: exit handlers of programs may use MPI, and thus this library, later.
std::string& directory = *new std::string;
static std::mutex& global = *new std::mutex;
static auto& listed = *new std::vector<std::unique_ptr<ListedDevice>>;  // handles stay valid
static std::atomic<int> open_devices{0};
static std::byte* wires[kDevicesMost];

std::byte* map_wires(int device) {
    std::lock_guard guard(global);
    if (wires[device]) return wires[device];
    size_t rings = 2 * static_cast<size_t>(kLimits.queue_pairs);
    std::string path = directory + "/wires-" + std::to_string(device);
    int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) return nullptr;
    if (ftruncate(file, static_cast<off_t>(rings * kRing)) != 0) return close(file), nullptr;
    void* all = mmap(nullptr, rings * 2 * kRing, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) return close(file), nullptr;
    auto* base = static_cast<std::byte*>(all);
    for (size_t i = 0; i < 2 * rings; ++i)
        mmap(base + i * kRing, kRing, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
             static_cast<off_t>(i / 2 * kRing));
    close(file);
    return wires[device] = base;
}

static bool open_once() {
    std::lock_guard guard(global);
    if (fabric) return true;
    const char* folder = std::getenv("POMONA_TEST_FABRIC");
    std::string why = "POMONA_TEST_FABRIC is not set";
    if (folder) {
        directory = folder;
        fabric = open_fabric(directory, why);
    }
    if (!fabric) std::fprintf(stderr, "fake verbs: %s\n", why.c_str());
    return fabric != nullptr;
}

// A place in a table of owners, of those that the dead have left too; -1: there is none.
template <class Owner> static int claim(int places, Owner owner_at) {
    for (int i = 0; i < places; ++i) {
        std::atomic<int32_t>& owner = owner_at(i);
        int32_t there = owner;
        if (there != 0 && (kill(there, 0) == 0 || errno != ESRCH)) continue;
        if (owner.compare_exchange_strong(there, getpid())) return i;
    }
    return -1;
}

static bool is_here(const DeviceState& device) {
    const char* machine = std::getenv("POMONA_TEST_MACHINE");
    return !machine || device.machine == std::atoi(machine);
}

static Device** list_devices(int* number) {
    if (!open_once()) return errno = ENOSYS, nullptr;
    const char* machine = std::getenv("POMONA_TEST_MACHINE");
    std::vector<Device*> found;
    for (int i = 0; i < fabric->devices; ++i) {
        const DeviceState& device = fabric->device[i];
        if (device.lost || !is_here(device)) continue;
        std::string name = machine ? "" : std::to_string(device.machine) + ".";
        auto made = std::make_unique<ListedDevice>();
        made->number = i;
        std::strncpy(made->handle.name, (name + device.name).c_str(), 63);
        found.push_back(&made->handle);
        std::lock_guard guard(global);
        listed.push_back(std::move(made));
    }
    auto** out = static_cast<Device**>(std::calloc(found.size() + 1, sizeof(Device*)));
    std::copy(found.begin(), found.end(), out);
    if (number) *number = static_cast<int>(found.size());
    return out;
}

static verbs::Context* open_device(Device* handle) {
    int number = reinterpret_cast<ListedDevice*>(handle)->number;
    DeviceState& device = fabric->device[number];
    if (device.lost) return errno = ENODEV, nullptr;
    std::byte* own = map_wires(number);
    if (!own) return nullptr;
    auto* made = new Context;
    ++open_devices;
    made->device = &device;
    made->number = number;
    made->wires = own;
    made->engine = device.engine;
    made->random.seed(static_cast<unsigned>(getpid() * 31 + number));
    made->handle.device = handle;
    made->handle.ops.poll_cq = poll;
    made->handle.ops.post_send = post_send;
    made->handle.ops.post_recv = post_receive;
    made->handle.cmd_fd = made->handle.async_fd = -1;
    return &made->handle;
}

static int query_port(verbs::Context* handle, PortAttr* out) {
    DeviceState& device = *context_of(handle).device;
    if (device.lost) return EIO;
    out->state = device.port_up ? kPortActive : kPortDown;
    out->max_mtu = out->active_mtu = kMtu4096;
    out->gid_tbl_len = kGids;
    out->max_msg_sz = kLimits.message_most;
    return 0;
}

static Mr* register_memory(verbs::Pd* pd, void* address, size_t length, int access) {
    Context& context = context_of(pd->context);
    std::lock_guard guard(context.mutex);
    auto begin = reinterpret_cast<uint64_t>(address);
    auto refuse = [](int why) -> Mr* { return errno = why, nullptr; };
    if (context.device->lost) return refuse(EIO);
    if (!context.device->regions) return refuse(EPERM);
    if (length == 0 || begin % kLimits.page != 0 || length % kLimits.page != 0)
        return refuse(EINVAL);
    if (begin / kLimits.region_boundary != (begin + length - 1) / kLimits.region_boundary)
        return refuse(EINVAL);
    if (!(access & kLocalWrite) || (access & ~(kLocalWrite | kRemoteWrite | kRemoteRead)))
        return refuse(EINVAL);
    int slot = claim(kLimits.regions, [&](int i) -> std::atomic<int32_t>& {
        return context.device->region_owner[i];
    });
    if (slot < 0) return refuse(ENOMEM);
    auto* made = new Region;
    made->slot = slot;
    made->handle.context = pd->context;
    made->handle.pd = pd;
    made->handle.addr = address;
    made->handle.length = length;
    made->handle.lkey = made->handle.rkey = 0x1000 + static_cast<uint32_t>(slot);
    context.regions.push_back(made);
    return &made->handle;
}

// What is destroyed before what stands on it stays, as on a Mac, where the order is queue pairs,
// completion queues, regions, domains, contexts. 0: it may go.
static int refusal(Context& context, bool in_use) {
    if (in_use) context.device->too_early.fetch_add(1);
    return in_use || context.device->stuck ? EBUSY : 0;
}

static int deregister(Mr* handle) {
    auto* region = reinterpret_cast<Region*>(handle);
    Context& context = context_of(handle->context);
    Standstill guard(context);
    bool in_use =
        std::any_of(context.pairs.begin(), context.pairs.end(), [&](const QueuePair* each) {
            return each->handle.pd == handle->pd && uses(*each, *region);
        });
    if (int why = refusal(context, in_use)) return why;
    std::erase(context.regions, region);
    context.device->region_owner[region->slot] = 0;
    delete region;
    return 0;
}

static verbs::Pd* make_domain(verbs::Context* handle) {
    Context& context = context_of(handle);
    std::lock_guard guard(context.mutex);
    if (context.device->lost || !context.device->port_up) return errno = ENETDOWN, nullptr;
    auto* made = new Pd;
    made->handle.context = handle;
    ++context.domains;
    return &made->handle;
}

static int destroy_domain(verbs::Pd* pd) {
    Context& context = context_of(pd->context);
    std::lock_guard guard(context.mutex);
    auto of_it = [&](const auto* each) { return each->handle.pd == pd; };
    bool in_use = std::any_of(context.pairs.begin(), context.pairs.end(), of_it) ||
                  std::any_of(context.regions.begin(), context.regions.end(), of_it);
    if (int why = refusal(context, in_use)) return why;
    --context.domains;
    delete reinterpret_cast<Pd*>(pd);
    return 0;
}

static int close_device(verbs::Context* handle) {
    Context& context = context_of(handle);
    {
        std::lock_guard guard(context.mutex);
        bool in_use = context.domains > 0 || context.queues > 0 || !context.pairs.empty() ||
                      !context.regions.empty();
        if (int why = refusal(context, in_use)) return why;
    }
    --open_devices;
    delete &context;
    return 0;
}

static verbs::Cq* create_queue(verbs::Context* handle, int entries, bool has_channel) {
    if (has_channel || entries < 1) return errno = has_channel ? EOPNOTSUPP : EINVAL, nullptr;
    Context& context = context_of(handle);
    std::lock_guard guard(context.mutex);
    auto* made = new CompletionQueue;
    made->handle.context = handle;
    made->handle.cqe = entries;
    ++context.queues;
    return &made->handle;
}

static int destroy_queue(verbs::Cq* handle) {
    auto* queue = reinterpret_cast<CompletionQueue*>(handle);
    Context& context = context_of(handle->context);
    std::lock_guard guard(context.mutex);
    if (int why = refusal(context, !queue->users.empty())) return why;
    --context.queues;
    delete queue;
    return 0;
}

static verbs::Qp* create_pair(verbs::Pd* pd, QpInitAttr* asked) {
    Context& context = context_of(pd->context);
    Standstill guard(context);
    auto refuse = [](int why) -> verbs::Qp* { return errno = why, nullptr; };
    if (context.device->lost) return refuse(EIO);
    if (asked->qp_type != (context.device->reliable ? kRc : kUc)) return refuse(EOPNOTSUPP);
    const QpCap& cap = asked->cap;
    if (!asked->send_cq || !asked->recv_cq || asked->srq || cap.max_send_sge > kLimits.entries ||
        cap.max_recv_sge > kLimits.entries || cap.max_inline_data > kLimits.inline_most ||
        cap.max_send_wr > kLimits.frames_most || cap.max_recv_wr > kLimits.frames_most)
        return refuse(EINVAL);
    int index = claim(kLimits.queue_pairs, [&](int i) -> std::atomic<int32_t>& {
        return context.device->queue_pairs[i].owner;
    });
    if (index < 0) return context.device->refused.fetch_add(1), refuse(EBUSY);
    auto* made = new QueuePair;
    QueuePairSlot& slot = context.device->queue_pairs[index];
    made->slot = &slot;
    made->index = index;
    slot.state = kReset;
    slot.peer = 0;
    made->generation = slot.generation.fetch_add(1) + 1;
    slot.posted = slot.taken = slot.long_begun = slot.long_read = 0;
    slot.head[made->generation & 1] = slot.tail[made->generation & 1] = 0;
    made->cap = cap;
    uint32_t granted = context.device->granted;
    made->cap.max_send_wr = std::min(cap.max_send_wr, granted);
    made->cap.max_recv_wr = std::min(cap.max_recv_wr, granted);
    made->handle.context = pd->context;
    made->handle.pd = pd;
    made->handle.send_cq = asked->send_cq;
    made->handle.recv_cq = asked->recv_cq;
    made->handle.qp_type = asked->qp_type;
    made->handle.qp_num = number_of(context.number, index, made->generation);
    context.pairs.push_back(made);
    if (context.engine && !context.mover.joinable())
        context.mover = std::thread([&context] { run_engine(context); });
    for (Cq* each : {asked->send_cq, asked->recv_cq}) {
        auto& users = reinterpret_cast<CompletionQueue*>(each)->users;
        if (std::find(users.begin(), users.end(), made) == users.end()) users.push_back(made);
    }
    return &made->handle;
}

static int destroy_pair(verbs::Qp* handle) {
    auto* pair = reinterpret_cast<QueuePair*>(handle);
    Context& context = context_of(handle->context);
    Standstill guard(context);
    if (int why = refusal(context, false)) return why;
    progress(*pair);
    std::erase(context.pairs, pair);
    for (Cq* each : {handle->send_cq, handle->recv_cq}) {
        auto& queue = *reinterpret_cast<CompletionQueue*>(each);
        std::erase(queue.users, pair);
        std::erase_if(queue.ready, [&](const Wc& wc) { return wc.qp_num == handle->qp_num; });
    }
    pair->slot->state = kError;
    pair->slot->generation.fetch_add(1);
    pair->slot->generation.fetch_add(1);
    pair->slot->owner = 0;
    delete pair;
    return 0;
}

static int to_ready_to_receive(QueuePair& pair, const QpAttr& attr, int mask) {
    constexpr int kNeeded = kMaskAv | kMaskMtu | kMaskPeer | kMaskRqPsn;
    Context& context = context_of(pair.handle.context);
    constexpr int kReliable = kMaskPeerReads | kMaskRnrTimer;
    if (pair.handle.state != kInit || (mask & kNeeded) != kNeeded) return EINVAL;
    if ((mask & kReliable) != (pair.handle.qp_type == kRc ? kReliable : 0)) return EINVAL;
    const AhAttr& way = attr.ah_attr;
    std::array<uint8_t, 16> none{}, target;
    std::memcpy(target.data(), way.grh.dgid.raw, 16);
    bool own = way.is_global && gid_of(*context.device, way.grh.sgid_index) != none;
    if (!own || target == none || way.port_num != kLimits.port) return EINVAL;
    DeviceState& other = fabric->device[context.device->other];
    bool there = context.device->port_up && other.port_up && !other.lost;
    if (!there || !has_gid(other, target)) return ETIMEDOUT;
    uint32_t number = attr.dest_qp_num;
    if ((number >> 4 & 0x3f) != static_cast<uint32_t>(context.device->other) ||
        (number & 0xf) >= static_cast<uint32_t>(kLimits.queue_pairs))
        return EINVAL;
    pair.peer_device = &other;
    pair.peer = &other.queue_pairs[number & 0xf];
    pair.peer_generation = pair.peer->generation;
    if ((pair.peer_generation & 0x3fff) != number >> 10) return EINVAL;
    pair.peer_wires = map_wires(context.device->other);
    if (!pair.peer_wires) return ENOMEM;
    pair.slot->peer = number;
    return 0;
}

static int to_ready_to_send(const QueuePair& pair, int mask) {
    constexpr int kReliable = kMaskTimeout | kMaskRetries | kMaskRnrRetries | kMaskReads;
    if (pair.handle.state != kRtr || !(mask & kMaskSqPsn)) return EINVAL;
    return (mask & kReliable) == (pair.handle.qp_type == kRc ? kReliable : 0) ? 0 : EINVAL;
}

static int modify_pair(verbs::Qp* handle, QpAttr* attr, int mask) {
    auto& pair = *reinterpret_cast<QueuePair*>(handle);
    Context& context = context_of(handle->context);
    Standstill guard(context);
    if (context.device->lost) return EIO;
    if (!(mask & kMaskState)) return EINVAL;
    int wrong = 0;
    switch (attr->qp_state) {
    case kInit:
        if (handle->state != kReset || attr->port_num != kLimits.port) wrong = EINVAL;
        break;
    case kRtr: wrong = to_ready_to_receive(pair, *attr, mask); break;
    case kRts: wrong = to_ready_to_send(pair, mask); break;
    case kError: flush_all(pair); break;
    default: wrong = EINVAL;
    }
    if (wrong != 0) return wrong;
    handle->state = attr->qp_state;
    pair.slot->state = static_cast<uint32_t>(attr->qp_state);
    return 0;
}

// While one of the library's functions runs, which may be told to hang.
static std::atomic<int> in_calls{0};
struct Call {
    // Of the library, which looks at all devices of this machine.
    explicit Call(const char* name) {
        ++in_calls;
        if (!open_once()) return;
        for (int i = 0; i < fabric->devices; ++i)
            while (is_here(fabric->device[i]) && hangs(fabric->device[i], name)) usleep(1000);
    }
    Call(verbs::Context* context, const char* name) : Call(*context_of(context).device, name) {}
    Call(const DeviceState& device, const char* name) {
        ++in_calls;
        while (hangs(device, name)) usleep(1000);
    }
    ~Call() { --in_calls; }
    static bool hangs(const DeviceState& device, const char* name) {
        uint32_t hang = device.hang;
        return hang != 0 && std::strcmp(kCalls[hang], name) == 0;
    }
};

}  // namespace fake

#define EXPORT extern "C" __attribute__((visibility("default")))
namespace verbs = pomona::verbs;

EXPORT verbs::Device** ibv_get_device_list(int* number) {
    fake::Call call(__func__);
    return fake::list_devices(number);
}
EXPORT void ibv_free_device_list(verbs::Device** list) { std::free(list); }
EXPORT const char* ibv_get_device_name(verbs::Device* device) { return device->name; }
EXPORT verbs::Context* ibv_open_device(verbs::Device* device) {
    int number = reinterpret_cast<fake::ListedDevice*>(device)->number;
    fake::Call call(fake::fabric->device[number], __func__);
    return fake::open_device(device);
}
EXPORT int ibv_close_device(verbs::Context* context) {
    fake::Call call(context, __func__);
    return fake::close_device(context);
}
EXPORT int ibv_query_port(verbs::Context* context, uint8_t port, verbs::PortAttr* out) {
    fake::Call call(context, __func__);
    return port == fake::kLimits.port ? fake::query_port(context, out) : EINVAL;
}
EXPORT int ibv_query_gid(verbs::Context* context, uint8_t, int index, verbs::Gid* out) {
    fake::Call call(context, __func__);
    const fake::DeviceState& device = *fake::context_of(context).device;
    if (device.lost || index < 0 || index >= fake::kGids) return -1;
    auto gid = fake::gid_of(device, index);
    std::memcpy(out->raw, gid.data(), gid.size());
    return 0;
}
EXPORT verbs::Pd* ibv_alloc_pd(verbs::Context* context) {
    fake::Call call(context, __func__);
    return fake::make_domain(context);
}
EXPORT int ibv_dealloc_pd(verbs::Pd* pd) {
    fake::Call call(pd->context, __func__);
    return fake::destroy_domain(pd);
}
EXPORT verbs::Mr* ibv_reg_mr(verbs::Pd* pd, void* address, size_t length, int access) {
    fake::Call call(pd->context, __func__);
    return fake::register_memory(pd, address, length, access);
}
EXPORT int ibv_dereg_mr(verbs::Mr* region) {
    fake::Call call(region->context, __func__);
    return fake::deregister(region);
}
EXPORT verbs::Cq* ibv_create_cq(verbs::Context* context, int entries, void*, void* channel, int) {
    fake::Call call(context, __func__);
    return fake::create_queue(context, entries, channel != nullptr);
}
EXPORT int ibv_destroy_cq(verbs::Cq* handle) {
    fake::Call call(handle->context, __func__);
    return fake::destroy_queue(handle);
}
EXPORT verbs::Qp* ibv_create_qp(verbs::Pd* pd, verbs::QpInitAttr* asked) {
    fake::Call call(pd->context, __func__);
    return fake::create_pair(pd, asked);
}
EXPORT int ibv_destroy_qp(verbs::Qp* pair) {
    fake::Call call(pair->context, __func__);
    return fake::destroy_pair(pair);
}
EXPORT int ibv_modify_qp(verbs::Qp* pair, verbs::QpAttr* attr, int mask) {
    fake::Call call(pair->context, __func__);
    return fake::modify_pair(pair, attr, mask);
}
EXPORT int ibv_query_qp(verbs::Qp* pair, verbs::QpAttr* attr, int, verbs::QpInitAttr* init) {
    fake::Call call(pair->context, __func__);
    attr->qp_state = pair->state;
    attr->cap = init->cap = reinterpret_cast<fake::QueuePair*>(pair)->cap;
    return 0;
}
// For tests in this process: queue pairs and regions that a process holds; fabric.h.
EXPORT int fake_held_by(pid_t process) {
    if (!fake::open_once()) return -1;
    int held = 0;
    for (int i = 0; i < fake::fabric->devices; ++i) {
        for (const auto& each : fake::fabric->device[i].queue_pairs) held += each.owner == process;
        for (const auto& each : fake::fabric->device[i].region_owner) held += each == process;
    }
    return held;
}
// Threads that are in one of the library's functions, but those for messages.
EXPORT int fake_in_calls() { return fake::in_calls; }
EXPORT int fake_open_devices() { return fake::open_devices; }
template <class Count> static uint64_t sum_of(Count fake::DeviceState::*count) {
    if (!fake::open_once()) return 0;
    uint64_t sum = 0;
    for (int i = 0; i < fake::fabric->devices; ++i) sum += fake::fabric->device[i].*count;
    return sum;
}
EXPORT uint64_t fake_messages() { return sum_of(&fake::DeviceState::messages); }
EXPORT uint64_t fake_without_receive() { return sum_of(&fake::DeviceState::no_receive); }
EXPORT uint64_t fake_too_early() { return sum_of(&fake::DeviceState::too_early); }
EXPORT int fake_control(const char* command) {
    return fake::open_once() && fake::control(*fake::fabric, command) ? 0 : -1;
}
