// pmix/launch/ssh.h: how mpirun starts its agent on another host, and what it says when that fails.
// Idea: `PROGRAM [options] HOST command`, where PROGRAM is ssh or whatever --ssh names. The command
// is one word that every login shell takes alike (sh, bash, zsh, fish, csh): it calls /bin/sh,
// which looks for mpirun where it stands here, below a prefix that was given, in Homebrew's
// folders, and in PATH last.
#pragma once

#include <string>
#include <vector>

namespace pomona {

// mpirun's only argument where another mpirun has started it: its words come and go by the standard
// streams, or, where only standard input gets through, by a connection that it makes (dial_back.h).
inline constexpr char kAgentRole[] = "--pomona-agent";
inline constexpr char kDiallingAgentRole[] = "--pomona-agent-dials";

// The file that this process executes; "" if the system does not tell.
std::string own_program();

// What looks for mpirun on the other host and makes an agent of it. `prefix` may be empty.
std::string agent_command(const std::string& own, const std::string& prefix,
                          const std::string& role = kAgentRole);

// The whole command line; `program` as given by --ssh, words with spaces between.
std::vector<std::string> shell_words_for(const std::string& program, const std::string& host,
                                         const std::string& command);

// The server has closed the connection before it knew who calls: one that takes so many at a time
// (MaxStartups in sshd_config) will take it later.
bool turned_away(const std::string& printed);

// Why the agent could not be started, with the mend, from the exit status (of waitpid) and from
// what was printed.
std::string explain_shell(const std::string& program, const std::string& host, int status,
                          const std::string& printed);

}  // namespace pomona
