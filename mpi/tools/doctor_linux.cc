// mpi/tools/doctor_linux.cc: the doctor's checks that only Linux has.
#include "mpi/tools/doctor.h"

#include "btl/base/format.h"

#include <algorithm>
#include <cstdlib>

namespace pomona::doctor {

namespace {

// A rank's rings take about 1 MiB a peer on the machine; containers often have 64 MiB in all.
Finding shared_memory_room(const Probes& probes) {
    int64_t room = probes.free_bytes("/dev/shm");
    if (room < 0) return {"/dev/shm", State::bad, "is not there", "mount -t tmpfs tmpfs /dev/shm"};
    std::string text = pomona::format("{} MiB left", room >> 20);
    if (room < (int64_t{16} << 20))
        return {"/dev/shm", State::bad, text,
                "remove what is stale there, or mount -o remount,size=1G /dev/shm; in a container: "
                "docker run --shm-size=1g"};
    if (room < (int64_t{256} << 20))
        return {"/dev/shm", State::hint, text,
                "enough for a few ranks; more need docker run --shm-size=1g or a larger tmpfs"};
    return {"/dev/shm", State::good, text, ""};
}

Finding attach(const Probes& probes) {
    std::string scope = probes.read("/proc/sys/kernel/yama/ptrace_scope");
    int value = std::atoi(scope.c_str());
    if (value <= 1) return {"debugging", State::good, "gdb can look at ranks it starts", ""};
    return {"debugging", State::hint, pomona::format("kernel.yama.ptrace_scope is {}", value),
            "gdb cannot attach to ranks: sysctl kernel.yama.ptrace_scope=1 (as root)"};
}

// The first libmpi_abi of LD_LIBRARY_PATH is the one programs get.
Finding library_path(const Probes& probes) {
    std::string path = probes.variable("LD_LIBRARY_PATH");
    std::string found;
    for (size_t begin = 0; begin < path.size() && found.empty();) {
        size_t end = std::min(path.find(':', begin), path.size());
        std::string file = path.substr(begin, end - begin) + "/libmpi_abi.so.1";
        if (!probes.run("test -e '" + file + "' && echo yes").empty()) found = file;
        begin = end + 1;
    }
    if (found.empty()) return {"library path", State::good, "LD_LIBRARY_PATH names no MPI", ""};
    return {"library path", State::hint, pomona::format("LD_LIBRARY_PATH leads to {}", found),
            "programs run with that library; unset it if it is another MPI's"};
}

}  // namespace

std::vector<Finding> linux_checks(const Probes& probes) {
    return {shared_memory_room(probes), attach(probes), library_path(probes)};
}

}  // namespace pomona::doctor
