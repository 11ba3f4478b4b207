// accel/choose.h: which module serves a reduction: portable, vdsp or metal, by size.
// Idea: each module is first held against the portable kernel (same bits or it is out), then timed
// at sizes from 4 KiB to 64 MiB; at each size the fastest serves. Measured once on a machine, by
// `pomona info --accel`, and kept in a file; no crossover is written in code. Where a machine has
// no module but the portable one (Linux), there is nothing to choose and no file is read.
#pragma once

#include "accel/modules.h"
#include "btl/base/clock.h"
#include "btl/base/result.h"

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace pomona {

inline constexpr int module_count = static_cast<int>(Module::count_);
const char* module_name(Module module);  // "vdsp"

struct Candidate {
    Module module;
    const ReduceKernel* (*find)(ReduceOp, ElementType);
};
// The modules of this build beside the portable one.
const std::vector<Candidate>& accel_candidates();

// One size: each module's time (0: it does not serve), and the one to take from here on.
struct ChoicePoint {
    size_t bytes = 0;
    Module best = Module::portable;
    std::array<Nanoseconds, module_count> ns{};
};

struct Choice {
    ReduceOp op;
    ElementType type;
    std::vector<ChoicePoint> points;           // sizes ascend
    std::array<bool, module_count> differs{};  // gave other bits than the portable kernel

    Module module_for(size_t bytes) const;
};

struct Choices {
    std::string machine;  // what they hold for: machine_key()
    std::vector<Choice> rows;
};

std::string machine_key();  // processor, instruction set, modules, version of the file

// Time of one call on arrays of so many bytes; a test passes its own.
using KernelTimer = std::function<Nanoseconds(const ReduceKernel& kernel, size_t bytes)>;
KernelTimer real_timer(Clock& clock);

Choices measure_choices(const std::vector<Candidate>& candidates, const KernelTimer& timer);
// Same bits on random and special values? (NaN equals NaN whatever its payload.)
bool same_results(ReduceOp op, ElementType type, const ReduceKernel& one,
                  const ReduceKernel& other);

std::string choices_text(const Choices& choices);  // the file
Result<Choices> parse_choices(std::string_view text);
Status save_choices(const Choices& choices, const std::string& path);
Result<Choices> load_choices(const std::string& path);

// Lets find_kernel give kernels that dispatch by size. `mode` is the parameter accel: "auto"
// follows the choices, "portable" installs nothing, "vdsp" and "metal" take that module wherever
// it serves. To be called before the first find_kernel; kernels already given stay valid.
void install_choices(const Choices& choices, const std::vector<Candidate>& candidates,
                     std::string_view mode);
void uninstall_choices();  // for tests

// All of it, at MPI_Init: does nothing where there are no modules. A missing file is no error.
Status start_accel(std::string_view mode, const char* const* environment);
// $XDG_CACHE_HOME/pomona/accel, else ~/.cache/pomona/accel (~/Library/Caches on macOS); "" without
// a home.
std::string accel_cache_path(const char* const* environment);

}  // namespace pomona
