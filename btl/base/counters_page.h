// btl/base/counters_page.h: a process's counters, which `pomona top` reads while it runs.
// Idea: they stand on a page of their own. Once the job's directory is known, a file there takes
// the page's place, which any process of this user may read: nobody is asked, so that it works for
// processes that compute or are stuck, and counting costs what it did before.
#pragma once

#include "btl/base/counters.h"
#include "btl/base/result.h"

#include <optional>
#include <string>
#include <vector>

namespace pomona {

class CountersPage {
public:
    CountersPage();
    ~CountersPage();
    CountersPage(const CountersPage&) = delete;
    CountersPage& operator=(const CountersPage&) = delete;

    Counters& counters();

    // From now on they stand in this new file. While nobody else uses them: what is counted
    // meanwhile is lost.
    Status show(const std::string& path);

private:
    void* page_;
    size_t size_;
};

// The file of a rank in its job's directory.
std::string counters_file(const std::string& directory, int rank);

// What stands in such a file, in the order of counter_table(). Empty where there is none, or one
// of another version whose counters are others.
std::optional<std::vector<uint64_t>> read_counters(const std::string& path);

}  // namespace pomona
