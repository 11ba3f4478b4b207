// mpi/trace/recorder.cc: see recorder.h.
#include "mpi/trace/recorder.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <new>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace pomona::trace {

std::atomic<bool> recording{false};

namespace {

constexpr uint64_t kBytesMax = uint64_t{4} << 30;  // of one rank's file

struct File {
    std::mutex mutex;
    std::string path;
    int descriptor = -1;
    uint64_t bytes = 0;
    PartHeader* header = nullptr;
    uint64_t threads = 0;
    bool full = false;
};
// Not destroyed: threads may call MPI while the process ends.
File& file() {
    static File* const made = new File;
    return *made;
}

struct Thread {
    Chunk* chunk = nullptr;
    uint64_t number = 0;  // from 1
};
// Initial exec would be quicker and fails where the library is loaded late.
thread_local Thread own;

// A hole in the file would end the process when the disk is full.
bool provide(int descriptor, uint64_t from, uint64_t bytes) {
#if defined(__APPLE__)
    return ftruncate(descriptor, static_cast<off_t>(from + bytes)) == 0;
#else
    int error = posix_fallocate(descriptor, static_cast<off_t>(from), static_cast<off_t>(bytes));
    errno = error;
    return error == 0;
#endif
}

Chunk* next_chunk() {
    File& f = file();
    std::lock_guard guard(f.mutex);
    if (own.chunk) munmap(static_cast<void*>(own.chunk), Chunk::kBytes);
    own.chunk = nullptr;
    if (f.full) ++f.header->lost;
    if (f.descriptor < 0 || f.full) return nullptr;
    bool room = f.bytes + Chunk::kBytes <= kBytesMax;
    errno = EFBIG;
    if (!room || !provide(f.descriptor, f.bytes, Chunk::kBytes)) {
        f.full = true;
        f.header->lost = 1;
        std::fprintf(stderr, "pomona trace: rank %d records no more: %s: %s\n", f.header->rank,
                     f.path.c_str(), std::strerror(errno));
        return nullptr;
    }
    void* mapped = mmap(nullptr, Chunk::kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, f.descriptor,
                        static_cast<off_t>(f.bytes));
    if (mapped == MAP_FAILED) return nullptr;
    f.bytes += Chunk::kBytes;
    own.chunk = static_cast<Chunk*>(mapped);
    if (!own.number) own.number = ++f.threads;
    own.chunk->thread = own.number;
    return own.chunk;
}

}  // namespace

std::string open_part(const std::string& folder, int rank, int size, bool far) {
    File& f = file();
    std::lock_guard guard(f.mutex);
    // Hosts may share the folder, and rank 0 writes part_path() there.
    f.path = part_path(folder, rank) + (far ? ".far" : "");
    if (mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST)
        return folder + ": " + std::strerror(errno);
    f.descriptor = open(f.path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (f.descriptor < 0 || !provide(f.descriptor, 0, kHeaderBytes))
        return f.path + ": " + std::strerror(errno);
    void* mapped = mmap(nullptr, kHeaderBytes, PROT_READ | PROT_WRITE, MAP_SHARED, f.descriptor, 0);
    if (mapped == MAP_FAILED) return f.path + ": " + std::strerror(errno);
    f.bytes = kHeaderBytes;
    f.header = new (mapped) PartHeader{};
    f.header->magic = PartHeader::kMagic;
    f.header->functions = names_number();
    f.header->rank = rank;
    f.header->size = size;
    f.header->process = static_cast<int32_t>(getpid());
    return {};
}

PartHeader& part_header() { return *file().header; }
const std::string& part_file() { return file().path; }

void close_part() {
    recording.store(false, std::memory_order_release);  // pairs with is_recording()
    File& f = file();
    std::lock_guard guard(f.mutex);
    if (f.descriptor >= 0) close(f.descriptor);
    f.descriptor = -1;
}

// Where this thread's next record goes, and in `count` its number there; nullptr: nowhere.
static Chunk* chunk_with_room(uint64_t& count) {
    Chunk* chunk = own.chunk;
    // The thread is the only one that writes.
    count = chunk ? chunk->count.load(std::memory_order_relaxed) : Chunk::kRecords;
    if (count < Chunk::kRecords) return chunk;
    count = 0;
    return next_chunk();
}

void append(const Record& record) {
    uint64_t count = 0;
    Chunk* chunk = chunk_with_room(count);
    if (!chunk) return;
    chunk->records[count] = record;
    chunk->count.store(count + 1, std::memory_order_release);  // pairs with merge()'s load
}

void show_open(const Record& record) {
    uint64_t count = 0;
    if (Chunk* chunk = chunk_with_room(count)) chunk->records[count] = record;
}

void show_none() {
    Chunk* chunk = own.chunk;
    uint64_t count = chunk ? chunk->count.load(std::memory_order_relaxed) : Chunk::kRecords;
    if (count < Chunk::kRecords) chunk->records[count].begin = 0;
}

Record* last_record() {
    Chunk* chunk = own.chunk;
    uint64_t count = chunk ? chunk->count.load(std::memory_order_relaxed) : 0;
    return count ? &chunk->records[count - 1] : nullptr;
}

}  // namespace pomona::trace
