// btl/base/shared_names.h: how a job's directory tells which named shared memory the job has.
// Idea: macOS cannot list the names of shared memory, and a job that is killed as a whole removes
// none. So whoever makes one leaves an empty file "shm.<name>" in the job's directory, and whoever
// sweeps the directory removes the memory too (btl/shm/segment.cc, pmix/job_directory.cc).
#pragma once

#include <string>
#include <string_view>

namespace pomona {

inline constexpr std::string_view shared_note_prefix = "shm.";

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
