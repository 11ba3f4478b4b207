// btl/rdma/rdma.cc: the RDMA Transport: devices of this process, and its paths.
#include "btl/rdma/rdma.h"

#include "btl/base/check.h"
#include "btl/base/format.h"
#include "btl/base/log.h"
#include "btl/link/link.h"
#include "btl/rdma/crc32c.h"
#include "btl/rdma/endpoint.h"
#include "btl/rdma/termination.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace pomona {
namespace {

using namespace rdma;

// Deadlines and ports are looked at once in so many polls, and after each sleep: these get longer
// and longer.
constexpr unsigned kPollsPerLook = 32;
// What devices without a path are like is looked at so often.
constexpr Nanoseconds kDevicesEvery = 250'000'000;
// Completions wake nobody: a sleep is short while frames come, and gets longer,
constexpr Nanoseconds kNapFirst = 50'000, kNapMost = 10'000'000;
constexpr Nanoseconds kNapPart = 32;  // of the time since the last frame
// and after so long without any the others are told, who ring from then on.
constexpr Nanoseconds kTellAfter = 2'000'000;
constexpr Nanoseconds kNapKnown = 250'000'000;

constexpr std::byte kHasDevices{1};

class RdmaTransport final : public Transport, public EndpointOwner {
public:
    RdmaTransport(const Params& params, Counters& counters, RdmaOptions options,
                  std::shared_ptr<Devices> devices, int path)
        : params_(params), counters_(counters), options_(options), devices_(std::move(devices)),
          path_(path) {
        checks_ = params.rdma_crc == "all" || (params.rdma_crc != "none" && crc32c_is_quick());
        if (const rdma::PairType* type = pair_type(params.rdma_queue_pairs)) type_ = type->type;
        size_t most = std::clamp(static_cast<size_t>(params.rdma_message), kLimits.frame,
                                 kLimits.message_most);
        stride_most_ = most / kLimits.frame * kLimits.frame;
    }

    const char* name() const override { return "rdma"; }
    // That there are devices is all: none is opened before both ends are joined by TCP.
    std::vector<std::byte> address() const override { return {kHasDevices}; }
    Result<Endpoint*> connect(int peer, ConstBytes address) override {
        if (address.size() != 1 || address[0] != kHasDevices)
            return Error{Code::malformed, "An RDMA address does not parse", peer};
        RdmaEndpoint& made = endpoint_of(peer);
        TRY(made.dial());
        attend(made);
        return static_cast<Endpoint*>(&made);
    }
    Endpoint* path(int peer) override {
        auto found = endpoints_.find(peer);
        return found == endpoints_.end() ? nullptr : found->second.get();
    }
    PathDescription describe(int peer) override {
        auto found = endpoints_.find(peer);
        if (found != endpoints_.end()) return found->second->describe();
        PathDescription out;
        out.text = "rdma";
        out.reliable = out.watched = out.taken = false;
        return out;
    }

    int poll(Sink& sink, int most) override {
        if (++polls_ % kPollsPerLook == 0 || slept_) {
            slept_ = false;
            if (asked_to_end()) return drain(sink), 0;
            look_at_devices(sink);
        }
        int handed = 0;
        size_t number = active_.size(), which = number > 1 ? polls_ % number : 0;
        for (size_t i = 0; i < number && !sink.enough;
             ++i, which = which + 1 < number ? which + 1 : 0) {
            RdmaEndpoint& each = *active_[which];
            if (each.hurries()) look_at(each, sink);
            handed += each.poll(sink, most);
        }
        if (handed != 0) moved_ = true;
        else if (armed_ && polls_ % kPollsPerLook == 0) tell_of_sleep();
        return handed;
    }
    bool arm() override {
        if (std::exchange(moved_, false)) quiet_since_ = now();
        armed_ = true;
        return std::none_of(active_.begin(), active_.end(),
                            [](const RdmaEndpoint* each) { return each->hurries(); });
    }
    void disarm() override { slept_ = true; }
    bool pending() const override {
        return std::any_of(active_.begin(), active_.end(),
                           [](const RdmaEndpoint* each) { return each->waits_for_room(); });
    }
    Nanoseconds sleep_max() override {
        if (active_.empty()) return kSleepForever;
        if (std::all_of(active_.begin(), active_.end(),
                        [](const RdmaEndpoint* each) { return each->may_sleep(); }))
            return kNapKnown;
        return std::clamp((now() - quiet_since_) / kNapPart, kNapFirst, kNapMost);
    }

    // -- rule 14
    bool rides() const override { return true; }
    void speak_by(Speaker speaker) override { speaker_ = std::move(speaker); }
    void hear(int peer, ConstBytes bytes) override {
        auto words = parse_words(bytes);
        if (!words) {
            LOG(error, btl, "Rank {} sent words about RDMA that do not parse", peer);
            return;
        }
        if (words->path != path_) return;
        RdmaEndpoint& made = endpoint_of(peer);
        made.hear(*words);
        attend(made);
    }

    // -- for endpoints
    Nanoseconds now() override { return options_.clock->now(); }
    bool say(int peer, Words words) override {
        words.path = static_cast<uint8_t>(path_);
        return speaker_ && speaker_(peer, words.pack());
    }
    Devices& devices() override { return *devices_; }
    int path() const override { return path_; }
    size_t stride_most() const override { return stride_most_; }
    bool checks() const override { return checks_; }
    verbs::QpType pairs_type() const override { return type_; }
    Counters& counters() override { return counters_; }
    void woken() override { moved_ = true; }

private:
    RdmaEndpoint& endpoint_of(int peer) {
        auto& slot = endpoints_[peer];
        if (!slot) {
            size_t most = std::max(params_.tcp_fragment, params_.tcp_eager_max) + kLinkRoom;
            slot = std::make_unique<RdmaEndpoint>(*this, peer, options_.rank < peer, most,
                                                  options_.plan.queue_pairs(peer));
        }
        return *slot;
    }
    // The process ends: queue pairs, regions and domains go, in this order.
    [[gnu::noinline]] void drain(Sink& sink) {
        for (auto& [peer, each] : endpoints_) {
            each->abandon({Code::peer_gone, "This process was asked to end by a signal", peer});
            each->look(now(), sink);
        }
        for (size_t i = 0; i < devices_->size(); ++i)
            if ((*devices_)[i].users == 0) (*devices_)[i].close();
        end_if_drained();
    }
    void attend(RdmaEndpoint& endpoint) {
        if (!std::exchange(endpoint.active, true)) active_.push_back(&endpoint);
    }
    [[gnu::noinline]] void look_at(RdmaEndpoint& endpoint, Sink& sink) {
        endpoint.look(now(), sink);
    }
    // Apart from poll(), which is to be short.
    [[gnu::noinline]] void look_at_devices(Sink& sink) {
        Nanoseconds time = now();
        for (size_t i = 0; i < active_.size(); ++i) active_[i]->look(time, sink);
        std::erase_if(active_, [](RdmaEndpoint* each) {
            each->active = each->has_work();
            return !each->active;
        });
        if (time - devices_looked_ < kDevicesEvery) return;
        devices_looked_ = time;
        bool any = std::any_of(endpoints_.begin(), endpoints_.end(),
                               [](const auto& each) { return each.second->waits(); });
        if (any && devices_changed()) try_all_again();
    }
    // By what this process waits for it has slept before; whoever only looks in is not told of.
    [[gnu::noinline]] void tell_of_sleep() {
        armed_ = false;
        if (moved_ || now() - quiet_since_ < kTellAfter) return;
        for (RdmaEndpoint* each : active_) each->go_to_sleep();
    }
    // A port has come up, or has its address now.
    bool devices_changed() {
        uint64_t state = 0;
        bool better = false;
        for (size_t i = 0; i < devices_->size() && i < 64; ++i) {
            Reason why;
            verbs::PortAttr port;
            GidBytes gid;
            Device& device = (*devices_)[i];
            bool ready =
                device.open(why) && device.port(port, why) && device.find_gid(port, gid) >= 0;
            uint64_t bit = uint64_t{ready} << i;
            better |= bit != 0 && (devices_ready_ & bit) == 0;
            state |= bit;
        }
        devices_ready_ = state;
        return better;
    }
    void try_all_again() {
        for (auto& [peer, each] : endpoints_) {
            if (!each->waits()) continue;
            each->try_again();
            if (each->leads()) continue;
            each->say_again();
            attend(*each);
        }
    }

    const Params& params_;
    Counters& counters_;
    RdmaOptions options_;
    std::shared_ptr<Devices> devices_;
    const int path_;
    bool checks_ = false;
    verbs::QpType type_{};
    size_t stride_most_ = 0;
    Speaker speaker_;
    std::unordered_map<int, std::unique_ptr<RdmaEndpoint>> endpoints_;  // by peer
    std::vector<RdmaEndpoint*> active_;  // with queue pairs, or something to say
    unsigned polls_ = 0;
    bool moved_ = false;  // since the last arm()
    bool armed_ = false;  // since the last look at sleeping
    bool slept_ = false;  // since the last poll
    Nanoseconds quiet_since_ = 0, devices_looked_ = 0;
    uint64_t devices_ready_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> make_rdma_transports(const Params& params,
                                                             Counters& counters,
                                                             RdmaOptions options,
                                                             std::string& why) {
    check(options.clock != nullptr, options.rank);
    std::vector<std::unique_ptr<Transport>> out;
    auto devices = Devices::open(params, why);
    for (int path = 0; devices && path < devices->paths(); ++path)
        out.push_back(std::make_unique<RdmaTransport>(params, counters, options, devices, path));
    return out;
}

}  // namespace pomona
