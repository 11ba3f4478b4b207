// pmix/launch/executable.h: what a file is that the system does not execute, for people.
#pragma once

#include <string>

namespace pomona {

// Whether a shell may read it where the system says ENOEXEC: a script without a first line of its
// own, but no program of another system and no empty file, which is one whose copying failed.
bool is_plain_script(const std::string& path);

// Why executing it failed so, beyond the system's own word.
std::string why_not_executed(const std::string& path, int error);

}  // namespace pomona
