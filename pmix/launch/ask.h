// pmix/launch/ask.h: what a command of the shell prints, and its lines.
#pragma once

#include <string>
#include <vector>

namespace pomona {

// As one word of a shell.
std::string shell_quoted(const std::string& text);

// On both streams; "" where it cannot be started.
std::string ask(const std::string& command);

// Those that are not empty.
std::vector<std::string> lines_of(const std::string& text);

}  // namespace pomona
