// pmix/launch/options_table.h: the one table of mpirun's options (options.def), and what is made of
// it: their names for the parser, the help and docs/mpirun.md.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pomona {

enum class OptionKind { part, job, flag, silent, unused };

enum class OptionId {
#define GROUP(title)
#define OPTION(id, kind, names, open_mpi, mpich, value, sample, text) id,
#include "pmix/launch/options.def"
#undef GROUP
#undef OPTION
};

struct OptionInfo {
    OptionId id;
    const char* group;
    OptionKind kind;
    const char *names, *open_mpi, *mpich;  // with spaces between
    const char *value, *sample, *text;

    std::vector<std::string> spellings() const;  // of all families, each once
    size_t values() const;                       // words that follow it
};
const std::vector<OptionInfo>& option_table();

// The words of a text with spaces between.
std::vector<std::string> words_of(std::string_view text);

// The option that a word of the command line is, or null; the word up to its '='. Attached to -n
// and -c may stand a number (-n4), which becomes `attached`.
const OptionInfo* find_option(std::string_view word, std::string& attached);

// " Did you mean"-names: the long names without dashes.
std::vector<std::string> option_names();

std::string options_help();
std::string options_markdown();

}  // namespace pomona
