// btl/base/counters_page.cc: see counters_page.h.
#include "btl/base/counters_page.h"

#include "btl/base/format.h"
#include "btl/base/shared_names.h"

#include <cstddef>
#include <cstring>
#include <new>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
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

CountersPage::~CountersPage() {
    remove_name();
    munmap(page_, size_);
}

Counters& CountersPage::counters() { return static_cast<Shown*>(page_)->counters; }

// The memory is there before it is written to: where there is no more, that would end the process.
Status CountersPage::show(const std::string& name, const std::string& directory) {
    const int file = shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
    if (file < 0) return os_error(Code::io, "Cannot make the memory of counters");
    name_ = name;
    note_ = shared_note(directory, name);
    if (const int note = open(note_.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600); note >= 0)
        close(note);
    bool good = ftruncate(file, static_cast<off_t>(size_)) == 0;
#if defined(__linux__)
    good = good && posix_fallocate(file, 0, static_cast<off_t>(size_)) == 0;
#endif
    void* there =
        good ? mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
    if (there != MAP_FAILED) {
        std::memcpy(there, page_, size_);
        munmap(there, size_);
        good = mmap(page_, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) !=
               MAP_FAILED;
    }
    close(file);
    if (good && there != MAP_FAILED) return {};
    remove_name();
    return Error{Code::out_of_memory, "There is no room for the counters in shared memory"};
}

void CountersPage::remove_name() {
    if (name_.empty()) return;
    shm_unlink(name_.c_str());
    unlink(note_.c_str());
    name_.clear();
}

std::string counters_name(std::string_view tag, int rank) {
    return format("/pomona-{}-c{}", tag, rank);
}

std::optional<std::vector<uint64_t>> read_counters(const std::string& name) {
    const int file = shm_open(name.c_str(), O_RDONLY, 0);
    if (file < 0) return {};
    struct stat status {};
    void* page = MAP_FAILED;
    if (fstat(file, &status) == 0 && status.st_uid == geteuid() &&
        status.st_size >= static_cast<off_t>(sizeof(Shown)))
        page = mmap(nullptr, sizeof(Shown), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (page == MAP_FAILED) return {};
    const auto* shown = static_cast<const Shown*>(page);
    std::optional<std::vector<uint64_t>> values;
    if (shown->names == hash_of_names()) {
        values.emplace();
        for (const CounterInfo& each : counter_table())
            values->push_back((shown->counters.*each.field).load(std::memory_order_relaxed));
    }
    munmap(page, sizeof(Shown));
    return values;
}

}  // namespace pomona
