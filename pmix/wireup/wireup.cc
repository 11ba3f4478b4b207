// pmix/wireup/wireup.cc: choice of the wire-up, and the one of a process that runs alone.
#include "pmix/wireup/wireup.h"

#include "btl/base/log.h"
#include "btl/base/messages.h"
#include "pmix/wireup/by_hand.h"
#include "pmix/wireup/control_client.h"
#include "pmix/wireup/origin.h"
#include "pmix/wireup/pmix_client.h"

#include <map>
#include <mutex>

#include <unistd.h>

#if defined(__APPLE__)
#include <crt_externs.h>
#else
extern char** environ;
#endif

namespace pomona {

namespace {

const char* const* process_environment() {
#if defined(__APPLE__)
    return *_NSGetEnviron();  // a dynamic library there has no environ
#else
    return environ;
#endif
}

// Alone: what is published is kept here.
class SingletonWireup final : public Wireup {
public:
    explicit SingletonWireup(Job job) : job_(std::move(job)) {}
    const Job& job() const override { return job_; }
    Status publish(std::string_view key, ConstBytes value) override {
        std::lock_guard lock(mutex_);
        published_[std::string(key)].assign(value.begin(), value.end());
        return {};
    }
    Status fence() override { return {}; }
    Result<std::vector<std::byte>> lookup(int rank, std::string_view key) override {
        std::lock_guard lock(mutex_);
        auto found = published_.find(std::string(key));
        if (rank != 0 || found == published_.end())
            return Error{Code::not_found, "Nothing was published under this key", rank, 0};
        return found->second;
    }
    [[noreturn]] void abort(int code, std::string_view message) override {
        if (!message.empty()) LOG(error, pmix, "{}", message);
        _exit(exit_code_of(code));
    }
    void on_peer_death(std::function<void(int)>) override {}
    Status finalize() override { return {}; }

private:
    Job job_;
    std::mutex mutex_;
    std::map<std::string, std::vector<std::byte>> published_;
};

}  // namespace

void LaterNodes::learn(int rank, int node) {
    std::lock_guard lock(mutex_);
    node_of_[rank] = node;
}

int LaterNodes::node(int rank) const {
    std::lock_guard lock(mutex_);
    auto found = node_of_.find(rank);
    return found == node_of_.end() ? 0 : found->second;
}

uint64_t incarnation_here() { return incarnation_of(process_environment()); }

Status Wireup::fence_within(double, std::vector<int>&) { return fence(); }
void Wireup::tell_queues(uint32_t, const std::string&) {}
void Wireup::tell_waiting(uint32_t, int64_t, bool, const Waiting&) {}
std::string Wireup::explanation(uint32_t) { return {}; }

Result<std::vector<std::byte>> Wireup::request(Service, ConstBytes) {
    return Error{Code::unsupported, messages::needs_mpirun};
}

Result<std::unique_ptr<Wireup>> Wireup::start(double by_hand_seconds) {
    Started started = find_origin(process_environment());
    if (!started.refusal.empty()) {
        LOG(error, pmix, "{}", started.refusal);
        return Error{Code::refused, "This process cannot join a job"};
    }
    if (started.by_hand) {
        started.by_hand->wait_seconds = by_hand_seconds;
        return start_by_hand(*started.by_hand);
    }
    switch (started.origin) {
    case Origin::mpirun: return start_under_mpirun(std::move(started.job));
    case Origin::pmix: return start_under_pmix();
    case Origin::table:
    case Origin::singleton: break;
    }
    return std::unique_ptr<Wireup>(std::make_unique<SingletonWireup>(std::move(started.job)));
}

}  // namespace pomona
