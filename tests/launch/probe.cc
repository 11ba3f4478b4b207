// tests/launch/probe.cc: a rank that joins its job and then does what the test asks for.
// Idea: the launcher's tests need processes that join, exchange, die,
// hang or leave wrongly; no MPI library is needed for that, only the wire-up client.
#include "pmix/services.h"
#include "pmix/wireup/wireup.h"

#include "btl/base/format.h"
#include "btl/base/shared_names.h"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace pomona;

namespace {

std::string gather(Wireup& wireup) {
    std::string mine = format("value of {}", wireup.job().rank);
    if (!wireup.publish("word", bytes_of(mine)).ok() || !wireup.fence().ok()) return "failed";
    std::string all;
    for (int rank = 0; rank < wireup.job().size; ++rank) {
        auto value = wireup.lookup(rank, "word");
        all += format("{}{}", rank ? "," : "", value.ok() ? text_of(*value) : "missing");
    }
    auto unknown = wireup.lookup(0, "never published");
    return unknown.ok() ? "an unknown key was found" : all;
}

int info(Wireup& wireup) {
    const Job& job = wireup.job();
    std::string all = gather(wireup);
    std::string line = format(
        "rank={} size={} local={}/{} origin={} app={} universe={} over={} "
        "tag={} dir={} all={}\n",
        job.rank, job.size, job.local_rank, job.local_size, origin_name(job.origin), job.app_number,
        job.universe_size, job.oversubscribed ? 1 : 0, job.tag, job.directory, all);
    (void)!write(1, line.data(), line.size());
    return wireup.finalize().ok() ? 0 : 1;
}

// Many threads exchange at once; one value per thread and rank.
int threads(Wireup& wireup) {
    constexpr int kThreads = 8;
    std::vector<std::thread> workers;
    for (int t = 0; t < kThreads; ++t)
        workers.emplace_back([&, t] {
            (void)wireup.publish(format("t{}", t), bytes_of(format("{}/{}", wireup.job().rank, t)));
        });
    for (std::thread& worker : workers) worker.join();
    if (!wireup.fence().ok()) return 2;
    std::vector<int> wrong(kThreads);
    workers.clear();
    for (int t = 0; t < kThreads; ++t)
        workers.emplace_back([&, t] {
            for (int rank = 0; rank < wireup.job().size; ++rank) {
                auto value = wireup.lookup(rank, format("t{}", t));
                if (!value.ok() || text_of(*value) != format("{}/{}", rank, t)) ++wrong[t];
            }
        });
    for (std::thread& worker : workers) worker.join();
    for (int count : wrong)
        if (count) return 3;
    return wireup.finalize().ok() ? 0 : 1;
}

// What the ranks of the job prove to each other that they know.
std::string key_of(Wireup& wireup) {
    auto key = wireup.request(Service::job_key, {});
    std::string out;
    if (key.ok())
        for (std::byte each : *key) out += format("{:02x}", std::to_integer<unsigned>(each));
    return out;
}

// Is told of a death that was known before it asked.
int gone(Wireup& wireup) {
    if (!wireup.fence().ok()) return 2;
    int dead = -1;
    wireup.on_peer_death([&](int rank) { dead = rank; });
    for (int i = 0; i < 300 && dead < 0; ++i, usleep(10000)) wireup.drain();
    std::printf("rank %d was told of %d\n", wireup.job().rank, dead);
    return wireup.finalize().ok() ? 0 : 1;
}

// Leaves a named piece of shared memory behind, and the file that tells of it.
void make_shared_memory(const Job& job) {
    std::string name = format("/pomona-{}-{}", job.tag, job.local_rank);
    int note = open(shared_note(job.directory, name).c_str(), O_CREAT | O_WRONLY, 0600);
    if (note >= 0) close(note);
    int descriptor = shm_open(name.c_str(), O_CREAT | O_RDWR, 0600);
    if (descriptor >= 0) close(descriptor);
}

}  // namespace

int main(int count, char** words) {
    std::string what = count > 1 ? words[1] : "info";
    int number = count > 2 ? std::atoi(words[2]) : 0;
    int who = count > 3 ? std::atoi(words[3]) : 0;
    const char* own = std::getenv("RANK");
    if (what == "noinit" && own && std::atoi(own) == number) return 0;
    if (what == "noinit") usleep(static_cast<useconds_t>(who) * 1000);
    if (what == "gone" && own && std::atoi(own) == number) return 3;
    if (what == "gone") usleep(300000);  // it has ended when the others come
    auto started = Wireup::start();
    if (!started.ok()) {
        std::printf("start failed: %s\n", started.error().text().c_str());
        return 77;
    }
    Wireup& wireup = **started;
    const Job& job = wireup.job();
    if (what == "info") return info(wireup);
    if (what == "threads") return threads(wireup);
    if (what == "gone") return gone(wireup);
    if (what == "fences") {
        for (int i = 0; i < number; ++i)
            if (!wireup.fence().ok()) return 2;
        return wireup.finalize().ok() ? 0 : 1;
    }
    if (what == "exit") {  // in good order, with a code
        (void)wireup.finalize();
        return job.rank == who ? number : 0;
    }
    if (what == "key") {
        std::string line = format("key {} {}\n", job.rank, key_of(wireup));
        (void)!write(1, line.data(), line.size());
        what = "pause";
    }
    if (what == "ignore") std::signal(SIGTERM, SIG_IGN);
    make_shared_memory(job);
    if (!wireup.fence().ok()) return 4;
    std::printf("ready %s %s %d\n", job.tag.c_str(), job.directory.c_str(),
                static_cast<int>(getpid()));
    std::fflush(stdout);
    if (!wireup.fence().ok()) return 4;  // all have said so before one of them does anything
    if (what == "nofinalize") return job.rank == who ? number : wireup.finalize().ok() ? 0 : 5;
    if (what == "late_abort" && job.rank == who) usleep(600000);
    if (what.ends_with("abort") && job.rank == who) wireup.abort(number, "the test wants it");
    if (what == "die" && job.rank == who) {
        std::signal(number, SIG_DFL);  // sanitizers catch some
        kill(getpid(), number);
    }
    if (what == "spin")
        for (std::atomic<long> turns = 0;;) ++turns;
    if (what == "pause" || what == "ignore")
        for (;;) pause();
    (void)wireup.fence();  // somebody will never come
    return 6;
}
