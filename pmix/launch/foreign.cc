// pmix/launch/foreign.cc: see foreign.h. The formats: System V ABI, chapters 4 and 5 (ELF); Apple's
// mach-o/loader.h (64-bit, one architecture). Little-endian files only.
#include "pmix/launch/foreign.h"

#include "btl/base/format.h"

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

namespace pomona {

namespace {

constexpr uint32_t kElf = 0x464c457f, kMachO = 0xfeedfacf;
constexpr size_t kFileMax = size_t{1} << 28;   // larger ones are not read
constexpr uint32_t kLoad = 1, kDynamic = 2;    // segments
constexpr uint64_t kNeeded = 1, kStrings = 5;  // dynamic entries
constexpr uint32_t kLoadDylib = 0xc, kLoadWeakDylib = 0x80000018;

// A file's bytes; what lies outside reads as zeros.
class Image {
public:
    explicit Image(std::string bytes) : bytes_(std::move(bytes)) {}
    template <class T> T at(uint64_t offset) const {
        T out{};
        if (offset <= bytes_.size() && bytes_.size() - offset >= sizeof out)
            std::memcpy(&out, bytes_.data() + offset, sizeof out);
        return out;
    }
    std::string text(uint64_t offset) const {
        if (offset >= bytes_.size()) return {};
        return bytes_.substr(offset, bytes_.find('\0', offset) - offset);
    }

private:
    std::string bytes_;
};

struct Segment {
    uint64_t offset, address, length;
};

std::vector<std::string> needed_by_elf(const Image& image) {
    if (image.at<uint8_t>(4) != 2 || image.at<uint8_t>(5) != 1)
        return {};  // 64 bits, little-endian
    auto table = image.at<uint64_t>(32);
    size_t entry_bytes = image.at<uint16_t>(54), entries = image.at<uint16_t>(56);
    std::vector<Segment> loaded;
    Segment dynamic{};
    for (size_t i = 0; i < entries; ++i) {
        uint64_t entry = table + i * entry_bytes;
        Segment found{image.at<uint64_t>(entry + 8), image.at<uint64_t>(entry + 16),
                      image.at<uint64_t>(entry + 32)};
        if (image.at<uint32_t>(entry) == kLoad) loaded.push_back(found);
        if (image.at<uint32_t>(entry) == kDynamic) dynamic = found;
    }
    std::vector<uint64_t> names;
    uint64_t strings = 0;
    for (uint64_t at = 0; at + 16 <= dynamic.length; at += 16) {
        auto tag = image.at<uint64_t>(dynamic.offset + at);
        auto value = image.at<uint64_t>(dynamic.offset + at + 8);
        if (tag == 0) break;
        if (tag == kNeeded) names.push_back(value);
        if (tag == kStrings)
            for (const Segment& each : loaded)
                if (value >= each.address && value - each.address < each.length)
                    strings = value - each.address + each.offset;
    }
    std::vector<std::string> out;
    for (uint64_t name : names) out.push_back(image.text(strings + name));
    return out;
}

std::vector<std::string> needed_by_mach_o(const Image& image) {
    std::vector<std::string> out;
    auto commands = image.at<uint32_t>(16);
    uint64_t at = 32;
    for (uint32_t i = 0; i < commands; ++i) {
        auto command = image.at<uint32_t>(at), length = image.at<uint32_t>(at + 4);
        if (length < 8) break;
        if (command == kLoadDylib || command == kLoadWeakDylib) {
            std::string name = image.text(at + image.at<uint32_t>(at + 8));
            out.push_back(name.substr(name.rfind('/') + 1));
        }
        at += length;
    }
    return out;
}

}  // namespace

std::vector<std::string> needed_libraries(const std::string& path) {
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    if (!file) return {};
    std::streamoff length = file.tellg();
    if (length < 64 || static_cast<uint64_t>(length) > kFileMax) return {};
    std::string bytes(4, '\0');
    file.seekg(0);
    file.read(bytes.data(), 4);
    uint32_t magic = 0;
    std::memcpy(&magic, bytes.data(), sizeof magic);
    if (magic != kElf && magic != kMachO) return {};
    bytes.resize(static_cast<size_t>(length));
    file.read(bytes.data() + 4, length - 4);
    Image image(std::move(bytes));
    return magic == kElf ? needed_by_elf(image) : needed_by_mach_o(image);
}

// Open MPI, MPICH and those made from it, Intel MPI: libmpi.so.40, libmpich.so.12, libmpi.12.dylib.
static bool is_another_mpi(std::string_view name) {
    for (std::string_view other : {"libmpi.", "libmpich.", "libmpicxx.", "libmpi_cxx."})
        if (name.starts_with(other)) return true;
    return false;
}

std::string foreign_mpi_of(const std::string& path) {
    for (const std::string& name : needed_libraries(path))
        if (is_another_mpi(name)) return name;
    return {};
}

// Names of their functions, which stand in what they print and in nobody else's words.
std::string_view foreign_mpi_saying(std::string_view text) {
    for (std::string_view name : {"internal_Init_thread(", "MPIR_pmi_init(", "MPIR_Init_thread("})
        if (text.find(name) != text.npos) return "MPICH";
    for (std::string_view name : {"ompi_mpi_init", "ompi_rte_init", "orte_init"})
        if (text.find(name) != text.npos) return "Open MPI";
    return {};
}

namespace {

constexpr size_t kProcessesMax = 200;  // of one rank that are looked at

struct Memory {
    std::string other;
    bool ours = false;
};

Memory memory_of(int pid) {
    std::ifstream maps(format("/proc/{}/maps", pid));
    Memory out;
    for (std::string line; std::getline(maps, line);) {
        size_t slash = line.rfind('/');
        if (slash == line.npos) continue;
        std::string name = line.substr(slash + 1);
        if (name.starts_with("libmpi_abi.")) out.ours = true;
        if (is_another_mpi(name)) out.other = name;
    }
    return out;
}

std::vector<int> children_of(int pid) {
    std::vector<int> out;
    std::error_code none;
    std::filesystem::directory_iterator tasks(format("/proc/{}/task", pid), none), end;
    for (; tasks != end; tasks.increment(none)) {
        std::ifstream file(tasks->path().string() + "/children");
        for (int child = 0; file >> child;) out.push_back(child);
        if (none) break;
    }
    return out;
}

// Variables that Open MPI's and MPICH's launchers give to their processes. Ours gives none of them.
bool has_launcher(int pid) {
    std::ifstream file(format("/proc/{}/environ", pid), std::ios::binary);
    for (std::string entry; std::getline(file, entry, '\0');)
        for (std::string_view name : {"OMPI_COMM_WORLD_SIZE=", "PMI_RANK=", "PMI_FD="})
            if (entry.starts_with(name)) return true;
    return false;
}

std::string name_of(int pid) {
    std::ifstream file(format("/proc/{}/comm", pid));
    std::string out;
    std::getline(file, out);
    return out;
}

}  // namespace

// A process that has ours as well may be one of torch's, or about to call MPI_Init of either.
SeenMpi mpi_in(int pid) {
    SeenMpi out;
    std::vector<int> processes{pid};
    for (size_t i = 0; i < processes.size() && i < kProcessesMax; ++i) {
        int each = processes[i];
        for (int child : children_of(each)) processes.push_back(child);
        Memory memory = memory_of(each);
        out.ours = out.ours || memory.ours;
        if (memory.ours || memory.other.empty()) continue;
        if (each != pid && has_launcher(each)) {
            out.has_launcher = true;
        } else if (out.library.empty()) {
            out.library = memory.other;
            if (each != pid) out.program = name_of(each);
        }
    }
    if (out.ours) out.library.clear();
    return out;
}

}  // namespace pomona
