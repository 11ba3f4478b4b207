// tests/threads/thread_world.cc: the exchange in place of a launcher, and one Process for each
// thread.
#include "tests/threads/thread_world.h"

#include "btl/base/format.h"

#include <condition_variable>
#include <cstdlib>
#include <gtest/gtest.h>
#include <cstdio>
#include <map>
#include <mutex>
#include <unistd.h>

namespace pomona {
namespace {

struct Exchange {
    std::mutex mutex;
    std::condition_variable changed;
    std::map<std::pair<int, std::string>, std::vector<std::byte>> values;
    int size = 0, inside = 0;
    uint64_t fences = 0;
    std::string directory, tag;
};

class ThreadWireup final : public Wireup {
public:
    ThreadWireup(Exchange& exchange, int rank) : exchange_(exchange) {
        job_.rank = job_.local_rank = rank;
        job_.size = job_.local_size = job_.universe_size = exchange.size;
        job_.id = job_.tag = exchange.tag;
        job_.directory = exchange.directory;
        job_.node_of.assign(static_cast<size_t>(exchange.size), 0);
        for (int r = 0; r < exchange.size; ++r) job_.local_ranks.push_back(r);
        job_.host = "threads";
        job_.oversubscribed = true;
    }
    const Job& job() const override { return job_; }
    Status publish(std::string_view key, ConstBytes value) override {
        std::lock_guard guard(exchange_.mutex);
        exchange_.values[{job_.rank, std::string(key)}] = {value.begin(), value.end()};
        return {};
    }
    Status fence() override {
        std::unique_lock lock(exchange_.mutex);
        uint64_t mine = exchange_.fences;
        if (++exchange_.inside == exchange_.size) {
            exchange_.inside = 0;
            ++exchange_.fences;
            exchange_.changed.notify_all();
        }
        exchange_.changed.wait(lock, [&] { return exchange_.fences != mine; });
        return {};
    }
    Result<std::vector<std::byte>> lookup(int rank, std::string_view key) override {
        std::lock_guard guard(exchange_.mutex);
        auto found = exchange_.values.find({rank, std::string(key)});
        if (found == exchange_.values.end()) return Error{Code::not_found, "Not published", rank};
        return found->second;
    }
    [[noreturn]] void abort(int code, std::string_view message) override {
        std::fprintf(stderr, "rank %d aborts: %.*s\n", job_.rank, static_cast<int>(message.size()),
                     message.data());
        std::_Exit(code ? code : 1);
    }
    void on_peer_death(std::function<void(int)>) override {}
    Status finalize() override { return {}; }

private:
    Exchange& exchange_;
    Job job_;
};

void run_rank(const ThreadJob& job, Exchange& exchange, int rank,
              const std::function<void(int)>& program) {
    std::vector<std::string> words = job.environment;
    words.push_back("POMONA_TRANSPORTS=self," + job.transport);
    // Small rings run full, so that back-pressure is part of every test.
    words.push_back("POMONA_SHM_RING_SLOTS=64");
    words.push_back("POMONA_SHM_RING_BYTES=65536");
    words.push_back("POMONA_SHM_FRAGMENT=16384");
    words.push_back("POMONA_SHM_EAGER_MAX=4096");
    words.push_back("POMONA_TCP_EAGER_MAX=8192");
    std::vector<const char*> environment;
    for (const std::string& word : words) environment.push_back(word.c_str());
    environment.push_back(nullptr);
    Process own(environment.data());
    current_process = &own;
    Status started = own.start(job.level, std::make_unique<ThreadWireup>(exchange, rank));
    if (!started.ok()) {
        std::fprintf(stderr, "rank %d: %s\n", rank, started.error().text().c_str());
        std::abort();  // the others would wait for it
    }
    int provided = -1;
    EXPECT_EQ(MPI_Init_thread(nullptr, nullptr, job.level, &provided), MPI_SUCCESS);
    EXPECT_GE(provided, job.level);
    program(rank);
    EXPECT_EQ(MPI_Finalize(), MPI_SUCCESS);
    current_process = nullptr;
}

}  // namespace

void run_threads(const ThreadJob& job, const std::function<void(int)>& program) {
    static std::atomic<int> jobs{0};
    objects_shared.store(true, std::memory_order_relaxed);  // predefined objects, by all ranks
    Exchange exchange;
    exchange.size = job.ranks;
    exchange.tag = format("t{}x{}", getpid(), jobs.fetch_add(1));
    char pattern[] = "/tmp/pomona-threads-XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    exchange.directory = pattern;
    std::vector<std::thread> threads;
    for (int rank = 0; rank < job.ranks; ++rank)
        threads.emplace_back([&, rank] { run_rank(job, exchange, rank, program); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(rmdir(pattern), 0) << pattern << " was left behind, or something in it";
}

std::thread more_of_this_rank(std::function<void()> function) {
    return std::thread([rank = current_process, function = std::move(function)] {
        current_process = rank;
        function();
        current_process = nullptr;
    });
}

std::vector<ThreadForm> thread_forms() {
    std::vector<ThreadForm> forms;
    for (const char* transport : {"shm", "tcp"}) {
        bool shm = std::string(transport) == "shm";
        forms.push_back({shm ? "shm" : "tcp", {3, transport, MPI_THREAD_SINGLE, {}}});
        forms.push_back(
            {shm ? "shm_multiple" : "tcp_multiple", {3, transport, MPI_THREAD_MULTIPLE, {}}});
        // Whoever waits sleeps at once: doorbells, armed rings, parked threads.
        forms.push_back({shm ? "shm_asleep" : "tcp_asleep",
                         {2, transport, MPI_THREAD_MULTIPLE, {"POMONA_SPIN_US=0"}}});
        forms.push_back({shm ? "shm_progress" : "tcp_progress",
                         {2, transport, MPI_THREAD_MULTIPLE, {"POMONA_PROGRESS=thread"}}});
    }
    return forms;
}

uint64_t threads_seed() {
    const char* text = std::getenv("POMONA_SEED");
    return text ? std::strtoull(text, nullptr, 0) : 20261121;
}

}  // namespace pomona
