// tests/verbs/control.cc: fake_verbs DIR COMMAND...: does to the fake devices of DIR what fabric.h
// tells; `fake_verbs DIR counts` prints what happened, `fake_verbs DIR left` how many queue pairs
// and regions belong to processes that have ended.
#include "tests/verbs/fabric.h"

#include <cerrno>
#include <csignal>
#include <cstdio>

static int left_by_the_dead(const fake::Fabric& fabric) {
    int left = 0;
    auto dead = [](int32_t owner) { return owner != 0 && kill(owner, 0) != 0 && errno == ESRCH; };
    for (int i = 0; i < fabric.devices; ++i) {
        for (const auto& each : fabric.device[i].queue_pairs) left += dead(each.owner);
        for (const auto& each : fabric.device[i].region_owner) left += dead(each);
    }
    return left;
}

int main(int argc, char** argv) {
    std::string why, command;
    if (argc < 3) return std::fprintf(stderr, "usage: fake_verbs DIR COMMAND...\n"), 2;
    fake::Fabric* fabric = fake::open_fabric(argv[1], why);
    if (!fabric) return std::fprintf(stderr, "%s\n", why.c_str()), 1;
    for (int i = 2; i < argc; ++i) command += std::string(argv[i]) + " ";
    if (command == "left ") return std::printf("%d\n", left_by_the_dead(*fabric)), 0;
    if (command != "counts ") {
        if (fake::control(*fabric, command)) return 0;
        return std::fprintf(stderr, "Not understood: %s\n", command.c_str()), 2;
    }
    for (int i = 0; i < fabric->devices; ++i) {
        const fake::DeviceState& device = fabric->device[i];
        auto number = [](const auto& value) {
            return static_cast<unsigned long long>(value.load());
        };
        std::printf(
            "%d %s messages %llu bytes %llu no_receive %llu mismatched %llu dropped %llu too_early %llu refused %llu\n",
            device.machine, device.name, number(device.messages), number(device.bytes),
            number(device.no_receive), number(device.mismatched), number(device.dropped),
            number(device.too_early), number(device.refused));
    }
    return 0;
}
