// pmix/launch/option_values.h: what follows an option of mpirun's command line, read: numbers,
// variables, hosts, ways to place ranks and to show their output.
// Each function returns what is wrong, as a sentence for the user, or nothing; `option` is the
// option as it was written.
#pragma once

#include "btl/base/format.h"
#include "btl/base/messages.h"
#include "btl/base/params.h"
#include "pmix/launch/options.h"

#include <map>
#include <string>
#include <vector>

namespace pomona::option_values {

std::string lower(std::string word);
std::vector<std::string> split(const std::string& text, char separator);
// There is no such option; perhaps another one was meant.
std::string unknown_option(const std::string& token);

std::string whole_number(const std::string& option, const std::string& text, int low, int high,
                         int& out);
std::string seconds_of(const std::string& option, const std::string& text, double& out);
// NAME=VALUE, or NAME alone: its value in the `environment`, where there is one (may be null). What
// has no effect is said in `notes`.
std::string assign(const std::vector<std::string>& words, const std::string& option, Variables& out,
                   const char* const* environment, std::vector<std::string>& notes);
// `what`: the file's kind, for the sentence.
std::string read_file(const std::string& what, const std::string& path, std::string& out);
// Adds hosts; `whose`: of which option or file.
std::string read_hosts(const HostList& list, const std::string& whose,
                       std::vector<HostSlots>& into);
std::string read_hostfile(const std::string& path, std::vector<HostSlots>& into);
std::string read_stdin(const std::string& text, Options& options);
std::string read_map(const std::string& text, Options& options);  // with modifiers behind ':'
std::string read_bind(const std::string& text, Options& options);
std::string read_rankfile(const std::string& path, Options& options);
std::string read_display(const std::string& text, Options& options);
std::string read_output(const std::string& text, Options& options);
std::string read_launcher(const std::string& option, const std::string& text, Options& options);

// One word of a list; says the nearest one when it is none of them.
template <class T> std::string choose(const std::string& option, const std::string& word,
                                      const std::map<std::string, T>& choices, T& out) {
    if (auto found = choices.find(lower(word)); found != choices.end()) {
        out = found->second;
        return {};
    }
    std::vector<std::string> names;
    std::string all;
    for (const auto& [name, value] : choices) {
        names.push_back(name);
        all += " " + name;
    }
    std::string nearest = nearest_name(lower(word), names);
    return nearest.empty() ? format("Option {}: '{}' is none of:{}", option, word, all)
                           : format(messages::value_meant, option, word, all, nearest);
}

}  // namespace pomona::option_values
