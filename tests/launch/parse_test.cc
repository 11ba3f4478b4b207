// tests/launch/parse_test.cc: command lines, host lists and the environment, without processes.
#include "pmix/launch/hosts.h"
#include "pmix/launch/mapping.h"
#include "pmix/launch/options.h"
#include "pmix/launch/options_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>

#include <unistd.h>

namespace pomona {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;
using Words = std::vector<std::string>;
using Variable = std::pair<std::string, std::string>;

const char* const kEnvironment[] = {"HOME=/home/a", "EMPTY=", nullptr};

ParsedCommandLine parse(const Words& words) { return parse_command_line(words, kEnvironment); }

TEST(command_line, one_program_keeps_its_arguments) {
    // Goal: everything after the program's name is the program's, also what looks like options.
    auto parsed = parse({"-np", "4", "./a", "-n", "2", "--tag-output"});
    ASSERT_EQ(parsed.exit_code, -1) << parsed.text;
    ASSERT_EQ(parsed.options.programs.size(), 1u);
    EXPECT_EQ(parsed.options.programs[0].count, 4);
    EXPECT_THAT(parsed.options.programs[0].command, ElementsAre("./a", "-n", "2", "--tag-output"));
    EXPECT_FALSE(parsed.options.tag_output);
}

TEST(command_line, forms_of_the_count) {
    for (const Words& words :
         {Words{"-n", "3", "a"}, Words{"-n3", "a"}, Words{"-np", "3", "a"}, Words{"--np", "3", "a"},
          Words{"--np=3", "a"}, Words{"-c", "3", "a"}}) {
        auto parsed = parse(words);
        ASSERT_EQ(parsed.exit_code, -1) << parsed.text;
        EXPECT_EQ(parsed.options.programs[0].count, 3) << words[0];
    }
}

TEST(command_line, several_programs) {
    auto parsed = parse({"-n", "1", "-x", "A=1", "a", "x", ":", "-n", "2", "--wdir", "/tmp", "b"});
    ASSERT_EQ(parsed.exit_code, -1) << parsed.text;
    ASSERT_EQ(parsed.options.programs.size(), 2u);
    EXPECT_THAT(parsed.options.programs[0].exports, ElementsAre(Variable("A", "1")));
    EXPECT_EQ(parsed.options.programs[1].directory, "/tmp");
    EXPECT_TRUE(parsed.options.programs[1].exports.empty());
}

TEST(command_line, options_of_other_launchers) {
    auto parsed = parse({"--allow-run-as-root", "--mca", "btl", "tcp,self", "-mca", "a", "b",
                         "--oversubscribe", "-tag-output", "-bind-to", "core:overload-allowed",
                         "--map-by", "socket", "-n", "2", "a"});
    ASSERT_EQ(parsed.exit_code, -1) << parsed.text;
    EXPECT_TRUE(parsed.options.tag_output);
    EXPECT_EQ(parsed.options.bind, BindTo::core);
    EXPECT_EQ(parsed.options.map, MapBy::socket);
}

TEST(command_line, exports_come_from_the_environment) {
    auto parsed = parse({"-x", "HOME", "-x", "EMPTY", "-x", "B=x=y", "-n", "1", "a"});
    ASSERT_EQ(parsed.exit_code, -1) << parsed.text;
    EXPECT_THAT(
        parsed.options.programs[0].exports,
        ElementsAre(Variable("HOME", "/home/a"), Variable("EMPTY", ""), Variable("B", "x=y")));
}

// Goal: each option of the table is understood by every name that any family has for it, with one
// dash and two, and with '=' where it has one value; and no two options share a name.
TEST(command_line, every_name_of_every_option) {
    std::map<std::string, OptionId> seen;
    for (const OptionInfo& option : option_table()) {
        EXPECT_NE(std::string(option.text), "");
        EXPECT_EQ(words_of(option.value).size(), words_of(option.sample).size()) << option.names;
        bool reads_programs = option.id == OptionId::app;  // the sample is an empty file
        for (const std::string& name : option.spellings()) {
            std::string bare = name.substr(name.find_first_not_of('-'));
            std::vector<std::string> forms = {name};
            if (bare.size() > 1) forms = {"-" + bare, "--" + bare};
            for (const std::string& form : forms) {
                auto [known, fresh] = seen.emplace(form, option.id);
                EXPECT_EQ(known->second, option.id) << form << " is the name of two options";
                Words words = {form};
                for (const std::string& value : words_of(option.sample)) words.push_back(value);
                if (!reads_programs) words.push_back("a");
                auto parsed = parse(words);
                if (option.id == OptionId::hostfile || option.id == OptionId::rankfile ||
                    reads_programs)
                    EXPECT_EQ(parsed.exit_code, 2) << form;  // nothing stands in the file
                else EXPECT_THAT(parsed.exit_code, testing::AnyOf(-1, 0)) << form << parsed.text;
                if (option.values() != 1 || reads_programs) continue;
                words = {form + "=" + option.sample, "a"};
                EXPECT_EQ(parse(words).exit_code, parsed.exit_code) << form << "=";
            }
        }
        if (option.kind != OptionKind::unused) continue;
        Words words = {words_of(option.names)[0]};
        for (const std::string& value : words_of(option.sample)) words.push_back(value);
        words.push_back("a");
        EXPECT_EQ(parse(words).options.notes.size(), 1u) << option.names;
    }
}

TEST(command_line, names_that_begin_like_short_ones) {
    auto parsed =
        parse({"-hosts", "localhost", "-npernode", "2", "-configfile", "/does/not/exist"});
    EXPECT_THAT(parsed.text, HasSubstr("/does/not/exist"));
    parsed = parse({"-hosts", "localhost:3", "-npernode", "2", "a"});
    ASSERT_EQ(parsed.exit_code, -1) << parsed.text;
    EXPECT_THAT(parsed.options.hosts, ElementsAre(HostSlots{"localhost", 3}));
    EXPECT_EQ(parsed.options.per_node, 2);
    EXPECT_THAT(parse({"-nx", "a"}).text, HasSubstr("There is no option -nx"));
    EXPECT_THAT(parse({"-help=1"}).text, HasSubstr("takes no value"));
}

TEST(command_line, what_has_no_effect_is_told_once) {
    auto parsed = parse({"--mca", "btl", "tcp", "-mca", "a", "b", "--gmca", "c", "d", "-n", "2",
                         "--allow-run-as-root", "a"});
    ASSERT_EQ(parsed.exit_code, -1) << parsed.text;
    ASSERT_EQ(parsed.options.notes.size(), 1u);
    EXPECT_THAT(parsed.options.notes[0], HasSubstr("--mca btl tcp has no effect"));
}

TEST(command_line, words_behind_a_colon) {
    auto parsed = parse({"--map-by", "slot:PE=4:NOOVERSUBSCRIBE", "a"});
    ASSERT_EQ(parsed.exit_code, -1) << parsed.text;
    EXPECT_EQ(parsed.options.cores_per_rank, 4);
    EXPECT_TRUE(parsed.options.refuse_oversubscribe);
    parsed = parse({"--map-by", "ppr:3:node", "a"});
    ASSERT_EQ(parsed.exit_code, -1) << parsed.text;
    EXPECT_EQ(parsed.options.per_node, 3);
    parsed = parse({"-bind-to", "core:2", "a"});
    EXPECT_EQ(parsed.options.cores_per_rank, 2);
    EXPECT_THAT(parse({"--map-by", "slot:PE=x", "a"}).text, HasSubstr("'x' is not a number"));
    EXPECT_THAT(parse({"--map-by", "slot:pee", "a"}).text, HasSubstr("is none of"));
    EXPECT_THAT(parse({"--map-by", "ppr:2:socket", "a"}).text, HasSubstr("ppr:COUNT:node"));
}

TEST(command_line, variables_for_one_program_and_for_all) {
    auto parsed = parse({"-n", "1", "-env", "A", "1", "a", ":", "-n", "1", "-genv", "B", "x=2",
                         "-envlist", "HOME,EMPTY", "b"});
    ASSERT_EQ(parsed.exit_code, -1) << parsed.text;
    EXPECT_THAT(parsed.options.programs[0].exports,
                ElementsAre(Variable("B", "x=2"), Variable("A", "1")));
    EXPECT_THAT(
        parsed.options.programs[1].exports,
        ElementsAre(Variable("B", "x=2"), Variable("HOME", "/home/a"), Variable("EMPTY", "")));
}

TEST(command_line, programs_of_a_file) {
    std::string path = testing::TempDir() + "pomona-app-" + std::to_string(getpid());
    std::ofstream(path) << "# two programs\n-n 1 -x A='1 2' ./a \"b c\" d\\ e :\n\n-n 2 ./b\n";
    for (const char* name : {"--app", "-configfile"}) {
        auto parsed = parse({"-l", name, path});
        ASSERT_EQ(parsed.exit_code, -1) << parsed.text;
        ASSERT_EQ(parsed.options.programs.size(), 2u);
        EXPECT_THAT(parsed.options.programs[0].command, ElementsAre("./a", "b c", "d e"));
        EXPECT_THAT(parsed.options.programs[0].exports, ElementsAre(Variable("A", "1 2")));
        EXPECT_EQ(parsed.options.programs[1].count, 2);
        EXPECT_TRUE(parsed.options.tag_output);
    }
    EXPECT_THAT(parse({"--app", path, "c"}).text, HasSubstr("instead of the program c"));
    std::ofstream(path) << "-n 1 ./a\n--np 2 --app " << path << "\n";
    EXPECT_THAT(parse({"--app", path}).text, HasSubstr("line 2"));
    std::remove(path.c_str());
}

TEST(command_line, hosts_of_each_program) {
    auto own = [](std::vector<std::string> words) {
        auto parsed = parse(std::move(words));
        EXPECT_EQ(parsed.exit_code, -1) << parsed.text;
        return parsed.options.program_hosts;
    };
    auto said = own(
        {"-n", "1", "--host", "a", "x", ":", "-n", "1", "y", ":", "-n", "2", "-host", "b:2", "z"});
    ASSERT_THAT(said, SizeIs(3));
    EXPECT_EQ(said[0][0].name, "a");
    EXPECT_THAT(said[1], IsEmpty());
    EXPECT_EQ(said[2][0].slots, 2);
    // Said once, or the same for all: for the job.
    EXPECT_THAT(own({"--host", "a,b", "-n", "1", "x", ":", "-n", "1", "y"}), IsEmpty());
    EXPECT_THAT(own({"--host", "a", "-n", "1", "x", ":", "--host", "a", "-n", "1", "y"}),
                IsEmpty());
    EXPECT_THAT(own({"--host", "a", "--host", "b", "x"}), IsEmpty());
}

TEST(command_line, rankfile) {
    std::string path = testing::TempDir() + "pomona-rf-" + std::to_string(getpid());
    std::ofstream(path) << "# cores\nrank 0=localhost slot=1\nrank 1=localhost slot=0,2-3\n";
    auto parsed = parse({"-rf", path, "-n", "2", "a"});
    ASSERT_EQ(parsed.exit_code, -1) << parsed.text;
    EXPECT_THAT(parsed.options.rank_cores[0], ElementsAre(1));
    EXPECT_THAT(parsed.options.rank_cores[1], ElementsAre(0, 2, 3));
    std::ofstream(path) << "rank 0=localhost slot=0:1\n";
    EXPECT_THAT(parse({"-rf", path, "a"}).text, HasSubstr("line 1"));
    // Hosts by their place in the list, as Open MPI has it.
    std::ofstream(path) << "rank 0=+n1 slot=0\nrank 1=+N0 slot=0\n";
    parsed = parse({"-rf", path, "--host", "a,b", "x"});
    ASSERT_EQ(parsed.exit_code, -1) << parsed.text;
    EXPECT_THAT(parsed.options.rank_hosts, ElementsAre(Pair(0, "b"), Pair(1, "a")));
    EXPECT_THAT(parsed.options.hosts, SizeIs(2));
    std::ofstream(path) << "rank 0=+n2 slot=0\n";
    EXPECT_THAT(parse({"-rf", path, "--host", "a,b", "x"}).text,
                HasSubstr("the rankfile names host +n2, and there are 2"));
    std::ofstream(path) << "rank 0=-oProxyCommand=x slot=0\n";
    EXPECT_THAT(parse({"-rf", path, "x"}).text, HasSubstr("not a host name"));
    std::remove(path.c_str());
}

TEST(command_line, rankfiles_as_people_write_them) {
    std::string path = testing::TempDir() + "pomona-rf2-" + std::to_string(getpid());
    auto with = [&](const char* text, Words hosts = {"--host", "me@b,fd00::2"}) {
        std::ofstream(path) << text;
        hosts.insert(hosts.begin(), {"-rf", path});
        hosts.push_back("x");
        return parse(hosts);
    };
    // An editor's mark, another system's line ends, room around '=', brackets; a host of the list
    // that has a user there.
    auto parsed = with(
        "\xef\xbb\xbf"
        "rank 0 = b slot = 0\r\n\r\nrank 1=[fd00::2]\tslot=1 # here\r\n");
    ASSERT_EQ(parsed.exit_code, -1) << parsed.text;
    EXPECT_THAT(parsed.options.rank_hosts, ElementsAre(Pair(0, "me@b"), Pair(1, "fd00::2")));
    EXPECT_THAT(parsed.options.hosts, SizeIs(2));
    EXPECT_THAT(with("rank 0=b slot=0\nrank 0=c slot=0\n").text,
                HasSubstr("line 2: rank 0 has a place already"));
    EXPECT_THAT(with("# none\n").text, HasSubstr("names no rank"));
    EXPECT_THAT(with("rank 100000=b slot=0\n").text, HasSubstr("line 1"));
    std::remove(path.c_str());
}

TEST(command_line, a_folder_is_no_file) {
    for (const char* option : {"--hostfile", "--rankfile"})
        EXPECT_THAT(parse({option, "/", "x"}).text, HasSubstr("/ cannot be read: Is a directory"));
    EXPECT_THAT(parse({"--app", "/"}).text, HasSubstr("/ cannot be read: Is a directory"));
    EXPECT_THAT(parse({"--host", "a", ",b", "x"}).text, HasSubstr("no blanks; write a,b"));
    EXPECT_THAT(parse({"-H", "a", ",b", "x"}).text, HasSubstr("no blanks; write a,b"));
    EXPECT_THAT(parse({"--hostfile", "/dev/zero", "x"}).text, HasSubstr("more than 64 MiB"));
}

TEST(command_line, no_name_of_a_file) {
    for (const char* option : {"--hostfile", "--rankfile", "--output-filename", "--trace", "--app",
                               "--report-json", "--network"})
        EXPECT_THAT(parse({option, "", "x"}).text,
                    HasSubstr(std::string("Option ") + option + " needs a name, not ''"));
}

TEST(command_line, no_debugger) {
    for (const char* none : {"", " "})
        EXPECT_THAT(parse({"--debugger", none, "x"}).text,
                    HasSubstr("Option --debugger needs a command, not '"));
}

TEST(command_line, lists_of_what_to_show) {
    auto parsed = parse({"--display", "map,bind", "--output", "tag,merge,file=/no/folder/x", "a"});
    ASSERT_EQ(parsed.exit_code, -1) << parsed.text;
    const Options& options = parsed.options;
    EXPECT_TRUE(options.display_map && options.report_bindings && options.tag_output &&
                options.merge_stderr);
    EXPECT_EQ(options.output_filename, "/no/folder/x");
    EXPECT_EQ(parse({"--output", "dir=/x", "a"}).options.output_filename, "/x/");
    EXPECT_EQ(parse({"--output-filename", "/", "a"}).options.output_filename, "/");
    EXPECT_EQ(parse({"--output-filename", "/dev", "a"}).options.output_filename, "/dev/");
    EXPECT_THAT(parse({"--output", "file=", "a"}).text, HasSubstr("file= needs a name"));
    EXPECT_THAT(parse({"--output", "tags", "a"}).text, HasSubstr("did you mean tag?"));
    EXPECT_THAT(parse({"--display", "maps", "a"}).text, HasSubstr("did you mean map?"));
}

TEST(command_line, variables_for_all_programs) {
    auto parsed = parse({"-genvlist", "HOME,EMPTY", "-n", "1", "a", ":", "-n", "1", "b"});
    ASSERT_EQ(parsed.exit_code, -1) << parsed.text;
    for (const Program& program : parsed.options.programs)
        EXPECT_THAT(program.exports, ElementsAre(Pair("HOME", testing::_), Pair("EMPTY", "")));
    EXPECT_EQ(parsed.options.environment, PassOn::usual);
    EXPECT_EQ(parse({"-genvall", "a"}).options.environment, PassOn::all);
    EXPECT_EQ(parse({"-envnone", "a"}).options.environment, PassOn::none);
}

TEST(command_line, a_variable_that_is_not_there_is_remarked_on) {
    auto parsed = parse({"-x", "NOT_THERE", "-x", "A=1", "a"});
    ASSERT_EQ(parsed.exit_code, -1) << parsed.text;
    EXPECT_THAT(parsed.options.programs[0].exports, ElementsAre(Pair("A", "1")));
    EXPECT_THAT(parsed.options.notes, ElementsAre(HasSubstr("-x NOT_THERE has no effect")));
}

TEST(command_line, the_timeout_of_the_environment) {
    const char* environment[] = {"MPIEXEC_TIMEOUT=7.5", nullptr};
    EXPECT_EQ(parse_command_line({"a"}, environment).options.timeout_seconds, 7.5);
    EXPECT_EQ(parse_command_line({"--timeout", "3", "a"}, environment).options.timeout_seconds, 3);
    const char* none[] = {"MPIEXEC_TIMEOUT=-1", nullptr};
    auto endless = parse_command_line({"a"}, none);
    EXPECT_EQ(endless.exit_code, -1) << endless.text;
    EXPECT_EQ(endless.options.timeout_seconds, 0);
    const char* wrong[] = {"MPIEXEC_TIMEOUT=soon", nullptr};
    EXPECT_THAT(parse_command_line({"a"}, wrong).text, HasSubstr("MPIEXEC_TIMEOUT: 'soon'"));
}

TEST(mapping, cores_for_each_rank) {
    std::vector<std::vector<int>> cores = {{0, 4}, {1, 5}, {2, 6}, {3, 7}};
    std::vector<Binding> out(2);
    EXPECT_EQ(deal_cores(cores, 2, out), "");
    EXPECT_EQ(out[0].text, "processors 0,1,4,5");
    EXPECT_EQ(out[1].text, "processors 2,3,6,7");
    EXPECT_THAT(deal_cores(cores, 3, out), HasSubstr("need 6 cores, and there are 4"));
    std::vector<Binding> named(3);
    EXPECT_EQ(name_cores(cores, {{0, {3}}, {2, {0, 1}}}, named), "");
    EXPECT_EQ(named[0].text, "processors 3,7");
    EXPECT_TRUE(named[1].cpu_mask.empty());
    EXPECT_EQ(named[2].cpu_mask[0], 0x33u);
    EXPECT_THAT(name_cores(cores, {{0, {4}}}, named), HasSubstr("cores 0 to 3"));
    EXPECT_THAT(name_cores(cores, {{3, {0}}}, named), HasSubstr("3 processes"));
}

struct Mistake {
    Words words;
    const char* says;
};
class Mistakes : public testing::TestWithParam<Mistake> {};
TEST_P(Mistakes, are_told_with_what_to_do) {
    auto parsed = parse(GetParam().words);
    EXPECT_EQ(parsed.exit_code, 2);
    EXPECT_THAT(parsed.text, HasSubstr(GetParam().says));
    EXPECT_THAT(parsed.text, testing::StartsWith("mpirun: "));
}
INSTANTIATE_TEST_SUITE_P(
    command_line, Mistakes,
    testing::Values(Mistake{{}, "No program"}, Mistake{{"-n"}, "needs a value"},
                    Mistake{{"-n", "2"}, "No program"}, Mistake{{"-n", "0", "a"}, "range"},
                    Mistake{{"-n", "-3", "a"}, "range"}, Mistake{{"-n", "two", "a"}, "two"},
                    Mistake{{"--tag-outptu", "a"}, "did you mean --tag-output?"},
                    Mistake{{"--bind-to", "cor", "a"}, "did you mean core?"},
                    Mistake{{"--map-by", "sockets", "a"}, "did you mean socket?"},
                    Mistake{{"--set", "shm_ring_slot=3", "a"}, "did you mean shm_ring_slots?"},
                    Mistake{{"--set", "spin_us=often", "a"}, "spin_us"},
                    Mistake{{"--set", "spin_us", "a"}, "NAME=VALUE"},
                    Mistake{{"-x", "=1", "a"}, "no name"},
                    Mistake{{"a", ":", "-n", "1", "b"}, "-n COUNT a"},
                    Mistake{{"-n", "1", "a", ":"}, "no program"}, Mistake{{""}, "No program"},
                    Mistake{{"--stdin", "some", "a"}, "'all' or 'none'"},
                    Mistake{{"--timeout", "-1", "a"}, "range"},
                    Mistake{{"--hostfile", "/does/not/exist", "a"}, "No such file"},
                    Mistake{{"--host", "a:0", "a"}, "slots"},
                    Mistake{{"--mca", "a"}, "needs a value"}));

TEST(command_line, help_and_version_end_well) {
    EXPECT_EQ(parse({"--help"}).exit_code, 0);
    EXPECT_THAT(parse({"-h"}).text, HasSubstr("--bind-to"));
    EXPECT_THAT(parse({"--version"}).text, HasSubstr("Pomona"));
}

static HostSlots in_file(const char* name, int slots, int max_slots = 0) {
    return {name, slots, max_slots, {}, true};
}

TEST(hosts, hostfile_forms) {
    HostList list = parse_hostfile(
        "# our hosts\n node1 slots=4 max_slots=8 # fast\nnode2:2\r\n\n"
        "[fe80::1]:3\nfe80::2\nnode1 slots=1\nme@[fe80::3]:2\n");
    ASSERT_EQ(list.mistake, "");
    EXPECT_THAT(list.hosts,
                ElementsAre(in_file("node1", 5, 8), in_file("node2", 2), in_file("fe80::1", 3),
                            in_file("fe80::2", 0), in_file("me@fe80::3", 2)));
    list = parse_hostfile("mac2 user=me prefix=/opt/pomona\n");
    ASSERT_EQ(list.mistake, "");
    EXPECT_EQ(list.hosts[0].name, "me@mac2");
    EXPECT_EQ(list.hosts[0].prefix, "/opt/pomona");
    EXPECT_EQ(without_user(list.hosts[0].name), "mac2");
    // As editors of other systems write it, with room around '=', and in Open MPI's other words.
    list = parse_hostfile(
        "\xef\xbb\xbf"
        "a slots = 2\r\nb count=3 slots-max= 4\nc cpu =1 username=me\n");
    ASSERT_EQ(list.mistake, "");
    EXPECT_THAT(list.hosts, ElementsAre(in_file("a", 2), in_file("b", 3, 4), in_file("me@c", 1)));
}

TEST(hosts, a_file_and_a_list_together) {
    std::string path = testing::TempDir() + "pomona-hosts-" + std::to_string(getpid());
    std::ofstream(path) << "a slots=4\nme@b slots=2\nc\n";
    auto parsed = parse({"--hostfile", path, "--host", "b,a:3", "true"});
    ASSERT_EQ(parsed.exit_code, -1) << parsed.text;
    EXPECT_THAT(parsed.options.hosts, ElementsAre(in_file("me@b", 2), in_file("a", 3)));
    parsed = parse({"--hostfile", path, "--host", "d", "true"});
    EXPECT_THAT(parsed.text, HasSubstr("d does not stand in the hostfile"));
    unlink(path.c_str());
}

TEST(hosts, what_reaches_them) {
    EXPECT_EQ(parse({"true"}).options.shell, "ssh");
    EXPECT_EQ(parse({"--ssh", "rsh -q", "true"}).options.shell, "rsh -q");
    EXPECT_EQ(parse({"-launcher-exec", "rsh", "true"}).options.shell, "rsh");
    EXPECT_EQ(parse({"--mca", "plm_rsh_agent", "rsh", "true"}).options.shell, "rsh");
}

TEST(hosts, mistakes_name_the_line) {
    EXPECT_THAT(parse_hostfile("a\nb slot=4\n").mistake, HasSubstr("line 2: 'slot=4'"));
    EXPECT_THAT(parse_hostfile("a slots=x").mistake, HasSubstr("'x' is not a number"));
    EXPECT_THAT(parse_hostfile("-o evil").mistake, HasSubstr("not a host name"));
    EXPECT_THAT(parse_hostfile("# nothing\n").mistake, HasSubstr("no host"));
    for (const char* list : {",a", "a,,b", "a, ,b", "a , , b", "a,b,,"})
        EXPECT_THAT(parse_host_option(list).mistake, HasSubstr("a comma without a host")) << list;
    for (const char* list : {"a,b", "a, b", "a ,b", "a b", "a,b,", " a , b , "})
        EXPECT_EQ(parse_host_option(list).hosts.size(), 2u) << list;
    EXPECT_THAT(parse_host_option("a,b:c").mistake, HasSubstr("'c'"));
    for (const char* name : {"me@", "@a", "me@you@a", "me@-a", "-a", "a;b"})
        EXPECT_THAT(parse_host_option(name).mistake, HasSubstr("not a host name")) << name;
    // More than one colon: an IPv6 address, or a mistake.
    EXPECT_THAT(parse_hostfile("a:2:3").mistake, HasSubstr("'a:2:3' is not a host name"));
    EXPECT_EQ(parse_host_option("fe80::1%en-0,[::ffff:10.0.0.1]:2,me@Fd00::2").mistake, "");
    EXPECT_THAT(parse_hostfile("a user=me@b").mistake, HasSubstr("not a user's name"));
}

TEST(hosts, this_host) {
    for (const char* name :
         {"localhost", "127.0.0.1", "mac", "mac.lan", "mac.local", "::1", "MAC.Lan", "Mac.local"})
        EXPECT_TRUE(is_this_host(name, "mac.lan")) << name;
    for (const char* name : {"mac2", "mac.example.org", "10.0.0.1", "ma"})
        EXPECT_FALSE(is_this_host(name, "mac.lan")) << name;
    EXPECT_TRUE(is_this_host("macbook.local", "MacBook.local"));
}

TEST(mapping, lists_of_processors) {
    EXPECT_THAT(parse_cpu_list("0-3,8"), ElementsAre(0, 1, 2, 3, 8));
    EXPECT_THAT(parse_cpu_list("5"), ElementsAre(5));
    for (const char* wrong : {"", "x", "3-1", "1;2", "1-", "-4", "0-99999999"})
        EXPECT_TRUE(parse_cpu_list(wrong).empty()) << wrong;
}

TEST(mapping, ranks_get_equal_shares_of_the_cores) {
    // Four cores of two hardware threads each, numbered as many machines do.
    std::vector<std::vector<int>> cores{{0, 4}, {1, 5}, {2, 6}, {3, 7}};
    auto masks = [&](int count) {
        std::vector<unsigned long> out;
        for (const Binding& each : share_cores(count, cores))
            out.push_back(each.cpu_mask.empty() ? 0 : each.cpu_mask[0]);
        return out;
    };
    EXPECT_THAT(masks(1), ElementsAre(0));
    EXPECT_THAT(masks(2), ElementsAre(0x33, 0xcc));
    EXPECT_THAT(masks(3), ElementsAre(0x11, 0x22, 0xcc));
    EXPECT_THAT(masks(4), ElementsAre(0x11, 0x22, 0x44, 0x88));
    EXPECT_THAT(masks(5), ElementsAre(0, 0, 0, 0, 0));
    EXPECT_EQ(share_cores(2, cores)[0].text, "processors 0,1,4,5");
    // Beyond one word of the mask.
    auto wide = share_cores(2, {{1}, {130}});
    ASSERT_EQ(wide[1].cpu_mask.size(), 3u);
    EXPECT_EQ(wide[1].cpu_mask[2], 4u);
}

}  // namespace
}  // namespace pomona
