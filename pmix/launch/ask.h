// pmix/launch/ask.h: commands of the shell: what they print, its lines, and what they are told.
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

// Its standard input is the text. False: it cannot be started, or has not ended with 0.
bool tell(const std::string& command, const std::string& text);

// Those that are not empty.
std::vector<std::string> lines_of(const std::string& text);

}  // namespace pomona
