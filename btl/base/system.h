// btl/base/system.h: which system, as a value: what depends on it by rule alone (names, advice)
// takes it as an argument, so that macOS's rules are tested on Linux. System calls use the
// preprocessor.
#pragma once

namespace pomona {

enum class System { linux_kernel, macos };

#if defined(__APPLE__)
inline constexpr System this_system = System::macos;
#else
inline constexpr System this_system = System::linux_kernel;
#endif

}  // namespace pomona
