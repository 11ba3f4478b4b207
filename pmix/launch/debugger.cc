// pmix/launch/debugger.cc: see debugger.h.
#include "pmix/launch/debugger.h"

#include "btl/base/format.h"
#include "pmix/launch/ask.h"
#include "pmix/launch/options_table.h"

#include <algorithm>

#include <unistd.h>

namespace pomona {

// A shell between gdb and the program would be debugged with it; but without one gdb takes room and
// quotes within an argument apart.
static const char* gdb_shell(const std::vector<std::string>& command) {
    constexpr const char* plain =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
    bool all_plain = std::all_of(command.begin(), command.end(), [&](const std::string& word) {
        return !word.empty() && word.find_first_not_of(plain) == word.npos;
    });
    return all_plain ? "set startup-with-shell off" : "set startup-with-shell on";
}

std::vector<std::string> debugger_words(const std::string& debugger, bool batch,
                                        const std::vector<std::string>& command) {
    if (debugger == "gdb" && batch)
        return {"gdb",
                "-nx",
                "-q",
                "-batch",
                "-return-child-result",
                "-iex",
                gdb_shell(command),
                "-ex",
                "run",
                "-ex",
                "thread apply all backtrace",
                "--args"};
    if (debugger == "gdb") return {"gdb", "-q", "-iex", gdb_shell(command), "--args"};
    if (debugger == "lldb" && batch)
        return {"lldb", "--batch", "-o", "run", "-k", "thread backtrace all", "-k", "quit 1", "--"};
    if (debugger == "lldb") return {"lldb", "--"};
    return words_of(debugger);
}

std::string open_pane(const std::string& title, const std::string& process_file) {
    std::string file = shell_quoted(process_file);
    // The debugger reads from the pane's terminal; this only keeps it open.
    std::string keeper = format(
        "trap 'kill -INT $(cat {} 2>/dev/null) 2>/dev/null' INT; trap '' QUIT TSTP; "
        "printf '%s\\n' {}; while [ -e {} ]; do sleep 0.2; done",
        file, shell_quoted(title), file);
    std::string out =
        ask(format("tmux split-window -d -P -F '#{{pane_tty}}' sh -c {} && tmux "
                   "select-layout tiled",
                   shell_quoted(keeper)));
    auto lines = lines_of(out);
    return !lines.empty() && lines[0].starts_with("/dev/") ? lines[0] : "";
}

void become_tmux(const std::vector<std::string>& command) {
    std::vector<std::string> words = {
        "tmux",
        "new-session",
        "sh",
        "-c",
        "\"$@\"; echo \"mpirun ended with code $?; Enter closes this window.\"; read -r answer",
        "sh"};
    words.insert(words.end(), command.begin(), command.end());
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    execvp(pointers[0], pointers.data());
}

}  // namespace pomona
