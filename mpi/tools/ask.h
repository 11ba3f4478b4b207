// mpi/tools/ask.h: what a command of the shell prints.
#pragma once

#include <string>

namespace pomona {

// Words of a shell.
inline std::string shell_quoted(const std::string& text) {
    std::string out = "'";
    for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'";
}

// On both streams; "" where it cannot be started.
std::string ask(const std::string& command);

}  // namespace pomona
