// tests/verbs/control.cc: fake_verbs DIR COMMAND...: does to the fake devices of DIR what fabric.h
// tells; `fake_verbs DIR counts` prints what happened.
#include "tests/verbs/fabric.h"

#include <cstdio>

int main(int argc, char** argv) {
    std::string why, command;
    if (argc < 3) return std::fprintf(stderr, "usage: fake_verbs DIR COMMAND...\n"), 2;
    fake::Fabric* fabric = fake::open_fabric(argv[1], why);
    if (!fabric) return std::fprintf(stderr, "%s\n", why.c_str()), 1;
    for (int i = 2; i < argc; ++i) command += std::string(argv[i]) + " ";
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
