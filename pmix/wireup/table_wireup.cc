// pmix/wireup/table_wireup.cc: see table_wireup.h.
// Idea: the table is used while MPI starts and never again: whoever serves it may end first. So a
// fence brings all that anybody has published, and lookups are answered from memory. Processes are on
// one machine when it was started once (boot id), they call it by the same name, and they share the
// memory of /dev/shm (containers may not).
#include "pmix/wireup/table_wireup.h"

#include "btl/base/entropy.h"
#include "btl/base/format.h"
#include "btl/base/log.h"
#include "pmix/job_directory.h"
#include "pmix/wireup/origin.h"

#include <array>
#include <map>
#include <mutex>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

namespace pomona {

namespace {

constexpr size_t kTextMost = 1024;
constexpr size_t kValueMost = 64u << 20;

std::string machine_id() {
    struct stat memory {};
    bool shared = stat("/dev/shm", &memory) == 0;
    return format("{}/{}/{}", host_name(), boot_id(),
                  shared ? static_cast<uint64_t>(memory.st_dev) : 0);
}

class TableWireup final : public Wireup {
public:
    explicit TableWireup(MeetingTable table) : table_(std::move(table)) {}

    Status join() {
        job_.origin = Origin::table;
        job_.rank = table_.rank;
        job_.size = job_.universe_size = table_.size;
        job_.host = host_name();
        job_.id = TRY(agree_on_name());
        job_.tag = tag_of(job_.id);
        TRY(find_nodes());
        fill_local(job_);
        job_.oversubscribed = job_.local_size > machine_cores();
        // What a killed job has left nobody else removes.
        if (job_.local_rank == 0) sweep_job_directories();
        job_.directory = TRY(share_job_directory(job_.tag, ""));
        if (job_.local_rank == 0) TRY(hold_job_directory(job_.directory));
        return {};
    }

    const Job& job() const override { return job_; }

    Status publish(std::string_view key, ConstBytes value) override {
        std::lock_guard lock(mutex_);
        fresh_.put_text(key);
        fresh_.put_sized(value);
        ++fresh_count_;
        published_[{job_.rank, std::string(key)}].assign(value.begin(), value.end());
        return {};
    }

    Status fence() override {
        std::string name = format("fence {}", fences_++);
        Writer mine;
        {
            std::lock_guard lock(mutex_);
            mine.put(fresh_count_);
            mine.put_bytes(fresh_.bytes());
            fresh_ = {};
            fresh_count_ = 0;
        }
        TRY(table_.put(key_of(name, job_.rank), mine.bytes()));
        for (int rank = 0; rank < job_.size; ++rank) {
            if (rank == job_.rank) continue;
            TRY(take_in(rank, TRY(table_.get(key_of(name, rank)))));
        }
        return {};
    }

    Result<std::vector<std::byte>> lookup(int rank, std::string_view key) override {
        std::lock_guard lock(mutex_);
        auto found = published_.find({rank, std::string(key)});
        if (found == published_.end())
            return Error{Code::not_found, "Nothing was published under this key", rank, 0};
        return found->second;
    }

    // The others see that this process is gone.
    [[noreturn]] void abort(int code, std::string_view message) override {
        if (!message.empty()) LOG(error, pmix, "{}", message);
        _exit(exit_code_of(code));
    }

    void on_peer_death(std::function<void(int)>) override {}

    Status finalize() override {
        if (job_.local_rank == 0) remove_job_directory(job_.directory);
        return {};
    }

private:
    static std::string key_of(std::string_view name, int rank) {
        return format("pomona {} of rank {}", name, rank);
    }

    // Random, so that names of shared memory are not used again.
    Result<std::string> agree_on_name() {
        const std::string key = "pomona job";
        if (table_.rank == 0) {
            std::array<std::byte, 16> bits{};
            if (!random_bytes(bits)) return os_error(Code::io, "The system has no random numbers");
            std::string name;
            for (std::byte each : bits) name += format("{:02x}", static_cast<unsigned>(each));
            TRY(table_.put(key, bytes_of(name)));
            return name;
        }
        std::string name(text_of(TRY(table_.get(key))));
        if (name.empty() || name.size() > kTextMost)
            return Error{Code::malformed, "The job's name in the table does not parse"};
        return name;
    }

    Status find_nodes() {
        TRY(table_.put(key_of("machine", job_.rank), bytes_of(machine_id())));
        std::map<std::string, int> nodes;
        for (int rank = 0; rank < job_.size; ++rank) {
            std::string machine(text_of(TRY(table_.get(key_of("machine", rank)))));
            int next = static_cast<int>(nodes.size());
            job_.node_of.push_back(nodes.try_emplace(std::move(machine), next).first->second);
        }
        return {};
    }

    Status take_in(int rank, const std::vector<std::byte>& bytes) {
        Reader reader(bytes);
        auto count = reader.get<uint32_t>();
        std::lock_guard lock(mutex_);
        for (uint32_t i = 0; i < count && !reader.failed(); ++i) {
            std::string key = reader.get_text(kTextMost);
            ConstBytes value = reader.get_sized(kValueMost);
            published_[{rank, std::move(key)}].assign(value.begin(), value.end());
        }
        if (reader.failed())
            return Error{Code::malformed, "What a rank has put into the table does not parse",
                         rank};
        return {};
    }

    MeetingTable table_;
    Job job_;
    uint32_t fences_ = 0;
    std::mutex mutex_;  // what follows
    Writer fresh_;      // published since the last fence
    uint32_t fresh_count_ = 0;
    std::map<std::pair<int, std::string>, std::vector<std::byte>> published_;
};

}  // namespace

Result<std::unique_ptr<Wireup>> start_by_table(MeetingTable table) {
    auto wireup = std::make_unique<TableWireup>(std::move(table));
    TRY(wireup->join());
    return std::unique_ptr<Wireup>(std::move(wireup));
}

}  // namespace pomona
