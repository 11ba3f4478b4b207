// pmix/wireup/table_wireup.cc: see table_wireup.h.
// Idea: the table is used while MPI starts and never again: whoever serves it may end first. So a
// fence brings all that anybody has published, and lookups are answered from memory. Processes are
// on one machine when it was started once (boot id), they call it by the same name, and they share
// the memory of /dev/shm (containers may not). The table may hold what an earlier job has put there
// under the same keys (torchrun starts killed workers again over one store). So nothing counts that
// does not answer to a random number of this process: rank 0 names the job and lists the numbers it
// has found; a rank accepts the list that holds its own number, and says so; all keys that follow
// begin with the job's name, which is random too.
#include "pmix/wireup/table_wireup.h"

#include "btl/base/entropy.h"
#include "btl/base/format.h"
#include "btl/base/log.h"
#include "btl/base/messages.h"
#include "pmix/job_directory.h"
#include "pmix/wireup/origin.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

namespace pomona {

namespace {

constexpr size_t kTextMost = 1024;
constexpr int kNapMost = 50;  // milliseconds between two looks
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
        TRY(job_.rank == 0 ? lead() : follow());
        job_.tag = tag_of(job_.id);
        fill_local(job_);
        job_.oversubscribed = job_.local_size > machine_cores();
        // What a killed job has left nobody else removes.
        if (job_.local_rank == 0) sweep_job_directories();
        job_.directory = TRY(share_job_directory(job_.tag, ""));
        lock_ = TRY(hold_job_directory_together(job_.directory, job_.local_rank));
        return {};
    }

    void started() override {
        if (table_.leave) table_.leave();
        table_ = {};  // with what its functions hold
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
        if (!table_.put) return Error{Code::unsupported, "The table of the start is gone"};
        TRY(table_.put(key_of(name, job_.rank), mine.bytes()));
        for (int rank = 0; rank < job_.size; ++rank) {
            if (rank == job_.rank) continue;
            TRY(take_in(rank, TRY(get_of(rank, key_of(name, rank)))));
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
        leave_job_directory(job_.directory, std::exchange(lock_, -1), job_.local_rank);
        return {};
    }

private:
    // What a rank says under introduction_key().
    struct Introduction {
        std::string number;    // random, of this process
        std::string machine;   // equal on one machine
        std::string accepted;  // name of the job; "" so far
    };
    // When to look again at what has not come.
    class Patience {
    public:
        explicit Patience(double seconds) : limited_(seconds > 0) {
            if (limited_) end_ += std::chrono::microseconds(static_cast<int64_t>(seconds * 1e6));
        }
        bool wait() {
            if (limited_ && std::chrono::steady_clock::now() >= end_) return false;
            std::this_thread::sleep_for(std::chrono::milliseconds(nap_ms_));
            nap_ms_ = std::min(nap_ms_ * 2, kNapMost);
            return true;
        }

    private:
        bool limited_;
        std::chrono::steady_clock::time_point end_ = std::chrono::steady_clock::now();
        int nap_ms_ = 1;
    };

    static constexpr const char* kJobKey = "pomona job";
    static std::string introduction_key(int rank) { return format("pomona rank {}", rank); }
    std::string key_of(std::string_view what) const { return format("{} {}", job_.id, what); }
    std::string key_of(std::string_view what, int rank) const {
        return format("{} {} of rank {}", job_.id, what, rank);
    }

    static Result<std::string> random_name() {
        std::array<std::byte, 16> bits{};
        if (!random_bytes(bits)) return os_error(Code::io, "The system has no random numbers");
        std::string name;
        for (std::byte each : bits) name += format("{:02x}", static_cast<unsigned>(each));
        return name;
    }

    // What that rank puts there. Tables mostly wait by themselves, as long as we would.
    Result<std::vector<std::byte>> get_of(int rank, const std::string& key) {
        auto found = table_.get(key);
        if (found.ok() || found.error().code == Code::peer_gone) return found;
        return Error{Code::timed_out,
                     rank == 0 ? messages::table_root_late : messages::table_rank_late, rank};
    }

    Status introduce(const Introduction& own) {
        Writer out;
        out.put_text(own.number);
        out.put_text(own.machine);
        out.put_text(own.accepted);
        return table_.put(introduction_key(job_.rank), out.bytes());
    }
    // Empty where it does not parse: no process of this job has put that there.
    Result<Introduction> introduction_of(int rank) {
        auto bytes = TRY(get_of(rank, introduction_key(rank)));
        Reader reader(bytes);
        Introduction out;
        out.number = reader.get_text(kTextMost);
        out.machine = reader.get_text(kTextMost);
        out.accepted = reader.get_text(kTextMost);
        return reader.failed() ? Introduction{} : out;
    }

    // Rank 0. What it reads may be an earlier job's, until a rank has accepted this one's name.
    Status lead() {
        job_.id = TRY(random_name());
        auto size = static_cast<size_t>(job_.size);
        std::vector<Introduction> all(size);
        all[0].machine = machine_id();
        Patience patience(table_.timeout_s);
        std::vector<std::byte> told;
        for (;;) {
            Writer list;
            list.put_text(job_.id);
            int missing = -1;
            for (int rank = 0; rank < job_.size; ++rank) {
                Introduction& each = all[static_cast<size_t>(rank)];
                if (rank > 0 && each.accepted != job_.id) {
                    each = TRY(introduction_of(rank));
                    if (each.accepted != job_.id && missing < 0) missing = rank;
                }
                list.put_text(each.number);
            }
            if (missing < 0) break;
            if (list.bytes() != told) TRY(table_.put(kJobKey, list.bytes()));
            told = list.bytes();
            if (!patience.wait()) return Error{Code::timed_out, messages::table_rank_late, missing};
        }
        Writer machines;
        for (const Introduction& each : all) machines.put_text(each.machine);
        TRY(table_.put(key_of("machines"), machines.bytes()));
        return read_machines(machines.bytes());
    }

    // The other ranks.
    Status follow() {
        Introduction own{TRY(random_name()), machine_id(), ""};
        TRY(introduce(own));
        Patience patience(table_.timeout_s);
        while ((own.accepted = TRY(job_that_lists(own.number))).empty())
            if (!patience.wait()) return Error{Code::timed_out, messages::table_root_late, 0};
        job_.id = own.accepted;
        TRY(introduce(own));
        return read_machines(TRY(get_of(0, key_of("machines"))));
    }
    // The name of the job whose list has this number at our place; "" where another job's stands.
    Result<std::string> job_that_lists(const std::string& number) {
        auto bytes = TRY(get_of(0, kJobKey));
        Reader reader(bytes);
        std::string name = reader.get_text(kTextMost);
        bool ours = !name.empty();
        for (int rank = 0; rank <= job_.rank && ours; ++rank) {
            std::string listed = reader.get_text(kTextMost);
            ours = !reader.failed() && (rank < job_.rank || listed == number);
        }
        return ours ? name : std::string();
    }

    Status read_machines(const std::vector<std::byte>& bytes) {
        Reader reader(bytes);
        std::map<std::string, int> nodes;
        for (int rank = 0; rank < job_.size; ++rank) {
            std::string machine = reader.get_text(kTextMost);
            int next = static_cast<int>(nodes.size());
            job_.node_of.push_back(nodes.try_emplace(std::move(machine), next).first->second);
        }
        if (reader.failed()) return Error{Code::malformed, messages::table_of_others};
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
    int lock_ = -1;  // of the job's directory
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
