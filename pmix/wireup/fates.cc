// pmix/wireup/fates.cc: see fates.h.
#include "pmix/wireup/fates.h"

#include "btl/base/format.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

namespace pomona {

namespace {

constexpr size_t kTold = 3;

struct Fates {
    std::mutex mutex;
    std::vector<std::pair<int, std::string>> list;
};
// Not destroyed: errors may be met while the process ends.
Fates& fates() {
    static Fates* const made = new Fates;
    return *made;
}

}  // namespace

void note_fate(int rank, const std::string& how) {
    if (how.empty()) return;
    Fates& known = fates();
    std::lock_guard guard(known.mutex);
    std::erase_if(known.list, [&](const auto& each) { return each.first == rank; });
    known.list.emplace_back(rank, how);
}

size_t fates_known() {
    Fates& known = fates();
    std::lock_guard guard(known.mutex);
    return known.list.size();
}

std::string known_fates() {
    Fates& known = fates();
    std::lock_guard guard(known.mutex);
    std::string out;
    size_t first = known.list.size() - std::min(known.list.size(), kTold);
    for (size_t i = first; i < known.list.size(); ++i)
        out += format("{}rank {} of the job {}", out.empty() ? "" : ", ", known.list[i].first,
                      known.list[i].second);
    return out;
}

}  // namespace pomona
