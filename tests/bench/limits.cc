// limits.cc: the hardware and system limits that stand beside an MPI library's figures.
//
// handover      two processes on two cores pass one cache line to and fro in shared memory: half
//               a round trip; no message passing through shared memory can be faster
// memcpy        one process copies between two buffers; the size is what is copied
// shm-copy      two processes, a chunked copy in and out of shared memory at the same time
// reduce        a[i] += b[i], floats, one process; bandwidth counts a's bytes, as allreduce does
// tcp-latency   over a TCP connection of two processes that poll: half a round trip
// tcp-sleep     the same with both asleep in recv, as programs that do not burn a core
// tcp-stream    one way, 16 writes of the given size, then an answer
// wake          a process asleep in a read of a socket: from the write to its return
// spawn         fork, exec and end of an empty process
// meet-4        four processes (also 2, 8) store a word each and wait until they have seen all the others':
//               no collective in which all need all can be quicker. Lined up, and the greatest time of all
//               taken, as the MPI cases do; "in a row" in batches of 1 ms, as their --back-to-back. More
//               processes than cores yield while they wait: the ideal of ranks that share cores.
// Every loop is timed like the MPI cases: batches of at least 20 us; p50 and p99 over batches.
#include "limits.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "launch.h"
#include "machine.h"
#include "report.h"

#if !defined(MAP_ANONYMOUS)
#define MAP_ANONYMOUS MAP_ANON
#endif

namespace pomona::bench {

namespace {

constexpr size_t kLine = 128;

void pause_cpu() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

[[noreturn]] void give_up(const char* what) {
    std::fprintf(stderr, "mpi-bench limits: %s: %s\n", what, std::strerror(errno));
    std::exit(1);
}

struct Limits {
    Options options;
    SizeRange range;
    std::vector<Row> rows;
    Table table{stdout};

    void add(const char* name, size_t bytes, bool sized, const Summary& time, double gbs) {
        rows.push_back(Row{name, bytes, sized, time, gbs, -1, false, {}});
        table.row(rows.back());
    }

    // Batches of a round for the time asked for; the first millisecond warms up.
    Summary measure(const std::function<void()>& round) const {
        double start = now_us();
        size_t rounds = 0;
        while (now_us() - start < 1000 || rounds < 1) round(), ++rounds;
        double each = (now_us() - start) / double(rounds);
        size_t inner = each < 20 ? size_t(20 / each) + 1 : 1;
        size_t outer = samples_for(options.seconds * 1e6, each * double(inner), 5, 20000);
        if (options.repeat > 0) outer = size_t(options.repeat);
        std::vector<double> samples(outer);
        for (double& sample : samples) {
            double begin = now_us();
            for (size_t i = 0; i < inner; ++i) round();
            sample = (now_us() - begin) / double(inner);
        }
        return summarize(std::move(samples));
    }
};

void halve(Summary* time) {
    for (double* t : {&time->min, &time->p50, &time->p99, &time->max, &time->mean}) *t /= 2;
}

template <class T> T* shared(size_t bytes) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) give_up("no shared memory");
    std::memset(memory, 0, bytes);
    return static_cast<T*>(memory);
}

// The child does `work` on core 1 and ends; the parent goes on, on core 0.
pid_t beside(const std::function<void()>& work) {
    std::fflush(stdout);
    pid_t child = fork();
    if (child < 0) give_up("fork");
    if (child == 0) {
        pin_to_core(1);
        work();
        _exit(0);
    }
    pin_to_core(0);
    return child;
}

void join(pid_t child) {
    int status = 0;
    if (waitpid(child, &status, 0) < 0 || status != 0) give_up("the second process failed");
}

struct alignas(kLine) Line {
    std::atomic<uint64_t> word{0};
};

void wait_for(std::atomic<uint64_t>& word, uint64_t value) {
    while (word.load(std::memory_order_acquire) != value) pause_cpu();
}

constexpr uint64_t kStop = ~uint64_t(0);

void handover(Limits& l) {
    l.table.title("handover: one cache line between two processes, half a round trip");
    auto* lines = shared<Line>(2 * sizeof(Line));
    pid_t child = beside([&] {
        for (uint64_t turn = 1;; ++turn) {
            uint64_t seen;
            while ((seen = lines[0].word.load(std::memory_order_acquire)) != turn) {
                if (seen == kStop) return;
                pause_cpu();
            }
            lines[1].word.store(turn, std::memory_order_release);
        }
    });
    uint64_t turn = 0;
    Summary time = l.measure([&] {
        lines[0].word.store(++turn, std::memory_order_release);
        wait_for(lines[1].word, turn);
    });
    lines[0].word.store(kStop, std::memory_order_release);
    join(child);
    halve(&time);
    l.add("handover", 8, true, time, -1);
    munmap(lines, 2 * sizeof(Line));
}

void meet(Limits& l, int processes) {
    constexpr size_t kFewest = 10, kMost = 20000;
    constexpr double kBatchUs = 1000;  // as --back-to-back of the MPI cases
    struct Place {
        Line here, beside[4];
        double in_a_row[kMost], lined_up[kMost];
    };
    struct Counts {
        Line batches, rounds, calls;
    };
    auto* places = shared<Place>(size_t(processes) * sizeof(Place));
    auto* counts = shared<Counts>(sizeof(Counts));
    bool shares_cores = processes > describe_machine().cores;
    auto wait = [&](const Line& line, uint64_t turn) {
        while (line.word.load(std::memory_order_acquire) < turn) {
            if (shares_cores) sched_yield();
            else pause_cpu();
        }
    };
    auto line_up = [&](int me, uint64_t turn) {
        for (int i = 0; 1 << i < processes; ++i) {
            places[(me + (1 << i)) % processes].beside[i].word.store(turn,
                                                                     std::memory_order_release);
            wait(places[me].beside[i], turn);
        }
    };
    auto samples = [&](double us_each) {
        return l.options.repeat > 0 ? std::min(size_t(l.options.repeat), kMost)
                                    : samples_for(l.options.seconds * 1e6, us_each, kFewest, kMost);
    };
    auto run = [&](int me) {
        uint64_t turn = 0;
        auto rounds = [&](size_t number) {
            double start = now_us();
            for (size_t i = 0; i < number; ++i) {
                places[me].here.word.store(++turn, std::memory_order_release);
                for (int other = 0; other < processes; ++other) wait(places[other].here, turn);
            }
            return (now_us() - start) / double(number);
        };
        double each = rounds(1000);
        if (me == 0) {
            counts->rounds.word = size_t(kBatchUs / each) + 1;
            counts->batches.word = samples(each * double(counts->rounds.word));
            counts->calls.word = samples(each);
        }
        rounds(1);  // so that all know the numbers
        for (size_t i = 0; i < counts->batches.word; ++i)
            places[me].in_a_row[i] = rounds(counts->rounds.word);
        for (size_t i = 0; i < counts->calls.word; ++i) {
            line_up(me, i + 1);
            places[me].lined_up[i] = rounds(1);
        }
    };
    std::fflush(stdout);
    std::vector<pid_t> children;
    for (int me = 1; me < processes; ++me) {
        children.push_back(fork());
        if (children.back() < 0) give_up("fork");
        if (children.back() == 0) run(me), _exit(0);
    }
    run(0);
    for (pid_t child : children) join(child);
    auto add = [&](const std::string& name, size_t number, auto member) {
        std::vector<double> slowest(number);
        for (size_t i = 0; i < number; ++i)
            for (int me = 0; me < processes; ++me)
                slowest[i] = std::max(slowest[i], (places[me].*member)[i]);
        l.table.title(name + ": processes wait until all have seen all the others' words");
        l.add(name.c_str(), 0, false, summarize(std::move(slowest)), -1);
    };
    std::string name = "meet-" + std::to_string(processes);
    add(name, counts->calls.word, &Place::lined_up);
    add(name + " in a row", counts->batches.word, &Place::in_a_row);
    munmap(counts, sizeof(Counts));
    munmap(places, size_t(processes) * sizeof(Place));
}

void copy(Limits& l, SizeRange range) {
    l.table.title("memcpy: one process");
    pin_to_core(0);
    for (size_t bytes : sizes_of(range, l.options.step)) {
        std::vector<char> from(bytes, 1), to(bytes, 0);
        Summary time = l.measure([&] { std::memcpy(to.data(), from.data(), bytes); });
        if (to != from) give_up("memcpy copied wrongly");
        l.add("memcpy", bytes, true, time, double(bytes) / time.p50 * 1e-3);
    }
}

// Chunks of a ring in shared memory: both sides copy at once, as a two-copy transport must.
struct Pipe {
    static constexpr size_t kChunk = 32 << 10, kChunks = 8;
    Line head, tail;
    alignas(4096) char chunks[kChunks][kChunk];

    void push(const char* data, size_t bytes, uint64_t* turn) {
        for (size_t at = 0; at < bytes; at += kChunk, ++*turn) {
            while (*turn - tail.word.load(std::memory_order_acquire) >= kChunks) pause_cpu();
            std::memcpy(chunks[*turn % kChunks], data + at, std::min(kChunk, bytes - at));
            head.word.store(*turn + 1, std::memory_order_release);
        }
    }
    void pull(char* data, size_t bytes, uint64_t* turn) {
        for (size_t at = 0; at < bytes; at += kChunk, ++*turn) {
            while (head.word.load(std::memory_order_acquire) <= *turn) pause_cpu();
            std::memcpy(data + at, chunks[*turn % kChunks], std::min(kChunk, bytes - at));
            tail.word.store(*turn + 1, std::memory_order_release);
        }
    }
};

void shm_copy(Limits& l, SizeRange range) {
    l.table.title("shm-copy: one way through a ring of 32 KiB chunks, both sides copying");
    for (size_t bytes : sizes_of(range, l.options.step)) {
        auto* pipe = shared<Pipe>(sizeof(Pipe));
        auto* stop = shared<Line>(sizeof(Line));
        std::vector<char> data(bytes, 1);
        pid_t child = beside([&] {
            std::vector<char> out(bytes, 0);
            uint64_t turn = 0;
            while (true) {
                while (pipe->head.word.load(std::memory_order_acquire) <= turn) {
                    if (stop->word.load(std::memory_order_acquire)) _exit(out == data ? 0 : 1);
                    pause_cpu();
                }
                pipe->pull(out.data(), bytes, &turn);
            }
        });
        uint64_t turn = 0;
        Summary time = l.measure([&] { pipe->push(data.data(), bytes, &turn); });
        wait_for(pipe->tail.word, turn);
        stop->word.store(1, std::memory_order_release);
        join(child);
        l.add("shm-copy", bytes, true, time, double(bytes) / time.p50 * 1e-3);
        munmap(pipe, sizeof(Pipe));
        munmap(stop, sizeof(Line));
    }
}

// Where the compiler can make several versions of one function, the CPU's widest vectors are used.
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__)
__attribute__((target_clones("default", "avx2", "avx512f"), optimize("O3")))
#endif
void add_floats(float* a, const float* b, size_t count) {
    for (size_t i = 0; i < count; ++i) a[i] += b[i];
}

void reduce(Limits& l, SizeRange range) {
    l.table.title("reduce: a[i] += b[i], floats, one process");
    pin_to_core(0);
    for (size_t bytes : sizes_of(range, l.options.step)) {
        size_t count = bytes / sizeof(float);
        std::vector<float> a(count, 1.0f), b(count, 0.5f);
        Summary time = l.measure([&] { add_floats(a.data(), b.data(), count); });
        l.add("reduce", bytes, true, time, double(bytes) / time.p50 * 1e-3);
    }
}

void set_no_delay(int socket) {
    int on = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void write_all(int socket, const char* data, size_t bytes) {
    while (bytes) {
        ssize_t done = send(socket, data, bytes, 0);
        if (done <= 0) give_up("send");
        data += done, bytes -= size_t(done);
    }
}

// `flags`: 0 sleeps until data comes, MSG_DONTWAIT polls for it.
bool read_all(int socket, char* data, size_t bytes, int flags = 0) {
    while (bytes) {
        ssize_t done = recv(socket, data, bytes, flags);
        if (done == 0) return false;
        if (done < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) continue;
        if (done < 0) give_up("recv");
        data += done, bytes -= size_t(done);
    }
    return true;
}

// What the serving side is asked to do: so many times, read and answer so many bytes.
struct Request {
    uint64_t rounds, read, answer, polls;
};

void serve(int socket) {
    set_no_delay(socket);
    Request request{};
    std::vector<char> data;
    while (read_all(socket, reinterpret_cast<char*>(&request), sizeof request)) {
        data.resize(std::max<size_t>(request.read, request.answer));
        for (uint64_t i = 0; i < request.rounds; ++i) {
            int flags = request.polls ? MSG_DONTWAIT : 0;
            if (!read_all(socket, data.data(), request.read, flags)) return;
            write_all(socket, data.data(), request.answer);
        }
    }
    close(socket);
}

int listen_at(const char* address, uint16_t* port) {
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    int on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(*port);
    inet_pton(AF_INET, address, &at.sin_addr);
    socklen_t length = sizeof at;
    if (bind(listener, reinterpret_cast<sockaddr*>(&at), sizeof at) < 0 || listen(listener, 4) < 0)
        give_up("could not listen");
    getsockname(listener, reinterpret_cast<sockaddr*>(&at), &length);
    *port = ntohs(at.sin_port);
    return listener;
}

int connect_to(const std::string& address, uint16_t port) {
    int out = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    inet_pton(AF_INET, address.c_str(), &at.sin_addr);
    for (int tries = 0; connect(out, reinterpret_cast<sockaddr*>(&at), sizeof at) < 0; ++tries) {
        if (tries == 100) give_up("could not connect");
        usleep(20000);
    }
    set_no_delay(out);
    return out;
}

// Rounds come in requests of as many as a batch has, so that no request is inside a timing.
Summary tcp_rounds(Limits& l, int socket, size_t bytes, size_t answer, bool polls) {
    std::vector<char> out(bytes, 1), in(std::max<size_t>(answer, 1));
    auto rounds = [&](uint64_t count) {
        Request request{count, bytes, answer, polls};
        int flags = polls ? MSG_DONTWAIT : 0;
        write_all(socket, reinterpret_cast<char*>(&request), sizeof request);
        double start = now_us();
        for (uint64_t i = 0; i < count; ++i) {
            write_all(socket, out.data(), bytes);
            if (!read_all(socket, in.data(), answer, flags)) give_up("the other side closed");
        }
        return (now_us() - start) / double(count);
    };
    uint64_t trial = bytes >= 1u << 20 ? 1 : 20;  // of MiBs, a slow link takes seconds
    double each = std::max(rounds(trial), rounds(trial));
    uint64_t inner = each < 20 ? uint64_t(20 / each) + 1 : 1;
    size_t outer = samples_for(l.options.seconds * 1e6, each * double(inner), 5, 20000);
    if (l.options.repeat > 0) outer = size_t(l.options.repeat);
    std::vector<double> samples(outer);
    for (double& sample : samples) sample = rounds(inner);
    return summarize(std::move(samples));
}

void tcp_with(Limits& l, int socket, const std::string& where) {
    for (bool polls : {true, false}) {
        const char* name = polls ? "tcp-latency" : "tcp-sleep";
        l.table.title(std::string(name) + ": " + where + ", half a round trip, " +
                      (polls ? "both sides polling" : "both sides asleep in recv"));
        for (size_t bytes : sizes_of({8, 4096}, std::max(l.options.step, 8))) {
            Summary time = tcp_rounds(l, socket, bytes, bytes, polls);
            halve(&time);
            l.add(name, bytes, true, time, -1);
        }
    }
    l.table.title("tcp-stream: " + where + ", 16 writes and a 4-byte answer");
    SizeRange streamed{65536, std::clamp<size_t>(l.range.last, 65536, 4u << 20)};
    for (size_t bytes : sizes_of(streamed, std::max(l.options.step, 4))) {
        Summary time = tcp_rounds(l, socket, bytes * 16, 4, false);
        l.add("tcp-stream", bytes, true, time, double(bytes * 16) / time.p50 * 1e-3);
    }
}

void tcp(Limits& l) {
    uint16_t port = 0;
    int listener = listen_at("127.0.0.1", &port);
    pid_t child = beside([&] { serve(accept(listener, nullptr, nullptr)); });
    close(listener);
    int socket = connect_to("127.0.0.1", port);
    tcp_with(l, socket, "loopback");
    close(socket);
    join(child);
}

void wake(Limits& l) {
    l.table.title("wake: from a write to the return of the process asleep in recv");
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0) give_up("socketpair");
    auto* woken = shared<double>(sizeof(double));
    pid_t child = beside([&] {
        close(pair[0]);
        char byte;
        while (read_all(pair[1], &byte, 1)) {
            *woken = now_us();
            write_all(pair[1], &byte, 1);
        }
    });
    close(pair[1]);
    std::vector<double> samples(l.options.repeat > 0 ? size_t(l.options.repeat) : 30);
    for (double& sample : samples) {
        usleep(5000);
        char byte = 1;
        double start = now_us();
        write_all(pair[0], &byte, 1);
        read_all(pair[0], &byte, 1);
        sample = *woken - start;
    }
    close(pair[0]);
    join(child);
    l.add("wake", 0, false, summarize(samples), -1);
}

void spawn(Limits& l) {
    l.table.title("spawn: start and end of an empty process");
    Summary time = l.measure([] {
        if (run({"true"}) != 0) give_up("could not run true");
    });
    l.add("spawn", 0, false, time, -1);
}

int serve_at(const std::string& address, uint16_t port) {
    int listener = listen_at(address.c_str(), &port);
    serve(accept(listener, nullptr, nullptr));
    return 0;
}

}  // namespace

int run_limits(int argc, char** argv) {
    Limits limits;
    std::string sizes = "8K:16M", server, client;
    uint16_t port = 7171;
    Options& o = limits.options;
    o.step = 4;
    CLI::App app{"Measures what the hardware and the system allow, without MPI."};
    app.add_option("what", o.cases, "meet handover memcpy shm-copy reduce tcp wake spawn");
    app.add_option("-s,--sizes", sizes, "sizes of memcpy, shm-copy and reduce, min:max");
    app.add_option("--step", o.step, "each size is this many times the one before");
    app.add_option("-t,--time", o.seconds, "seconds per case and size");
    app.add_option("-r,--repeat", o.repeat, "samples per size (default: as --time allows)");
    app.add_option("--json", o.json, "write the results to this file");
    app.add_option("--tcp-server", server, "serve one tcp run on this address, then end");
    app.add_option("--tcp-client", client, "run tcp against a server at this address");
    app.add_option("--port", port, "for --tcp-server and --tcp-client");
    CLI11_PARSE(app, argc, argv);
    auto range = parse_range(sizes);
    if (!range) return std::fprintf(stderr, "mpi-bench limits: --sizes is not min:max\n"), 2;
    limits.range = *range;
    std::signal(SIGPIPE, SIG_IGN);
    if (!server.empty()) return serve_at(server, port);
    auto wanted = [&](const char* name) {
        return o.cases.empty() || std::find(o.cases.begin(), o.cases.end(), name) != o.cases.end();
    };
    if (!client.empty()) {
        int socket = connect_to(client, port);
        tcp_with(limits, socket, client);
        close(socket);
    } else {
        if (wanted("meet"))  // first: the others bind this process
            for (int processes : {2, 4, 8}) meet(limits, processes);
        if (wanted("handover")) handover(limits);
        if (wanted("memcpy")) copy(limits, *range);
        if (wanted("shm-copy")) shm_copy(limits, *range);
        if (wanted("reduce")) reduce(limits, *range);
        if (wanted("tcp")) tcp(limits);
        if (wanted("wake")) wake(limits);
        if (wanted("spawn")) spawn(limits);
    }
    if (o.json.empty()) return 0;
    Setting setting;
    setting.library = "limits";
    setting.timer_ns = timer_cost_ns();
    for (int i = 0; i < argc; ++i) setting.command += (i ? " " : "") + std::string(argv[i]);
    return write_file(o.json, to_json(setting, o, limits.rows)) ? 0 : 1;
}

}  // namespace pomona::bench
