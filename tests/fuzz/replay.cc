// tests/fuzz/replay.cc: runs a fuzz target without libFuzzer: every file of its corpus, then seeded
// mutations of them. Usage: replay FOLDER ROUNDS. The failure line repeats with POMONA_SEED.
#include "btl/base/random.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

using Input = std::vector<uint8_t>;

static Input mutated(Input input, pomona::Random& random) {
    for (uint64_t edits = 1 + random.below(6); edits > 0; --edits) {
        size_t at = input.empty() ? 0 : random.below(input.size());
        switch (input.empty() ? 1 : random.below(4)) {
        case 0: input[at] ^= static_cast<uint8_t>(1 << random.below(8)); break;
        case 1:
            input.insert(input.begin() + static_cast<ptrdiff_t>(at),
                         static_cast<uint8_t>(random.next()));
            break;
        case 2: input.erase(input.begin() + static_cast<ptrdiff_t>(at)); break;
        default: input[at] = random.chance(0.5) ? 0xff : 0; break;
        }
    }
    return input;
}

int main(int argc, char** argv) {
    if (argc != 3) return std::fprintf(stderr, "usage: %s FOLDER ROUNDS\n", argv[0]), 2;
    std::vector<Input> inputs;
    for (const auto& file : std::filesystem::directory_iterator(argv[1])) {
        std::ifstream in(file.path(), std::ios::binary);
        inputs.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    }
    if (inputs.empty()) return std::fprintf(stderr, "%s holds no inputs\n", argv[1]), 2;
    const char* given = std::getenv("POMONA_SEED");
    uint64_t seed = given ? std::strtoull(given, nullptr, 0) : 1;
    std::printf("%zu inputs, %s mutations, POMONA_SEED=%llu\n", inputs.size(), argv[2],
                static_cast<unsigned long long>(seed));
    std::fflush(stdout);
    for (const Input& each : inputs) LLVMFuzzerTestOneInput(each.data(), each.size());
    pomona::Random random(seed);
    for (long round = std::atol(argv[2]); round > 0; --round) {
        Input input = mutated(inputs[random.below(inputs.size())], random);
        LLVMFuzzerTestOneInput(input.data(), input.size());
    }
    return 0;
}
