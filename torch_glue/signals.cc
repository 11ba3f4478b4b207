// signals.cc: see signals.h.
#include <Python.h>  // first, as it asks

#include "torch_glue/signals.h"

#include <pthread.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/syscall.h>
#endif

#include <torch/csrc/utils/pybind.h>

#include "torch_glue/python_end.h"

namespace pomona::glue {

bool is_main_thread() {
#if defined(__linux__)
    return syscall(SYS_gettid) == getpid();
#else
    return pthread_main_np() != 0;
#endif
}

void run_signal_handlers() {
    if (python_ended.load() || !Py_IsInitialized()) return;
    const pybind11::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
}

}  // namespace pomona::glue
