// tests/threads/one_mapping.cc: mmap and munmap of this test program: a shared segment that several
// ranks (threads) map, as a whole or a part of it, stands at one address.
// Why: the thread sanitizer knows memory by address. With a mapping for each rank it would neither
// see what a ring's atomics order nor a race on its slots. The linker's --wrap puts these in
// between.
#if !defined(__APPLE__)
#include <cstddef>
#include <iterator>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <sys/stat.h>
#include <utility>

extern "C" {
void* __real_mmap(void* address, size_t size, int protection, int flags, int descriptor,
                  off_t offset);
int __real_munmap(void* address, size_t size);
void* __wrap_mmap(void* address, size_t size, int protection, int flags, int descriptor,
                  off_t offset);
int __wrap_munmap(void* address, size_t size);
}

namespace {

struct Mapping {
    std::pair<dev_t, ino_t> file;
    size_t size = 0;
    int users = 0;
};
std::mutex& mutex() {
    static auto& made = *new std::mutex;
    return made;
}
std::map<std::byte*, Mapping>& mappings() {
    static auto& made = *new std::map<std::byte*, Mapping>;
    return made;
}

}  // namespace

void* __wrap_mmap(void* address, size_t size, int protection, int flags, int descriptor,
                  off_t offset) {
    struct stat state;
    bool shared = (flags & MAP_SHARED) && !address && descriptor >= 0 &&
                  fstat(descriptor, &state) == 0 && S_ISREG(state.st_mode);
    if (!shared) return __real_mmap(address, size, protection, flags, descriptor, offset);
    std::lock_guard guard(mutex());
    std::pair file(state.st_dev, state.st_ino);
    // Its maker maps a segment as a whole, before others know its name.
    auto begin = static_cast<size_t>(offset);
    for (auto& [place, mapping] : mappings())
        if (mapping.file == file && mapping.size >= begin + size)
            return ++mapping.users, place + begin;
    void* place = __real_mmap(address, size, protection, flags, descriptor, offset);
    if (place != MAP_FAILED && offset == 0)
        mappings()[static_cast<std::byte*>(place)] = {file, size, 1};
    return place;
}

int __wrap_munmap(void* address, size_t size) {
    {
        std::lock_guard guard(mutex());
        auto after = mappings().upper_bound(static_cast<std::byte*>(address));
        if (after != mappings().begin()) {
            auto found = std::prev(after);
            auto& [place, mapping] = *found;
            if (address < place + mapping.size) {
                if (--mapping.users > 0) return 0;
                address = place;
                size = mapping.size;
                mappings().erase(found);
            }
        }
    }
    return __real_munmap(address, size);
}
#endif
