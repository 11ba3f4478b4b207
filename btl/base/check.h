// btl/base/check.h: assertions about our own code; on in release builds too.
// Idea: check(condition, a, b) prints the place, the operands, the rank and a backtrace, then
// aborts. For what the world does wrong use Result; check() is for what only a bug can cause.
// Functions, not macros: `check` is a name that other headers use.
#pragma once

#include <initializer_list>
#include <type_traits>

namespace pomona {

// Where a call stands; filled in by the compiler at the caller.
struct Place {
    const char* file;
    int line;
};

// A condition together with the place where it was written.
struct Condition {
    Condition(bool holds, const char* file = __builtin_FILE(), int line = __builtin_LINE())
        : holds(holds), place{file, line} {}
    bool holds;
    Place place;
};

// Prints and aborts; `operands` are shown as integers.
[[noreturn]] void check_failed(const char* what, Place place,
                               std::initializer_list<long long> operands);

template <class T> long long check_operand(const T& value) {
    if constexpr (std::is_pointer_v<T>) return reinterpret_cast<long long>(value);
    else return static_cast<long long>(value);
}

template <class... Args> inline void check(Condition condition, const Args&... operands) {
    if (__builtin_expect(!condition.holds, 0))
        check_failed("A condition does not hold", condition.place, {check_operand(operands)...});
}

// For a branch that cannot be reached.
[[noreturn]] inline void never(const char* what, const char* file = __builtin_FILE(),
                               int line = __builtin_LINE()) {
    check_failed(what, Place{file, line}, {});
}

}  // namespace pomona
