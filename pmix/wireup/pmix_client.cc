// pmix/wireup/pmix_client.cc: see pmix_client.h.
// Idea: only the job's size is required; everything else is read if the server has it, and
// derived if not (nodes from PMIX_NODEID of each rank, else from names of hosts).
#include "pmix/wireup/pmix_client.h"

#include "btl/base/log.h"
#include "btl/base/messages.h"
#include "pmix/job_directory.h"
#include "pmix/wireup/origin.h"
#include "pmix/wireup/pmix_value.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <mutex>
#include <unordered_map>
#include <utility>

#include <unistd.h>

namespace pomona {

namespace {

constexpr int kFetchSeconds = 5;        // from another node's server
constexpr int64_t kRanksMax = 1 << 24;  // more is a mistake of the server

std::mutex death_mutex;
std::function<void(int)> death_function;  // PMIx handlers carry no context of ours
std::string death_namespace;              // whose ranks the function is told of

Error pmix_error(const PmixLibrary& pmix, pmix_status_t status, const char* what, int peer = -1) {
    LOG(info, pmix, "{}: {} ({})", what, pmix.PMIx_Error_string(status), status);
    switch (status) {
    case PMIX_ERR_NOT_FOUND: return {Code::not_found, what, peer, 0};
    case PMIX_ERR_TIMEOUT: return {Code::timed_out, what, peer, 0};
    case PMIX_ERR_UNREACH: return {Code::refused, what, peer, 0};
    default: return {Code::io, what, peer, 0};
    }
}

class PmixWireup final : public Wireup {
public:
    explicit PmixWireup(const PmixLibrary& pmix) : pmix_(pmix) {}

    Status join() {
        std::memset(&self_, 0, sizeof self_);
        pmix_status_t status = pmix_.PMIx_Init(&self_, nullptr, 0);
        if (status != PMIX_SUCCESS) {
            LOG(error, pmix, messages::pmix_silent, pmix_.PMIx_Error_string(status));
            return pmix_error(pmix_, status, "PMIx_Init failed");
        }
        job_.origin = Origin::pmix;
        job_.id = self_.nspace;
        job_.tag = tag_of(format("{}/{}", getuid(), job_.id));
        job_.rank = static_cast<int>(self_.rank);
        auto size = number_of(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE);
        if (job_.rank < 0 || !size || *size <= job_.rank || *size > kRanksMax)
            return Error{Code::malformed, "The PMIx server does not tell the size of the job"};
        job_.size = static_cast<int>(*size);
        job_.universe_size = static_cast<int>(
            std::clamp<int64_t>(number_of(PMIX_RANK_WILDCARD, PMIX_UNIV_SIZE).value_or(job_.size),
                                job_.size, kRanksMax));
        job_.app_number = static_cast<int>(number_of(self_.rank, PMIX_APPNUM).value_or(0));
        job_.host = text_of_key(self_.rank, PMIX_HOSTNAME);
        if (job_.host.empty()) job_.host = host_name();
        TRY(find_nodes());
        fill_local(job_);
        job_.oversubscribed = job_.local_size > machine_cores();
        // Under the launcher's own directory nothing of ours tells of memory that a job has left.
        if (job_.local_rank == 0) sweep_job_directories();
        job_.directory = TRY(share_job_directory(job_.tag, session_directory()));
        return {};
    }

    const Job& job() const override { return job_; }

    Status publish(std::string_view key, ConstBytes bytes) override {
        std::lock_guard lock(mutex_);
        pmix_value_t value;
        std::memset(&value, 0, sizeof value);
        value.type = PMIX_BYTE_OBJECT;
        value.data.bo.bytes = reinterpret_cast<char*>(const_cast<std::byte*>(bytes.data()));
        value.data.bo.size = bytes.size();
        pmix_status_t status = pmix_.PMIx_Put(PMIX_GLOBAL, full_key(key).c_str(), &value);
        if (status != PMIX_SUCCESS) return pmix_error(pmix_, status, "PMIx_Put failed");
        dirty_ = true;
        return {};
    }

    Status fence() override { return synchronise(true); }
    Status barrier() override { return synchronise(false); }

    Result<std::vector<std::byte>> lookup(int rank, std::string_view key) override {
        pmix_value_t* value = nullptr;
        // Fences collect: most servers have then what there is.
        pmix_status_t status = get(rank, key, pmix_flag(PMIX_IMMEDIATE), value);
        if (status == PMIX_ERR_NOT_FOUND && may_fetch(rank))
            status = get(rank, key, pmix_seconds(PMIX_TIMEOUT, kFetchSeconds), value);
        if (status == PMIX_SUCCESS) is_here(rank);
        if (status != PMIX_SUCCESS)
            return pmix_error(pmix_, status, "Nothing was published under this key", rank);
        std::vector<std::byte> out;
        bool right = value && value->type == PMIX_BYTE_OBJECT;
        if (right && value->data.bo.bytes) {
            auto* bytes = reinterpret_cast<const std::byte*>(value->data.bo.bytes);
            out.assign(bytes, bytes + value->data.bo.size);
        }
        free_pmix_value(value);
        if (!right) return Error{Code::malformed, "A published value has the wrong type", rank};
        return out;
    }

    [[noreturn]] void abort(int code, std::string_view message) override {
        std::string text(message);
        pmix_.PMIx_Abort(code, text.c_str(), nullptr, 0);
        _exit(exit_code_of(code));
    }

    void on_peer_death(std::function<void(int)> function) override {
        {
            std::lock_guard lock(death_mutex);
            death_function = std::move(function);
            death_namespace = job_.id;
            if (!death_function || std::exchange(asked_for_deaths_, true)) return;
        }
        pmix_status_t codes[] = {PMIX_ERR_PROC_ABORTED_BY_SIG, PMIX_ERR_PROC_TERM_WO_SYNC,
                                 PMIX_ERR_PROC_KILLED_BY_CMD, PMIX_EVENT_PROC_TERMINATED,
                                 PMIX_ERR_LOST_CONNECTION};
        pmix_.PMIx_Register_event_handler(codes, std::size(codes), nullptr, 0, on_event, nullptr,
                                          nullptr);
    }

    Status finalize() override {
        {
            std::lock_guard lock(death_mutex);
            death_function = nullptr;  // who leaves from here on leaves in order
        }
        Status all_done = barrier();
        if (all_done.ok() && job_.local_rank == 0) remove_job_directory(job_.directory);
        pmix_status_t status = pmix_.PMIx_Finalize(nullptr, 0);
        if (status != PMIX_SUCCESS) return pmix_error(pmix_, status, "PMIx_Finalize failed");
        return all_done;
    }

private:
    static std::string full_key(std::string_view key) { return "pomona." + std::string(key); }

    Status synchronise(bool collect) {
        std::lock_guard lock(mutex_);
        if (dirty_) {
            pmix_status_t status = pmix_.PMIx_Commit();
            if (status != PMIX_SUCCESS) return pmix_error(pmix_, status, "PMIx_Commit failed");
            dirty_ = false;
        }
        pmix_info_t info = pmix_flag(PMIX_COLLECT_DATA, collect);
        pmix_proc_t all = pmix_process(self_.nspace, PMIX_RANK_WILDCARD);
        pmix_status_t status = pmix_.PMIx_Fence(&all, 1, &info, 1);
        if (status != PMIX_SUCCESS) return pmix_error(pmix_, status, "PMIx_Fence failed");
        fences_ += collect;
        return {};
    }

    pmix_status_t get(int rank, std::string_view key, pmix_info_t how, pmix_value_t*& value) {
        pmix_proc_t whom = pmix_process(self_.nspace, static_cast<pmix_rank_t>(rank));
        return pmix_.PMIx_Get(&whom, full_key(key).c_str(), &how, 1, &value);
    }
    // PRRTE's servers keep what was published to themselves until they are asked for it, fences or
    // not. The answer has all that the rank had published, so it is asked once behind each fence:
    // for what is not there the server would wait.
    bool may_fetch(int rank) {
        if (rank < 0 || rank >= job_.size || job_.node_of.empty() ||
            job_.node_of[rank] == job_.node_of[job_.rank])
            return false;
        std::lock_guard lock(mutex_);
        auto found = here_.find(rank);
        return found == here_.end() || found->second != fences_;
    }
    void is_here(int rank) {
        std::lock_guard lock(mutex_);
        here_[rank] = fences_;
    }

    // A key the server may have told us at start; never asks it again (PMIX_OPTIONAL).
    pmix_value_t* get(pmix_rank_t rank, const char* key) {
        pmix_value_t* value = nullptr;
        pmix_info_t optional = pmix_flag(PMIX_OPTIONAL);
        pmix_proc_t whom = pmix_process(self_.nspace, rank);
        return pmix_.PMIx_Get(&whom, key, &optional, 1, &value) == PMIX_SUCCESS ? value : nullptr;
    }
    std::optional<int64_t> number_of(pmix_rank_t rank, const char* key) {
        pmix_value_t* value = get(rank, key);
        if (!value) return std::nullopt;
        auto out = pmix_number(*value);
        free_pmix_value(value);
        return out;
    }
    std::string text_of_key(pmix_rank_t rank, const char* key) {
        pmix_value_t* value = get(rank, key);
        if (!value) return {};
        std::string out;
        if (value->type == PMIX_STRING && value->data.string) out = value->data.string;
        free_pmix_value(value);
        return out;
    }

    // The launcher's own directory for this job, by key or, with Open MPI 4, by environment.
    std::string session_directory() {
        std::string out = text_of_key(PMIX_RANK_WILDCARD, PMIX_NSDIR);
        if (!out.empty()) return out;
        const char* given = std::getenv("PMIX_SERVER_TMPDIR");
        return given ? given : "";
    }

    // Numbers of nodes, the same at all ranks: collectives choose their algorithms by them.
    Status find_nodes() {
        job_.node_of.assign(job_.size, 0);
        int known = 0;
        for (; known < job_.size; ++known) {
            auto node = number_of(static_cast<pmix_rank_t>(known), PMIX_NODEID);
            if (!node) break;
            job_.node_of[known] = static_cast<int>(*node);
        }
        if (known == job_.size || job_.size == 1) return {};
        auto hosts = TRY(find_hosts());
        // A node's number is that of the lowest rank on it.
        std::unordered_map<std::string, int> lowest;
        for (int rank = 0; rank < job_.size; ++rank)
            job_.node_of[rank] = lowest.emplace(hosts[rank], rank).first->second;
        return {};
    }
    // By rank: what is the same for ranks of one node only.
    Result<std::vector<std::string>> find_hosts() {
        std::vector<std::string> out;
        for (int rank = 0; rank < job_.size; ++rank) {
            out.push_back(text_of_key(static_cast<pmix_rank_t>(rank), PMIX_HOSTNAME));
            if (out.back().empty()) return exchange_hosts();
        }
        return out;
    }
    // The server tells each rank of its own node only, or not even that: the ranks tell each other.
    Result<std::vector<std::string>> exchange_hosts() {
        std::string own = "host " + job_.host;
        int lowest = job_.size;
        std::string peers = text_of_key(PMIX_RANK_WILDCARD, PMIX_LOCAL_PEERS);
        for (const char *at = peers.data(), *end = at + peers.size(); at < end; ++at) {
            int rank = -1;
            at = std::from_chars(at, end, rank).ptr;
            if (rank >= 0) lowest = std::min(lowest, rank);
        }
        if (lowest <= job_.rank) own = format("node of rank {}", lowest);
        TRY(publish("node", bytes_of(own)));
        TRY(fence());
        std::vector<std::string> out;
        for (int rank = 0; rank < job_.size; ++rank) {
            auto told = TRY(lookup(rank, "node"));
            out.emplace_back(reinterpret_cast<const char*>(told.data()), told.size());
        }
        return out;
    }

    static void on_event(size_t, pmix_status_t, const pmix_proc_t* source, pmix_info_t info[],
                         size_t info_count, pmix_info_t*, size_t,
                         pmix_event_notification_cbfunc_fn_t done, void* done_data) {
        const pmix_proc_t* ended = source;
        for (size_t i = 0; i < info_count; ++i)
            if (std::string_view(info[i].key) == PMIX_EVENT_AFFECTED_PROC &&
                info[i].value.type == PMIX_PROC && info[i].value.data.proc)
                ended = info[i].value.data.proc;
        {
            // Events also tell of tools, servers and other jobs, whose ranks have the same numbers;
            // ranks above the largest int are PMIx's words for several.
            std::lock_guard lock(death_mutex);
            if (death_function && ended && death_namespace == ended->nspace &&
                static_cast<int>(ended->rank) >= 0)
                death_function(static_cast<int>(ended->rank));
        }
        if (done) done(PMIX_EVENT_ACTION_COMPLETE, nullptr, 0, nullptr, nullptr, done_data);
    }

    const PmixLibrary& pmix_;
    std::mutex mutex_;
    pmix_proc_t self_;
    Job job_;
    bool dirty_ = false;
    int fences_ = 0;
    std::unordered_map<int, int> here_;  // behind which fence what a rank had published was here
    bool asked_for_deaths_ = false;      // guarded by death_mutex
};

}  // namespace

Result<std::unique_ptr<Wireup>> start_under_pmix() {
    std::string why;
    auto library = PmixLibrary::open(why);
    if (!library.ok()) {
        LOG(error, pmix, messages::pmix_unusable, why);
        return library.error();
    }
    return start_under_pmix(**library);
}

Result<std::unique_ptr<Wireup>> start_under_pmix(const PmixLibrary& library) {
    auto wireup = std::make_unique<PmixWireup>(library);
    TRY(wireup->join());
    return std::unique_ptr<Wireup>(std::move(wireup));
}

}  // namespace pomona
