// pmix/launch/bait.h: tells that a process of the job looks for another MPI library, however soon
// it ends and whoever has started it.
// Idea: the first folder of the ranks' search path holds files of the names that other MPI
// libraries have. They are programs of no machine, so the loader opens one, sees that, and searches
// on as if it were not there (glibc; other loaders may fail, and get none). That it was opened,
// inotify tells. Linux only.
#pragma once

#include <string>
#include <vector>

namespace pomona {

// Makes the folder in the job's directory; "" where there can be none.
std::string make_bait(const std::string& job_directory);

class BaitWatch {
public:
    BaitWatch() = default;
    ~BaitWatch() { stop(); }
    BaitWatch(const BaitWatch&) = delete;
    BaitWatch& operator=(const BaitWatch&) = delete;

    // Watches what make_bait() has made; false where nothing can be watched.
    bool watch(const std::string& job_directory);
    void stop();
    int descriptor() const { return descriptor_; }  // readable when there is news
    // The libraries looked for since the last call.
    std::vector<std::string> taken();

private:
    int descriptor_ = -1;
};

}  // namespace pomona
