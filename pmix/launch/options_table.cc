// pmix/launch/options_table.cc: see options_table.h.
#include "pmix/launch/options_table.h"

#include "btl/base/format.h"

#include <algorithm>
#include <utility>

namespace pomona {

namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  mpirun -n 4 ./hello                      four processes on this machine\n"
    "  mpirun -n 2 python train.py              a PyTorch script (sets RANK, WORLD_SIZE, ...)\n"
    "  mpirun -n 1 ./server : -n 3 ./worker     two programs in one job\n"
    "  mpirun -n 2 --set transports=self,tcp ./hello   with a parameter of Pomona\n"
    "\nAll parameters for --set, with their meaning: pomona params\n"
    "The exit code is that of the first process that failed, 128 + signal if it was killed;\n"
    "that of MPI_Abort, and 1 where its low byte is 0: an aborted job is no success;\n"
    "141 also where all ended well and nobody read what they printed.\n";

constexpr const char* kNotes =
    "\n## Slots\n\nThere are as many slots as --host or --hostfile say, else as many as processors that mpirun\n"
    "may use: those of its affinity (taskset, --cpu-set), and no more than its control group is granted\n"
    "time for. Without -n there is one process for each of their cores; of several hosts in --host without\n"
    "slots, one for each host ([multi-node.md](multi-node.md)). MPI_UNIVERSE_SIZE is the number of\n"
    "slots or of processes, whichever is more; a program that spawns as many as it leaves free finds\n"
    "room where slots are given: `mpirun -n 1 --host localhost:8 ./program`. Spawned processes fill\n"
    "slots that are free, host by host, then share the hosts by their slots; MPI_Comm_spawn's info\n"
    "key \"host\" names hosts of the job, parted by commas.\n"
    "\n## Signals\n\nSIGINT, SIGTERM and SIGHUP go to the ranks; those that are there five seconds later are killed, at\n"
    "once by a second signal. Signals that were ignored when mpirun started stay ignored (nohup). SIGUSR1\n"
    "prints what each rank waits for, or which hosts have not been reached yet.\n\n## Examples\n";

std::string_view bare(std::string_view name) {
    name.remove_prefix(std::min(name.find_first_not_of('-'), name.size()));
    return name;
}

// `text` in lines of at most `width`, each but the first behind `indent` spaces.
std::string wrapped(std::string_view text, size_t width, size_t indent) {
    std::string out;
    size_t column = 0;
    for (const std::string& word : words_of(text)) {
        if (column > 0 && column + 1 + word.size() > width) {
            out += "\n" + std::string(indent, ' ');
            column = 0;
        }
        if (column > 0) out += ' ', ++column;
        out += word;
        column += word.size();
    }
    return out;
}

std::string cell(std::string_view text) {
    std::string out;
    for (char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
    return out;
}

std::string code_list(const std::vector<std::string>& names) {
    std::string out;
    for (const std::string& name : names) out += format("{}`{}`", out.empty() ? "" : " ", name);
    return out;
}

}  // namespace

std::vector<std::string> words_of(std::string_view text) {
    std::vector<std::string> out;
    while (true) {
        text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
        if (text.empty()) return out;
        size_t end = std::min(text.find_first_of(" \t\r\n"), text.size());
        out.emplace_back(text.substr(0, end));
        text.remove_prefix(end);
    }
}

const std::vector<OptionInfo>& option_table() {
    static const std::vector<OptionInfo> table = [] {
        std::vector<OptionInfo> out;
        const char* group = "";
#define GROUP(title) group = title;
#define OPTION(id, kind, names, open_mpi, mpich, value, sample, text)                              \
    out.push_back(                                                                                 \
        {OptionId::id, group, OptionKind::kind, names, open_mpi, mpich, value, sample, text});
#include "pmix/launch/options.def"
#undef GROUP
#undef OPTION
        return out;
    }();
    return table;
}

std::vector<std::string> OptionInfo::spellings() const {
    std::vector<std::string> out;
    for (const char* family : {names, open_mpi, mpich})
        for (std::string& name : words_of(family))
            if (std::find(out.begin(), out.end(), name) == out.end())
                out.push_back(std::move(name));
    return out;
}

size_t OptionInfo::values() const { return words_of(value).size(); }

const OptionInfo* find_option(std::string_view word, std::string& attached) {
    attached.clear();
    if (word.size() < 2 || word[0] != '-') return nullptr;
    bool two_dashes = word[1] == '-';
    std::string_view name = bare(word.substr(0, word.find('=')));
    if (name.empty() || (two_dashes && word.size() - name.size() < 2)) return nullptr;
    for (const OptionInfo& option : option_table())
        for (const std::string& spelling : option.spellings()) {
            std::string_view own = bare(spelling);
            // One letter behind two dashes is a name only where the table says so.
            bool said = own.size() > 1 || spelling.starts_with("--") == two_dashes;
            if (own == name && said) return &option;
        }
    std::string_view digits = name.substr(1);
    if ((name[0] == 'n' || name[0] == 'c') && !two_dashes && word.find('=') == word.npos &&
        digits.find_first_not_of("0123456789") == digits.npos) {
        attached = digits;
        return &option_table().front();
    }
    return nullptr;
}

std::vector<std::string> option_names() {
    std::vector<std::string> out;
    for (const OptionInfo& option : option_table())
        for (const std::string& spelling : option.spellings())
            if (bare(spelling).size() > 1) out.emplace_back(bare(spelling));
    return out;
}

std::string options_help() {
    std::string out =
        "mpirun starts programs as the processes of one MPI job.\n\n"
        "Usage: mpirun [OPTIONS] PROGRAM [ARGUMENTS] [: [OPTIONS] PROGRAM [ARGUMENTS]]...\n";
    const char* group = "";
    for (const OptionInfo& option : option_table()) {
        if (std::string_view(group) != option.group) out += format("\n{}:\n", option.group);
        group = option.group;
        std::string left = "  ";
        for (const std::string& name : words_of(option.names))
            left += format("{}{}", left.size() > 2 ? ", " : "", name);
        if (*option.value) left += format(" {}", option.value);
        left += left.size() < 33 ? std::string(34 - left.size(), ' ') : "\n" + std::string(34, ' ');
        out += left + wrapped(option.text, 64, 34) + "\n";
    }
    return out +
           "\nNames of Open MPI's and MPICH's mpirun are understood too: docs/mpirun.md.\n\n" +
           kExamples;
}

std::string options_markdown() {
    std::string out =
        "# mpirun\n\nGenerated by `mpirun --markdown` from pmix/launch/options.def; a test fails when it "
        "is stale.\n\n    mpirun [OPTIONS] PROGRAM [ARGUMENTS] [: [OPTIONS] PROGRAM [ARGUMENTS]]...\n\n"
        "Options stand before the program; what follows it is the program's. Names of more than one\n"
        "letter may have one dash or two. `for` tells whether an option belongs to the program that\n"
        "follows it or to the whole job; what is accepted without effect is told once, and options\n"
        "marked *accepted* change nothing that anybody would miss.\n";
    const char* group = "";
    for (const OptionInfo& option : option_table()) {
        if (std::string_view(group) != option.group)
            out += format(
                "\n## {}\n\n| option | Open MPI's name | MPICH's name | for | meaning |\n"
                "| --- | --- | --- | --- | --- |\n",
                option.group);
        group = option.group;
        const char* whose = option.kind == OptionKind::part     ? "program"
                            : option.kind == OptionKind::silent ? "*accepted*"
                            : option.kind == OptionKind::unused ? "*no effect*"
                                                                : "job";
        out += format("| {}{} | {} | {} | {} | {} |\n", code_list(words_of(option.names)),
                      *option.value ? format(" {}", option.value) : "",
                      code_list(words_of(option.open_mpi)), code_list(words_of(option.mpich)),
                      whose, cell(option.text));
    }
    return out + kNotes + "\n```\n" + kExamples + "```\n";
}

}  // namespace pomona
