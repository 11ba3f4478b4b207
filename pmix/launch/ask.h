// pmix/launch/ask.h: what a command of the shell prints, and its lines.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace pomona {

// As one word of a shell.
std::string shell_quoted(const std::string& text);

// On both streams; "" where it cannot be started.
std::string ask(const std::string& command);

// The same of a command that is spoken with: what `answer` makes of each line that it prints goes
// to its standard input.
std::string converse(const std::string& command,
                     const std::function<std::string(const std::string&)>& answer);

// Those that are not empty.
std::vector<std::string> lines_of(const std::string& text);

}  // namespace pomona
