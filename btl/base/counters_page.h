// btl/base/counters_page.h: a process's counters, which `pomona top` reads while it runs.
// Idea: they stand on a page of their own. Once the job is known, shared memory takes the page's
// place, which any process of this user may read: nobody is asked, so that it works for processes
// that compute or are stuck, and counting costs what it did before. A file would cost more: a
// system that writes its page to a disk makes who counts meanwhile wait.
#pragma once

#include "btl/base/counters.h"
#include "btl/base/result.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pomona {

class CountersPage {
public:
    CountersPage();
    ~CountersPage();
    CountersPage(const CountersPage&) = delete;
    CountersPage& operator=(const CountersPage&) = delete;

    Counters& counters();

    // From now on they stand in new shared memory of this name, which a file in `directory`, the
    // job's, tells of (btl/base/shared_names.h). While nobody else uses them: what is counted
    // meanwhile is lost.
    Status show(const std::string& name, const std::string& directory);

private:
    void remove_name();
    std::string name_, note_;
    void* page_;
    size_t size_;
};

// Of a rank of the job with this tag.
std::string counters_name(std::string_view tag, int rank);

// What stands in memory of this name, in the order of counter_table(). Empty where there is none,
// or it is of another version whose counters are others.
std::optional<std::vector<uint64_t>> read_counters(const std::string& name);

}  // namespace pomona
