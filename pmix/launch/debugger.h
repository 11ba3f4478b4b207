// pmix/launch/debugger.h: the command lines of debuggers, and panes of tmux for them.
#pragma once

#include <string>
#include <vector>

namespace pomona {

// What stands before this program and its arguments. `batch`: nobody types; gdb and lldb run the
// program and print its calls if it crashes. Other debuggers are called as they are given.
std::vector<std::string> debugger_words(const std::string& debugger, bool batch,
                                        const std::vector<std::string>& command);

// A new pane in the window of tmux in which mpirun runs; its terminal, or "". Ctrl-C in it is
// passed to the process whose number stands in `process_file`; the pane ends when that file is
// gone.
std::string open_pane(const std::string& title, const std::string& process_file);

// Inside a new session of tmux: this command line again. Returns when there is no tmux.
void become_tmux(const std::vector<std::string>& command);

}  // namespace pomona
