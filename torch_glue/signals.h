// signals.h: Python's handlers of signals, while its main thread waits in C++.
// Idea: Python runs them, Ctrl-C's among them, on its main thread and in Python's own code only. So
// who waits there for others looks for them now and then. Other threads never run them.
#pragma once

#include <chrono>

namespace pomona::glue {

constexpr std::chrono::milliseconds kSignalLook{200};  // how often

bool is_main_thread();
// Without the GIL, on the main thread. Throws what a handler raises, as Python's own.
void run_signal_handlers();

}  // namespace pomona::glue
