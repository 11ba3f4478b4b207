// tests/launch/engine_test.cc: who starts a job's processes, and the words for other launchers.
#include "pmix/launch/engine.h"
#include "pmix/launch/ssh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pomona {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

Options options_of(std::vector<std::string> words) {
    const char* none[] = {nullptr};
    ParsedCommandLine parsed = parse_command_line(words, none);
    EXPECT_EQ(parsed.exit_code, -1) << parsed.text;
    return parsed.options;
}

EngineProbes probes_with(std::string names,
                         std::string types = "MPI plugin types are...\n\tpmix\n") {
    EngineProbes out;
    out.installed = [](const std::string&) { return true; };
    out.output = [=](const std::string& command) {
        return command.starts_with("scontrol") ? names : types;
    };
    out.host = "login";
    return out;
}

// Goal: Slurm's short form of counts; garbage gives nothing, whatever its length.
TEST(engine, counts_by_node) {
    EXPECT_THAT(parse_slurm_counts("2(x3),1"), ElementsAre(2, 2, 2, 1));
    EXPECT_THAT(parse_slurm_counts("16"), ElementsAre(16));
    for (const char* wrong : {"", "x", "2(", "2(x)", "2(x3", "2(x0)", "0", "-1", "2,,3", "2;3",
                              "1(x99999999)", "99999999999999999999"})
        EXPECT_THAT(parse_slurm_counts(wrong), IsEmpty()) << wrong;
}

// Goal: the hosts granted become the job's, with their slots, and srun starts the agents; what the
// user has said about hosts and the way to them counts more.
TEST(engine, inside_an_allocation) {
    const char* slurm[] = {"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=h[1-2]",
                           "SLURM_TASKS_PER_NODE=4,2", nullptr};
    Options options = options_of({"a"});
    EXPECT_THAT(choose_engine(options, slurm, probes_with("h1\nh2\n")).command, IsEmpty());
    ASSERT_EQ(options.hosts.size(), 2u);
    EXPECT_EQ(options.hosts[0], (HostSlots{"h1", 4, 0, "", true}));
    EXPECT_EQ(options.hosts[1], (HostSlots{"h2", 2, 0, "", true}));
    EXPECT_EQ(options.shell, kAgentsBySrun);
    EXPECT_THAT(shell_words_for(options.shell, "h1", "agent"), Contains("--nodelist=h1"));
    options = options_of({"--host", "other", "a"});
    choose_engine(options, slurm, probes_with("h1\nh2\n"));
    EXPECT_EQ(options.shell, "ssh");
    options = options_of({"--ssh", "kubexec", "a"});
    choose_engine(options, slurm, probes_with("h1\nh2\n"));
    EXPECT_EQ(options.shell, "kubexec");
    EXPECT_EQ(options.hosts.size(), 2u);
    options = options_of({"-launcher", "ssh", "--host", "h1", "a"});
    choose_engine(options, slurm, probes_with("h1\nh2\n"));
    EXPECT_EQ(options.shell, "ssh");
}

// Goal: a job of more hosts than mpirun serves goes by srun, unless that has no PMIx.
TEST(engine, large_allocations) {
    const char* slurm[] = {"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=h[1-65]",
                           "SLURM_TASKS_PER_NODE=2(x65)", nullptr};
    std::string names;
    for (int i = 1; i <= 65; ++i) names += "h" + std::to_string(i) + "\n";
    Options options = options_of({"-n", "130", "a", "b c"});
    EXPECT_THAT(choose_engine(options, slurm, probes_with(names)).command,
                ElementsAre("srun", "--mpi=pmix", "--kill-on-bad-exit=1", "--ntasks=130",
                            "--distribution=block", "--input=0", "a", "b c"));
    EXPECT_THAT(choose_engine(options, slurm, probes_with(names, "\tnone\n\tpmi2\n")).mistake,
                HasSubstr("has no PMIx"));
}

// Goal: a list that could be words of a shell is refused before any program is asked about it.
TEST(engine, lists_that_do_not_parse) {
    const char* slurm[] = {"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=h';reboot'", nullptr};
    Options options = options_of({"a"});
    EXPECT_THAT(choose_engine(options, slurm, probes_with("")).mistake,
                HasSubstr("does not parse"));
    const char* silent[] = {"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=h[1-2]", nullptr};
    EXPECT_THAT(choose_engine(options, silent, probes_with("")).mistake, HasSubstr("scontrol"));
}

TEST(engine, words_of_srun) {
    std::string mistake;
    Options options = options_of({"--host", "a:2,me@b:2", "--map-by", "node:PE=2", "--bind-to",
                                  "core", "--report-bindings", "--tag-output", "--output-filename",
                                  "log", "--wdir", "/tmp", "--stdin", "none", "-q", "prog"});
    EXPECT_THAT(srun_words(options, 2, mistake),
                ElementsAre("srun", "--mpi=pmix", "--kill-on-bad-exit=1", "--nodes=2",
                            "--nodelist=a,b", "--ntasks=4", "--cpus-per-task=2", "--overcommit",
                            "--distribution=cyclic", "--cpu-bind=cores,verbose", "--input=none",
                            "--label", "--output=log.%t.out", "--error=log.%t.err", "--chdir=/tmp",
                            "--quiet", "prog"));
    EXPECT_EQ(mistake, "");
    for (std::vector<std::string> words :
         {std::vector<std::string>{"-n", "1", "a", ":", "-n", "1", "b"},
          {"--timeout", "5", "a"},
          {"--host", "a:1,b:2", "x"},
          {"--on-death", "continue", "a"},
          {"--timestamp-output", "a"},
          {"--merge-stderr-to-stdout", "a"},
          {"--display-map", "a"},
          {"--explain", "a"},
          {"--pmix", "off", "a"}}) {
        mistake.clear();
        EXPECT_THAT(srun_words(options_of(words), 0, mistake), IsEmpty());
        EXPECT_THAT(mistake, HasSubstr("--launcher")) << words[0];
    }
}

TEST(engine, words_of_prterun) {
    std::string mistake;
    EngineProbes probes = probes_with("");
    probes.root = true;
    Options options =
        options_of({"--host", "a:2,b", "--map-by", "ppr:1:node", "--set", "wait_warn_s=7", "-n",
                    "1", "-x", "A=b", "one", ":", "-n", "2", "two", "words"});
    EXPECT_THAT(prterun_words(options, probes, mistake),
                ElementsAre("prterun", "--allow-run-as-root", "--map-by",
                            "ppr:1:node:OVERSUBSCRIBE", "--stdin", "0", "--np", "1", "--host",
                            "a:2,b", "-x", "POMONA_WAIT_WARN_S=7", "-x", "A=b", "one", ":", "--np",
                            "2", "--host", "a:2,b", "-x", "POMONA_WAIT_WARN_S=7", "two", "words"));
    EXPECT_EQ(mistake, "");
    EXPECT_THAT(prterun_words(options_of({"--report-json", "f", "a"}), probes, mistake), IsEmpty());
    EXPECT_THAT(mistake, HasSubstr("--launcher own"));
}

}  // namespace
}  // namespace pomona
