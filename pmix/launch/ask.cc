// pmix/launch/ask.cc: see ask.h.
#include "pmix/launch/ask.h"

#include <algorithm>
#include <cstdio>

namespace pomona {

std::string shell_quoted(const std::string& text) {
    std::string out = "'";
    for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'";
}

std::string ask(const std::string& command) {
    std::string out;
    std::FILE* pipe = popen((command + " 2>&1 </dev/null").c_str(), "r");
    if (!pipe) return out;
    char buffer[4096];
    while (size_t got = std::fread(buffer, 1, sizeof buffer, pipe)) out.append(buffer, got);
    pclose(pipe);
    return out;
}

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> out;
    for (size_t at = 0; at < text.size();) {
        size_t end = std::min(text.find('\n', at), text.size());
        if (end > at) out.push_back(text.substr(at, end - at));
        at = end + 1;
    }
    return out;
}

}  // namespace pomona
