// btl/rdma/verbs.h: the verbs library, opened at run time, and one of its devices.
// Idea: POMONA_VERBS=path chooses the library; else librdma.dylib on macOS, libibverbs.so.1
// elsewhere. Where there is none, or no device, that is an answer and no error. A device is opened
// once in a process: several contexts of one can block each other on macOS.
#pragma once

#include "btl/base/result.h"
#include "btl/rdma/driver.h"
#include "btl/rdma/limits.h"
#include "btl/rdma/termination.h"
#include "btl/rdma/verbs_abi.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace pomona::rdma {

using GidBytes = std::array<uint8_t, 16>;
std::string text_of_gid(const GidBytes& gid);
bool is_ipv4(const GidBytes& gid);  // an IPv4 address in the form of an IPv6 one

// The functions that are symbols; those for messages are reached through Context::ops.
struct Library {
    // Null: `why` says in a sentence why there is none.
    static std::shared_ptr<Library> open(std::string& why);

    std::string path;
    verbs::Device** (*get_device_list)(int*);
    void (*free_device_list)(verbs::Device**);
    const char* (*get_device_name)(verbs::Device*);
    verbs::Context* (*open_device)(verbs::Device*);
    int (*close_device)(verbs::Context*);
    int (*query_port)(verbs::Context*, uint8_t, verbs::PortAttr*);
    int (*query_gid)(verbs::Context*, uint8_t, int, verbs::Gid*);
    verbs::Pd* (*alloc_pd)(verbs::Context*);
    int (*dealloc_pd)(verbs::Pd*);
    verbs::Mr* (*reg_mr)(verbs::Pd*, void*, size_t, int);
    int (*dereg_mr)(verbs::Mr*);
    verbs::Cq* (*create_cq)(verbs::Context*, int, void*, void*, int);
    int (*destroy_cq)(verbs::Cq*);
    verbs::Qp* (*create_qp)(verbs::Pd*, verbs::QpInitAttr*);
    int (*destroy_qp)(verbs::Qp*);
    int (*modify_qp)(verbs::Qp*, verbs::QpAttr*, int);
    int (*query_qp)(verbs::Qp*, verbs::QpAttr*, int, verbs::QpInitAttr*);
};

// Queue pairs over which messages go, in the order in which a device is asked for them. Unreliable
// connections are all that Macs have; some of Linux's devices have reliable ones alone, which want
// to know more when they are connected. The link repairs in any case: what a device repeats by
// itself is not lost as often.
struct PairType {
    const char* name;
    verbs::QpType type;
    verbs::QpAttr attributes;  // all of them are given at each step,
    int to_receive, to_send;   // and these are looked at
};
constexpr verbs::QpAttr reliable() {
    verbs::QpAttr out{};
    out.timeout = 14;        // 67 ms until a message is sent again,
    out.retry_cnt = 7;       // so many times,
    out.rnr_retry = 6;       // and for a receive that is not posted, which credit prevents
    out.min_rnr_timer = 12;  // 0.64 ms later
    return out;
}
inline constexpr PairType kPairTypes[] = {
    {"uc", verbs::kUc, {}, 0, 0},
    {"rc", verbs::kRc, reliable(), verbs::kMaskPeerReads | verbs::kMaskRnrTimer,
     verbs::kMaskTimeout | verbs::kMaskRetries | verbs::kMaskRnrRetries | verbs::kMaskReads},
};
constexpr const PairType* pair_type(verbs::QpType type) {
    for (const PairType& each : kPairTypes)
        if (each.type == type) return &each;
    return nullptr;
}
constexpr const PairType* pair_type(std::string_view name) {
    for (const PairType& each : kPairTypes)
        if (each.name == name) return &each;
    return nullptr;
}

// Why something is not used, and what a person can do about it.
struct Reason {
    std::string what;
    std::string mend{};
    int os_errno = 0;
    bool told = false;  // it has been, in a line of its own
    std::string text() const;
};

class Device final : public Holder {
public:
    Device(std::shared_ptr<Library> library, std::string name)
        : library_(std::move(library)), name_(std::move(name)) {}
    ~Device() { close(); }
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    const std::string& name() const { return name_; }
    const Library& library() const { return *library_; }
    verbs::Context* context() const { return context_; }
    verbs::Pd* domain() const { return domain_; }
    // Begins to open it if it is not open, on a thread: a driver may take long, or for ever. False
    // with the reason while it cannot be used; is_opening(): it may be soon.
    bool open(Reason& why);
    bool is_opening() const;
    // The same, and waits for it, for so long at the most as a driver is given.
    bool open_now(Reason& why);
    // The port as it is now; false where it is not active, or the device has gone.
    bool port(verbs::PortAttr& out, Reason& why);
    // Of a path that stands: false where the port is not active any more. Nobody waits for a driver
    // that takes long to say so: is_asked_for_port(), and this is to be called again soon.
    bool port_stays(Reason& why);
    bool is_asked_for_port() const { return port_asked_ != nullptr; }
    // Its table of addresses, whose places may be empty (zeros).
    std::vector<GidBytes> gids(const verbs::PortAttr& port);
    // The address by which peers reach it: an IPv4 one if there is one, as it can be routed to; -1:
    // none yet.
    int find_gid(const verbs::PortAttr& port, GidBytes& out);
    // Its driver has not returned from a call, and is asked for nothing more: what failed failed
    // for this reason.
    bool hangs(Reason& why) const;
    // What comes of a call of the library, with its errno; where it does not return (driver.h), an
    // error, or a null pointer. What the call refers to it has to own.
    template <class Call> auto ask(const char* what, Call call);
    // It is to be opened anew the next time. What was made of it has to be destroyed before.
    void close();
    void give_back() override;
    bool watched = false;  // it is given back when the process is asked to end
    // Of a call that gives back what was made of it: false, and said once, when it was refused.
    // What that stands on is not given back either, then: it would be refused too, and drivers have
    // hung there.
    bool takes_back(const char* what, int error);
    int users = 0;  // queue pairs' owners
    bool lost = false;

private:
    struct Opening;
    struct Port {
        int error = ENODEV;
        verbs::PortAttr attr{};
        std::atomic<bool> done{false};
    };
    bool is_good(int error, verbs::PortState state, Reason& why);
    static void run(const std::shared_ptr<Opening>& opening);
    bool take(Opening& opening, Reason& why);
    void tell(Reason& why);
    void has_hung();

    std::shared_ptr<Library> library_;
    Driver driver_;
    std::shared_ptr<Opening> opening_;  // what the thread is at, with a context that is its own
    std::shared_ptr<Port> port_asked_;  // what the driver is asked
    std::string name_;
    verbs::Context* context_ = nullptr;
    verbs::Pd* domain_ = nullptr;
    Reason refused_{};               // why it was not opened
    Nanoseconds refused_until_ = 0;  // when it is tried again
    bool keeps_ = false;             // something that it has not taken back
    bool told_ = false;              // that its driver hangs
};

template <class Call> auto Device::ask(const char* what, Call call) {
    using Result = decltype(call(*library_));
    struct Answer {
        Result result{};
        int error = 0;
    };
    auto answer = std::make_shared<Answer>();
    bool came = driver_.run(what, [answer, call, library = library_]() mutable {
        answer->result = call(*library);
        answer->error = errno;
    });
    if (!came) {
        has_hung();
        answer = std::make_shared<Answer>();  // the other one is the driver's
        answer->error = ETIMEDOUT;
        if constexpr (std::is_same_v<Result, int>) answer->result = ETIMEDOUT;
    }
    errno = answer->error;
    return answer->result;
}

// The names of all devices; of `only` (separated by commas), if it is not empty. `why` is set where
// the library does not say.
std::vector<std::string> device_names(const std::shared_ptr<Library>& library,
                                      const std::string& only, Reason& why);

// Memory that a device may read and write: whole pages, across no boundary of 4 GiB.
class Region {
public:
    Region() = default;
    ~Region() { release(); }
    Region(const Region&) = delete;
    Region& operator=(const Region&) = delete;
    bool make(Device& device, size_t length, Reason& why);
    void release();
    void give_back();  // to the device
    // It stays for as long as the process: something that was not given back may write to it.
    void keep();
    std::byte* data() const { return data_; }
    uint32_t key() const { return handle_->lkey; }

private:
    Device* device_ = nullptr;
    verbs::Mr* handle_ = nullptr;
    void* mapped_ = nullptr;
    size_t mapped_length_ = 0;
    std::byte* data_ = nullptr;
};

}  // namespace pomona::rdma
