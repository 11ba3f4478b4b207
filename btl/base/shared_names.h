// btl/base/shared_names.h: how a job's directory tells which named shared memory the job has.
// Idea: macOS cannot list the names of shared memory, and a job that is killed as a whole removes
// none. So whoever makes one leaves an empty file "shm.<name>" in the job's directory, and
// whoever sweeps the directory removes the memory too (btl/shm/segment.cc,
// pmix/job_directory.cc). Where the names can be listed, on Linux, the memory itself tells
// whether its maker lives, since a launcher's own directory may be gone before anybody sweeps it:
// the maker holds a lock (flock) on it, and then marks it as locked, so that nobody takes what
// another version made for abandoned.
#pragma once

#include <string>
#include <string_view>
#include <sys/stat.h>

namespace pomona {

inline constexpr std::string_view shared_note_prefix = "shm.";
inline constexpr mode_t shared_locked = 0600 | S_ISVTX;  // the mark

// The file for "/pomona-...".
inline std::string shared_note(const std::string& directory, const std::string& name) {
    return directory + "/" + std::string(shared_note_prefix) + name.substr(1);
}

// The name that a file tells of; empty when it is no such file.
inline std::string shared_name_of(std::string_view file) {
    if (!file.starts_with(shared_note_prefix)) return {};
    file.remove_prefix(shared_note_prefix.size());
    if (!file.starts_with("pomona-")) return {};
    return "/" + std::string(file);
}

}  // namespace pomona
