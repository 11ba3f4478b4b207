// tests/launch/control_test.cc: what mpirun and its ranks say to each other, who started a process,
// and names and ports, without processes.
#include "pmix/control.h"
#include "pmix/launch/control_server.h"
#include "pmix/wireup/origin.h"
#include "pmix/services.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace pomona {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Goal: a rank that says good-bye and has gone before mpirun reads its first word has left in good
// order, also where mpirun has something to tell it (that rank 1 has ended).
TEST(control_server, reads_the_words_of_a_rank_that_has_gone) {
    std::signal(SIGPIPE, SIG_IGN);
    std::string directory = testing::TempDir() + "pomona-control-XXXXXX";
    ASSERT_TRUE(mkdtemp(directory.data()));
    event_base* base = event_base_new();
    {
        ControlServer server(base, 2);
        ASSERT_TRUE(server.listen(directory).ok());
        server.tell_gone(1, "was killed");
        int rank = socket(AF_UNIX, SOCK_STREAM, 0);
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        control_socket_path(directory).copy(address.sun_path, sizeof address.sun_path - 1);
        ASSERT_EQ(connect(rank, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
        Writer hello;
        hello.put(int32_t{0});
        hello.put(int32_t{1});
        std::vector<std::byte> words = control_frame(ControlType::hello, hello);
        std::vector<std::byte> last = control_frame(ControlType::finalized);
        words.insert(words.end(), last.begin(), last.end());
        ASSERT_EQ(write(rank, words.data(), words.size()), static_cast<ssize_t>(words.size()));
        close(rank);
        server.settle(0);
        EXPECT_EQ(server.phase(0), ControlServer::Phase::finalized);
    }
    event_base_free(base);
    rmdir(directory.c_str());
}

// Goal: a job that Slurm starts again under its old number is another run; ranks of one server are
// of one.
TEST(origin, runs_of_one_name_are_told_apart) {
    const char* first[] = {"PMIX_SERVER_URI41=slurm.1;tcp4://127.0.0.1:5000", "PMIX_RANK=0",
                           "PMIX_SERVER_URI2=slurm.1;tcp4://127.0.0.1:5000", nullptr};
    const char* other_rank[] = {"PMIX_SERVER_URI2=slurm.1;tcp4://127.0.0.1:5000", "PMIX_RANK=1",
                                "PMIX_SERVER_URI41=slurm.1;tcp4://127.0.0.1:5000", nullptr};
    const char* again[] = {"PMIX_SERVER_URI41=slurm.1;tcp4://127.0.0.1:5000", "PMIX_RANK=0",
                           "PMIX_SERVER_URI2=slurm.1;tcp4://127.0.0.1:5000",
                           "SLURM_RESTART_COUNT=1", nullptr};
    const char* other_server[] = {"PMIX_SERVER_URI2=slurm.1;tcp4://127.0.0.1:5001", nullptr};
    const char* ours[] = {"POMONA_JOB_ID=abc", "SLURM_RESTART_COUNT=1", nullptr};
    EXPECT_EQ(incarnation_of(first), incarnation_of(other_rank));
    EXPECT_NE(incarnation_of(first), incarnation_of(again));
    EXPECT_NE(incarnation_of(first), incarnation_of(other_server));
    EXPECT_EQ(incarnation_of(ours), 0u);
}

TEST(origin, our_mpirun) {
    const char* environment[] = {"POMONA_JOB_ID=abc",     "POMONA_JOB_RANK=3",
                                 "POMONA_JOB_SIZE=4",     "POMONA_JOB_NODES=0x2,1x2",
                                 "POMONA_JOB_DIR=/tmp/x", nullptr};
    Started started = find_origin(environment);
    EXPECT_EQ(started.origin, Origin::mpirun);
    EXPECT_EQ(started.refusal, "");
    EXPECT_EQ(started.job.local_rank, 1);
    EXPECT_THAT(started.job.local_ranks, ElementsAre(2, 3));
}

TEST(origin, an_inner_launcher_wins) {
    const char* environment[] = {"POMONA_JOB_ID=abc", "PMIX_NAMESPACE=other", nullptr};
    EXPECT_EQ(find_origin(environment).origin, Origin::pmix);
    const char* same[] = {"POMONA_JOB_ID=abc", "PMIX_NAMESPACE=abc-0s", nullptr};
    EXPECT_EQ(find_origin(same).origin, Origin::mpirun);
    EXPECT_NE(find_origin(same).refusal, "");  // the rest is missing
}

TEST(origin, accidental_singletons_are_refused) {
    const char* hydra[] = {"PMI_SIZE=2", "PMI_RANK=0", nullptr};
    EXPECT_THAT(find_origin(hydra).refusal, HasSubstr("mpirun"));
    const char* slurm[] = {"SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=4", nullptr};
    EXPECT_THAT(find_origin(slurm).refusal, HasSubstr("--mpi=pmix"));
    const char* torchrun[] = {"TORCHELASTIC_RUN_ID=none", "WORLD_SIZE=2", nullptr};
    EXPECT_THAT(find_origin(torchrun).refusal, HasSubstr("WORLD_SIZE"));
    const char* others[] = {"RANK=0", "WORLD_SIZE=2", nullptr};  // may mean anything
    EXPECT_EQ(find_origin(others).refusal, "");
    const char* one[] = {"RANK=0", "WORLD_SIZE=1", "MASTER_ADDR=a", "MASTER_PORT=1", nullptr};
    EXPECT_EQ(find_origin(one).refusal, "");
    const char* alone[] = {"PMI_SIZE=1", "SLURM_NTASKS=4", nullptr};
    EXPECT_EQ(find_origin(alone).refusal, "");
}

TEST(origin, node_runs_there_and_back) {
    std::vector<int> nodes{0, 0, 1, 0, 2, 2, 2};
    auto back = parse_node_runs(node_runs(nodes), nodes.size());
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(*back, nodes);
    for (const char* wrong :
         {"", "0x", "0x3", "0x8", "ax7", "0x-7", "0x7,", "0x3,1x5", "0x99999999999"})
        EXPECT_EQ(parse_node_runs(wrong, 7).ok(), std::string_view(wrong) == "0x7,") << wrong;
}

TEST(control, frames_survive_any_cutting) {
    // Goal: the parser yields the same frames however the stream is cut.
    Writer payload;
    payload.put_text("key");
    payload.put_sized(bytes_of("value"));
    std::vector<std::byte> stream;
    for (ControlType type : {ControlType::publish, ControlType::fence, ControlType::value}) {
        auto frame = control_frame(type, type == ControlType::fence ? Writer() : payload);
        stream.insert(stream.end(), frame.begin(), frame.end());
    }
    for (size_t piece = 1; piece <= stream.size(); ++piece) {
        ControlParser parser;
        std::vector<ControlType> seen;
        for (size_t at = 0; at < stream.size(); at += piece) {
            parser.feed(ConstBytes(stream).subspan(at, std::min(piece, stream.size() - at)));
            while (auto frame = parser.next()) seen.push_back(frame->type);
        }
        EXPECT_THAT(seen,
                    ElementsAre(ControlType::publish, ControlType::fence, ControlType::value));
        EXPECT_FALSE(parser.malformed());
    }
}

TEST(control, a_frame_beyond_the_limit_is_malformed) {
    for (uint32_t length : {0u, static_cast<uint32_t>(kControlFrameMax + 1), 0xffffffffu}) {
        Writer writer;
        writer.put(length);
        ControlParser parser;
        parser.feed(writer.bytes());
        EXPECT_FALSE(parser.next().has_value());
        EXPECT_TRUE(parser.malformed());
    }
}

// ---- services

Writer ask(Services& services, int rank, Service service, const Writer& words) {
    Writer request;
    request.put(service);
    request.put_bytes(words.bytes());
    Reader reader(request.bytes());
    return services.answer(rank, reader);
}
Writer text(const char* one, const char* other = nullptr) {
    Writer out;
    out.put_text(one);
    if (other) out.put_text(other);
    return out;
}
Code code_of(const Writer& answer) { return static_cast<Code>(answer.bytes()[0]); }

TEST(services, names_are_kept_once) {
    Services services;
    EXPECT_EQ(code_of(ask(services, 0, Service::find_name, text("a"))), Code::not_found);
    EXPECT_EQ(code_of(ask(services, 0, Service::publish, text("a", "port"))), Code::ok);
    EXPECT_EQ(code_of(ask(services, 1, Service::publish, text("a", "other"))), Code::refused);
    Writer found = ask(services, 1, Service::find_name, text("a"));
    EXPECT_EQ(code_of(found), Code::ok);
    Reader reader(ConstBytes(found.bytes()).subspan(1));
    EXPECT_EQ(reader.get_text(100), "port");
    EXPECT_EQ(code_of(ask(services, 0, Service::unpublish, text("a"))), Code::ok);
    EXPECT_EQ(code_of(ask(services, 0, Service::unpublish, text("a"))), Code::not_found);
}

TEST(services, two_sides_of_a_port_meet_in_order) {
    Services services;
    auto come = [&](int rank, uint8_t side) {
        Writer words = text("p");
        words.put(side);
        Writer answer = ask(services, rank, Service::meet, words);
        Writer ticket;
        ticket.put_bytes(ConstBytes(answer.bytes()).subspan(1));
        return ticket;
    };
    auto partner = [&](const Writer& ticket) {
        Writer answer = ask(services, 0, Service::met, ticket);
        Reader reader(ConstBytes(answer.bytes()).subspan(1));
        int rank = reader.get<int32_t>();
        return std::pair(rank, reader.get<uint64_t>());
    };
    EXPECT_EQ(code_of(ask(services, 0, Service::open_port, text("p"))), Code::ok);
    Writer first = come(5, 1), second = come(6, 1);
    EXPECT_EQ(partner(first).first, -1);
    Writer server = come(0, 0), again = come(0, 0);
    EXPECT_EQ(partner(server), std::pair(5, partner(first).second));
    EXPECT_EQ(partner(again).first, 6);
    EXPECT_EQ(partner(second).first, 0);
    // Nobody meets who has ended.
    come(7, 1);
    come(8, 1);
    services.forget(7);
    EXPECT_EQ(partner(come(0, 0)).first, 8);
}

TEST(services, ports_and_names_of_one_that_has_failed) {
    Services services;
    auto come = [&](int rank, const char* port, uint8_t side) {
        Writer words = text(port);
        words.put(side);
        Writer answer = ask(services, rank, Service::meet, words), ticket;
        ticket.put_bytes(ConstBytes(answer.bytes()).subspan(1));
        return ticket;
    };
    ask(services, 0, Service::open_port, text("p"));
    ask(services, 0, Service::open_port, text("lent"));
    ask(services, 0, Service::publish, text("a", "p"));
    ask(services, 0, Service::publish, text("b", "lent"));
    Writer ticket = come(1, "p", 1);
    come(2, "lent", 0);  // its opener has told another process of it
    services.close_ports_of(0);
    // Who waits there is told, and nobody else comes to wait; the name is free for a successor.
    EXPECT_EQ(code_of(ask(services, 1, Service::met, ticket)), Code::not_found);
    Writer words = text("p");
    words.put(uint8_t{1});
    EXPECT_EQ(code_of(ask(services, 1, Service::meet, words)), Code::not_found);
    EXPECT_EQ(code_of(ask(services, 1, Service::find_name, text("a"))), Code::not_found);
    EXPECT_EQ(code_of(ask(services, 3, Service::publish, text("a", "q"))), Code::ok);
    // One that another process accepts at goes on.
    EXPECT_EQ(code_of(ask(services, 1, Service::find_name, text("b"))), Code::ok);
    EXPECT_EQ(code_of(ask(services, 1, Service::met, come(1, "lent", 1))), Code::ok);
}

TEST(services, what_does_not_parse_is_refused) {
    Services services;
    services.on_spawn = [](int, std::vector<Program>) -> Result<int> { return 3; };
    Program program;
    program.count = 2;
    program.command = {"a", "b"};
    std::vector<std::byte> good = write_spawn({program});
    for (size_t length = 0; length < good.size(); ++length) {
        Writer words;
        words.put_bytes(ConstBytes(good).first(length));
        EXPECT_EQ(code_of(ask(services, 0, Service::spawn, words)), Code::malformed) << length;
    }
    Writer words;
    words.put_bytes(good);
    EXPECT_EQ(code_of(ask(services, 0, Service::spawn, words)), Code::ok);
    EXPECT_EQ(code_of(ask(services, 0, Service::count_, text("a"))), Code::malformed);
}

}  // namespace
}  // namespace pomona
