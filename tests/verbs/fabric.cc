// tests/verbs/fabric.cc: see fabric.h.
#include "tests/verbs/fabric.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <sstream>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

namespace fake {

static int add_device(Fabric& fabric, int machine, const std::string& name, int cable, int end) {
    if (fabric.devices == kDevicesMost) return -1;
    DeviceState& made = fabric.device[fabric.devices];
    std::strncpy(made.name, name.c_str(), sizeof made.name - 1);
    made.machine = machine;
    made.cable = cable;
    made.end = end;
    made.port_up = made.regions = 1;
    made.gids = Gids::usual;
    made.message_most = pomona::rdma::kLimits.message_most;
    made.granted = made.deep = pomona::rdma::kLimits.frames_most;
    return fabric.devices++;
}

static bool fill(Fabric& fabric, const std::string& path, std::string& why) {
    std::ifstream in(path);
    if (!in) return why = "There is no " + path, false;
    std::string line;
    for (int cables = 0; std::getline(in, line);) {
        std::istringstream words(line);
        std::string word, names[2];
        int machines[2];
        if (!(words >> word) || word[0] == '#') continue;
        if (word != "cable") {
            if (!control(fabric, line)) return why = "Not understood: " + line, false;
            continue;
        }
        if (!(words >> machines[0] >> names[0] >> machines[1] >> names[1]))
            return why = "Not understood: " + line, false;
        int first = add_device(fabric, machines[0], names[0], cables, 0);
        int second = add_device(fabric, machines[1], names[1], cables, 1);
        if (first < 0 || second < 0) return why = "There are too many devices", false;
        fabric.device[first].other = second;
        fabric.device[second].other = first;
        ++cables;
    }
    return true;
}

Fabric* open_fabric(const std::string& directory, std::string& why) {
    std::string path = directory + "/fabric";
    int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || flock(file, LOCK_EX) != 0 || ftruncate(file, sizeof(Fabric)) != 0) {
        why = path + ": " + std::strerror(errno);
        if (file >= 0) close(file);
        return nullptr;
    }
    void* at = mmap(nullptr, sizeof(Fabric), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    auto* fabric = static_cast<Fabric*>(at);
    bool good = at != MAP_FAILED;
    if (good && fabric->ready == 0) {
        fabric->devices = 0;
        good = fill(*fabric, directory + "/cables", why);
        if (good) fabric->ready = 1;
    }
    flock(file, LOCK_UN);  // a mapping would keep it
    close(file);
    if (!good && at != MAP_FAILED) munmap(at, sizeof(Fabric));
    return good ? fabric : nullptr;
}

static Gids gids_named(const std::string& value) {
    if (value == "on") return Gids::usual;
    if (value == "local") return Gids::local;
    if (value == "self") return Gids::self;
    return value == "late" ? Gids::late : Gids::none;
}

static bool apply(Fabric& fabric, DeviceState& device, const std::string& what,
                  const std::string& value) {
    bool on = value == "on" || value == "up";
    DeviceState& other = fabric.device[device.other];
    if (what == "port") return device.port_up = on, true;
    if (what == "pull") return device.port_up = other.port_up = 0, true;
    if (what == "plug") return device.port_up = other.port_up = 1, true;
    if (what == "lose") return device.lost = 1, true;
    if (what == "find") return device.lost = 0, true;
    if (what == "gids") return device.gids = gids_named(value), true;
    if (what == "regions") return device.regions = on, true;
    if (what == "stuck") return device.stuck = on, true;
    if (what == "stall") return device.stall = on, true;
    if (what == "reliable") return device.reliable = on, true;
    if (what == "too_long") return device.too_long_fails = value == "failed", true;
    if (what == "hang") {
        const auto* call = std::find(std::begin(kCalls), std::end(kCalls), value);
        device.hang = static_cast<uint32_t>(call - std::begin(kCalls));
        return call != std::end(kCalls);
    }
    if (what == "engine") return device.engine = on, true;
    if (what == "hold") return device.hold = on, true;
    uint64_t number = std::strtoull(value.c_str(), nullptr, 0);
    auto part = static_cast<uint32_t>(number);
    if (what == "latency") return device.latency = number, true;
    if (what == "rate") return device.rate = number, true;
    if (what == "message_most") return device.message_most = number, true;
    if (what == "deep") return device.deep = part, true;
    if (what == "granted") return device.granted = part, true;
    if (what == "drop") return device.drop = part, true;
    if (what == "duplicate") return device.duplicate = part, true;
    if (what == "reorder") return device.reorder = part, true;
    if (what == "corrupt") return device.corrupt = part, true;
    return false;
}

bool control(Fabric& fabric, const std::string& command) {
    std::istringstream words(command);
    std::string what, machine, name, value;
    words >> what >> machine >> name >> value;
    bool any = false;
    for (int i = 0; i < fabric.devices; ++i) {
        DeviceState& device = fabric.device[i];
        if ((machine != "*" && machine != std::to_string(device.machine)) ||
            (name != "*" && name != device.name))
            continue;
        if (!apply(fabric, device, what, value)) return false;
        any = true;
    }
    return any;
}

// As a Mac's: [0] link-local, [1] the cable's IPv4 address, or [2].
std::array<uint8_t, 16> gid_of(const DeviceState& device, int index) {
    std::array<uint8_t, 16> out{};
    Gids gids = device.gids;
    if (gids == Gids::none) return out;
    auto cable = static_cast<uint8_t>(device.cable), end = static_cast<uint8_t>(device.end + 1);
    if (index == 0) out = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x02, 0, cable, 0xff, 0xfe, 0, 0, end};
    if (index != (gids == Gids::late ? 2 : 1) || gids == Gids::local) return out;
    out = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, cable, end};
    // No two of them alike but in the network that all have.
    auto apart = static_cast<uint8_t>(7 * cable + 100 * end);
    if (gids == Gids::self) out[12] = 169, out[13] = 254, out[14] = apart;
    return out;
}

bool has_gid(const DeviceState& device, const std::array<uint8_t, 16>& gid) {
    for (int index = 0; index < kGids; ++index)
        if (gid_of(device, index) == gid) return true;
    return false;
}

}  // namespace fake
