// btl/shm/life_file.h: a file in the job's directory by which others see whether its maker lives.
// Idea: the maker holds a record lock (fcntl) on it, which the system takes away when the process
// ends, however it ends, and before its parent hears of it. So neither PID namespaces nor process
// numbers that are used again matter, and a zombie counts as dead. Forked children do not inherit
// such a lock (they would inherit flock's).
// The lock is also lost when its process closes any descriptor of the file. So a process keeps in
// mind which life files it holds itself, and never opens those.
#pragma once

#include "btl/base/result.h"

#include <cstdint>
#include <string>

namespace pomona {

enum class Life { unknown, alive, dead };

class LifeFile {
public:
    // Makes the file, in place of one that an earlier run has left, and holds its lock until the
    // process or this object ends. `incarnation` tells the runs of a job apart. On file systems
    // without locks there is no file, and nobody knows.
    static LifeFile hold(const std::string& path, uint64_t incarnation);
    // Unknown: there is no file (yet, or any more), or it is of another incarnation.
    static Life look(const std::string& path, uint64_t incarnation);

    LifeFile() = default;
    LifeFile(LifeFile&& other) noexcept;
    LifeFile& operator=(LifeFile&& other) noexcept;
    ~LifeFile();  // removes the file

    bool held() const { return descriptor_ >= 0; }

private:
    int descriptor_ = -1;
    std::string path_;
};

}  // namespace pomona
