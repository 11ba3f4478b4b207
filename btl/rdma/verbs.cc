// btl/rdma/verbs.cc: see verbs.h.
#include "btl/rdma/verbs.h"

#include "btl/base/clock.h"
#include "btl/base/comma_list.h"
#include "btl/base/format.h"
#include "btl/base/log.h"
#include "btl/base/messages.h"
#include "btl/base/thread_role.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <mutex>
#include <sys/mman.h>
#include <system_error>
#include <thread>
#include <utility>

namespace pomona::rdma {

#ifdef __APPLE__
static constexpr const char* kUsual = "librdma.dylib";
static constexpr const char* kMend = messages::rdma_macos_old;
#else
static constexpr const char* kUsual = "libibverbs.so.1";
static constexpr const char* kMend = messages::rdma_install;
#endif

std::string Reason::text() const {
    std::string out = what;
    if (os_errno != 0) out += format(" ({})", std::strerror(os_errno));
    if (!mend.empty()) out += "; " + mend;
    return out;
}

template <class Function>
static bool find(void* library, const char* name, Function& out, std::string& why) {
    void* found = dlsym(library, name);
    if (!found) why = format("it has no function {}", name);
    static_assert(sizeof found == sizeof out);
    std::memcpy(&out, &found, sizeof out);
    return found != nullptr;
}

std::shared_ptr<Library> Library::open(std::string& why) {
    const char* given = std::getenv("POMONA_VERBS");
    auto out = std::make_shared<Library>();
    out->path = given && *given ? given : kUsual;
    // Never closed: drivers do not expect it.
    void* library = dlopen(out->path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        why = format(messages::rdma_no_library, out->path, kMend);
        return nullptr;
    }
    Library& l = *out;
    bool all = find(library, "ibv_get_device_list", l.get_device_list, why) &&
               find(library, "ibv_free_device_list", l.free_device_list, why) &&
               find(library, "ibv_get_device_name", l.get_device_name, why) &&
               find(library, "ibv_open_device", l.open_device, why) &&
               find(library, "ibv_close_device", l.close_device, why) &&
               find(library, "ibv_query_port", l.query_port, why) &&
               find(library, "ibv_query_gid", l.query_gid, why) &&
               find(library, "ibv_alloc_pd", l.alloc_pd, why) &&
               find(library, "ibv_dealloc_pd", l.dealloc_pd, why) &&
               find(library, "ibv_reg_mr", l.reg_mr, why) &&
               find(library, "ibv_dereg_mr", l.dereg_mr, why) &&
               find(library, "ibv_create_cq", l.create_cq, why) &&
               find(library, "ibv_destroy_cq", l.destroy_cq, why) &&
               find(library, "ibv_create_qp", l.create_qp, why) &&
               find(library, "ibv_destroy_qp", l.destroy_qp, why) &&
               find(library, "ibv_modify_qp", l.modify_qp, why) &&
               find(library, "ibv_query_qp", l.query_qp, why);
    if (!all) why = format("{} is no verbs library: {}", out->path, why);
    return all ? out : nullptr;
}

bool is_ipv4(const GidBytes& gid) {
    static constexpr uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    return std::memcmp(gid.data(), kMapped, sizeof kMapped) == 0;
}

std::string text_of_gid(const GidBytes& gid) {
    if (is_ipv4(gid)) return format("{}.{}.{}.{}", gid[12], gid[13], gid[14], gid[15]);
    std::string out;
    for (size_t i = 0; i < gid.size(); i += 2)
        out += format("{}{:x}", i == 0 ? "" : ":", gid[i] << 8 | gid[i + 1]);
    return out;
}

static Reason hanging(const std::string& name, const char* call, Nanoseconds time) {
    return {format(messages::rdma_driver_hangs, name, call, time / 1'000'000'000),
            messages::rdma_restart};
}

std::vector<std::string> device_names(const std::shared_ptr<Library>& library,
                                      const std::string& only, Reason& why) {
    auto found = std::make_shared<std::vector<std::string>>();
    Driver driver;
    bool came = driver.run("ibv_get_device_list", [found, library] {
        int number = 0;
        verbs::Device** list = library->get_device_list(&number);
        for (int i = 0; list && i < number; ++i)
            found->push_back(library->get_device_name(list[i]));
        if (list) library->free_device_list(list);
    });
    std::vector<std::string> out;
    if (!came) return why = hanging(library->path, driver.hangs_in(), call_most), out;
    for (std::string& name : *found)
        if (only.empty() || lists(only, name)) out.push_back(std::move(name));
    return out;
}

// What a thread does to open a device: calls that may block in the driver. Not on its driver's
// thread: who uses other devices does not wait meanwhile, and a device that opens late is used.
struct Device::Opening {
    std::shared_ptr<Library> library;
    std::string name;
    Nanoseconds begun = RealClock().now();
    std::atomic<const char*> call{"ibv_get_device_list"};  // in which it is
    verbs::Context* context = nullptr;                     // handed over, or what came of it
    verbs::Pd* domain = nullptr;
    int error = 0;  // of the call that failed
    std::mutex mutex{};
    bool done = false, unwanted = false;
};

void Device::run(const std::shared_ptr<Opening>& opening) {
    const Library& library = *opening->library;
    verbs::Context* context = opening->context;
    verbs::Pd* domain = nullptr;
    int number = 0;
    verbs::Device** list = context ? nullptr : library.get_device_list(&number);
    opening->call = "ibv_open_device";
    for (int i = 0; list && i < number && !context; ++i)
        if (opening->name == library.get_device_name(list[i]))
            context = library.open_device(list[i]);
    int error = errno;
    if (list) library.free_device_list(list);
    opening->call = "ibv_alloc_pd";
    if (context && !(domain = library.alloc_pd(context))) error = errno;
    std::lock_guard guard(opening->mutex);
    opening->context = context;
    opening->domain = domain;
    opening->error = error;
    opening->done = true;
    if (!opening->unwanted) return;
    if (domain) library.dealloc_pd(domain);
    if (context) library.close_device(context);
}

// A device that was not opened, as its port is down, is tried again after so long: each time costs
// a thread, and who has one asks about every millisecond.
static constexpr Nanoseconds kRefusedRest = 20'000'000;

bool Device::open(Reason& why) {
    if (is_given_back()) return why = {"this process ends"}, false;
    if (hangs(why)) return false;
    if (lost && users == 0) close();
    if (lost) return why = {format("{} is not there any more", name_)}, false;
    if (context_ && domain_) return true;
    if (std::shared_ptr<Opening> opening = opening_) {
        std::lock_guard guard(opening->mutex);
        if (opening->done) return take(*opening, why);
    } else if (RealClock().now() < refused_until_) {
        return why = refused_, false;
    } else {
        opening_ = std::make_shared<Opening>();
        opening_->library = library_;
        opening_->name = name_;
        opening_->context = std::exchange(context_, nullptr);
        try {
            std::thread([opening = opening_] {
                become_driver_thread();
                run(opening);
            }).detach();
        } catch (const std::system_error&) { run(opening_); }
    }
    if (is_opening()) return why = {format("{} is being opened", name_)}, false;
    why = hanging(name_, opening_->call, open_most);
    tell(why);
    return false;
}

bool Device::hangs(Reason& why) const {
    const char* call = driver_.hangs_in();
    if (!call) return false;
    why = hanging(name_, call, call_most);
    why.told = watched;
    return true;
}

void Device::tell(Reason& why) {
    why.told = watched;
    // As in takes_back().
    if (watched && !is_given_back() && !std::exchange(told_, true))
        LOG(warn, btl, messages::rdma_without, why.text());
}

// What was made of it stays.
void Device::has_hung() {
    lost = keeps_ = true;
    Reason why;
    if (hangs(why)) tell(why);
}

// With its mutex held: it is done.
bool Device::take(Opening& opening, Reason& why) {
    context_ = opening.context;
    domain_ = opening.domain;
    int error = opening.error;
    opening_.reset();
    told_ = false;  // it was slow
    if (context_ && watched) holds_nothing(*this), holds(*this);
    if (domain_) return true;
    verbs::PortAttr attr;
    if (!context_)
        why = {format(messages::rdma_device_closed, name_),
               "is RDMA enabled (rdma_ctl enable, in macOS Recovery)?", error};
    else if (port(attr, why))
        why = {format(messages::rdma_no_domain, name_), messages::rdma_restart, error};
    refused_ = why;
    refused_until_ = RealClock().now() + kRefusedRest;
    return false;
}

bool Device::is_opening() const {
    return opening_ && RealClock().now() - opening_->begun < open_most;
}

bool Device::open_now(Reason& why) {
    bool opened = open(why);
    for (; !opened && is_opening(); opened = open(why))
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return opened;
}

bool Device::port(verbs::PortAttr& out, Reason& why) {
    out = {};
    // Other threads may look until the process has ended.
    if (is_given_back()) return out.state = verbs::kPortActive, true;
    if (hangs(why)) return false;
    struct Answer {
        int error = ENODEV;
        verbs::PortAttr port{};
    };
    port_asked_ = nullptr;  // what comes of this is newer
    Answer answer;
    if (context_)
        answer = ask("ibv_query_port", [context = context_](const Library& library) {
            Answer made;
            made.error = library.query_port(context, kLimits.port, &made.port);
            return made;
        });
    out = answer.port;
    return is_good(answer.error, out.state, why);
}

bool Device::is_good(int error, verbs::PortState state, Reason& why) {
    if (error != 0) {
        lost = true;
        if (hangs(why)) return false;
        return why = {format(messages::rdma_silent, name_), messages::rdma_look_at_cable, error},
               false;
    }
    if (state == verbs::kPortActive) return true;
    return why = {format(messages::rdma_port_down, name_), messages::rdma_look_at_cable}, false;
}

// A driver that works answers sooner.
static constexpr Nanoseconds kPortSoon = 2'000'000;

bool Device::port_stays(Reason& why) {
    if (is_given_back()) return true;
    if (hangs(why)) return false;
    if (!port_asked_) {
        auto asked = std::make_shared<Port>();
        auto call = [asked, context = context_, library = library_] {
            asked->error = library->query_port(context, kLimits.port, &asked->attr);
            asked->done.store(true, std::memory_order_release);
        };
        if (!driver_.begin("ibv_query_port", call, kPortSoon)) return true;
        port_asked_ = asked;
    }
    if (!port_asked_->done.load(std::memory_order_acquire)) {
        if (driver_.is_overdue()) has_hung();
        return !hangs(why);
    }
    std::shared_ptr<Port> came = std::move(port_asked_);
    return is_good(came->error, came->attr.state, why);
}

std::vector<GidBytes> Device::gids(const verbs::PortAttr& port) {
    int number = std::min(port.gid_tbl_len, 256);
    return ask("ibv_query_gid", [context = context_, number](const Library& library) {
        std::vector<GidBytes> out;
        for (int i = 0; i < number; ++i) {
            verbs::Gid found{};
            bool there = library.query_gid(context, kLimits.port, i, &found) == 0;
            std::memcpy(out.emplace_back().data(), found.raw, there ? sizeof found.raw : 0);
        }
        return out;
    });
}

int Device::find_gid(const verbs::PortAttr& port, GidBytes& out) {
    int found = -1;
    std::vector<GidBytes> all = gids(port);
    for (size_t i = 0; i < all.size(); ++i) {
        bool mapped = is_ipv4(all[i]);
        if (all[i] == GidBytes{} || (found >= 0 && !mapped)) continue;
        found = static_cast<int>(i);
        out = all[i];
        if (mapped) break;
    }
    return found;
}

// With something that it keeps the old context is only forgotten: whoever closes has lost the
// device, or ends.
void Device::close() {
    bool here = !watched || holds_nothing(*this);
    if (here || opening_) give_back();
    port_asked_ = nullptr;
    keeps_ = false;
    domain_ = nullptr;
    context_ = nullptr;
    lost = false;
}

void Device::give_back() {
    if (std::shared_ptr<Opening> opening = std::move(opening_)) {
        std::lock_guard guard(opening->mutex);
        opening->unwanted = !opening->done;  // then its thread gives back what it has
        if (opening->done) context_ = opening->context, domain_ = opening->domain;
    }
    if (domain_ && !keeps_)
        takes_back("its protection domain", ask("ibv_dealloc_pd", [d = domain_](const Library& l) {
                       return l.dealloc_pd(d);
                   }));
    if (context_ && !keeps_)
        takes_back("its context", ask("ibv_close_device", [c = context_](const Library& l) {
                       return l.close_device(c);
                   }));
}

bool Device::takes_back(const char* what, int error) {
    if (error == 0) return true;
    // Another thread than the program's does not wait for a log that the latter may hold.
    if (!std::exchange(keeps_, true) && !is_given_back())
        LOG(warn, btl, messages::rdma_kept, name_, what, std::strerror(error));
    return false;
}

static size_t rounded(size_t length) { return (length + kLimits.page - 1) & ~(kLimits.page - 1); }

bool Region::make(Device& device, size_t length, Reason& why) {
    release();
    device_ = &device;
    length = rounded(length);
    // Room to begin at a page, and behind a boundary.
    mapped_length_ = 2 * length + kLimits.page;
    mapped_ =
        mmap(nullptr, mapped_length_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped_ == MAP_FAILED) {
        mapped_ = nullptr;
        return why = {"there is no memory for messages", "", errno}, false;
    }
    uint64_t begin = rounded(reinterpret_cast<uint64_t>(mapped_));
    uint64_t boundary = (begin / kLimits.region_boundary + 1) * kLimits.region_boundary;
    if (begin + length > boundary) begin = boundary;
    data_ = reinterpret_cast<std::byte*>(begin);
    // Which rights are accepted differs among what has been reported.
    constexpr int kAll = verbs::kLocalWrite | verbs::kRemoteRead | verbs::kRemoteWrite;
    for (int access : {kAll, int{verbs::kLocalWrite}}) {
        handle_ = device.ask(
            "ibv_reg_mr", [domain = device.domain(), at = data_, length, access](const Library& l) {
                return l.reg_mr(domain, at, length, access);
            });
        if (handle_) return true;
        if (device.hangs(why)) return keep(), false;
    }
    why = {format(messages::rdma_no_region, device.name()), "other programs may hold its regions",
           errno};
    release();
    return false;
}

void Region::release() {
    give_back();
    if (mapped_ && !handle_) munmap(mapped_, mapped_length_);
    keep();
}

void Region::give_back() {
    if (!handle_) return;
    int error = device_->ask("ibv_dereg_mr",
                             [region = handle_](const Library& l) { return l.dereg_mr(region); });
    if (device_->takes_back("a region", error)) handle_ = nullptr;
}

void Region::keep() {
    handle_ = nullptr;
    mapped_ = nullptr;
    data_ = nullptr;
}

}  // namespace pomona::rdma
