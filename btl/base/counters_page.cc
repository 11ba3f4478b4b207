// btl/base/counters_page.cc: see counters_page.h.
#include "btl/base/counters_page.h"

#include "btl/base/format.h"

#include <cstddef>
#include <new>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace pomona {

namespace {

struct Shown {
    uint64_t names = 0;  // whose counters these are: a hash of their names
    Counters counters;
};

uint64_t hash_of_names() {
    uint64_t hash = 14695981039346656037U;  // FNV-1a
    for (const CounterInfo& each : counter_table())
        for (const char letter : std::string(each.name) + "\n")
            hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211U;
    return hash;
}

}  // namespace

CountersPage::CountersPage() {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    size_ = (sizeof(Shown) + page - 1) / page * page;
    page_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page_ == MAP_FAILED) throw std::bad_alloc();
    new (page_) Shown{hash_of_names(), {}};
}

CountersPage::~CountersPage() { munmap(page_, size_); }

Counters& CountersPage::counters() { return static_cast<Shown*>(page_)->counters; }

Status CountersPage::show(const std::string& path) {
    const int file = open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    if (file < 0) return os_error(Code::io, "Cannot make the file of counters");
    // Written whole: a page that the disk has no room for would end the process when it counts.
    Status status;
    if (write(file, page_, size_) != static_cast<ssize_t>(size_))
        status = os_error(Code::io, "Cannot write the file of counters");
    else if (mmap(page_, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) ==
             MAP_FAILED)
        status = os_error(Code::io, "Cannot map the file of counters");
    close(file);
    if (!status) unlink(path.c_str());
    return status;
}

std::string counters_file(const std::string& directory, int rank) {
    return format("{}/counters.{}", directory, rank);
}

std::optional<std::vector<uint64_t>> read_counters(const std::string& path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0) return {};
    alignas(Shown) std::byte bytes[sizeof(Shown)];
    const ssize_t got = pread(file, bytes, sizeof bytes, 0);
    close(file);
    if (got != static_cast<ssize_t>(sizeof bytes)) return {};
    const auto* shown = reinterpret_cast<const Shown*>(bytes);
    if (shown->names != hash_of_names()) return {};
    std::vector<uint64_t> values;
    for (const CounterInfo& each : counter_table())
        values.push_back((shown->counters.*each.field).load(std::memory_order_relaxed));
    return values;
}

}  // namespace pomona
