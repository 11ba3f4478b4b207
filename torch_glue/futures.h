// futures.h: which Futures Python's callbacks wait for.
// Idea: a callback that waits for a later Future of its own group waits for what comes after it,
// unless the group is told (FutureOrder::callback_waits). torch's Future is final and says nothing,
// so Python's wait() tells it (python/pomona/_futures.py), and then() of what a Future is made: a
// callback may wait for then() of a later Future, or for collect_all() of many.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace pomona::glue {

void bind_futures(pybind11::module_& module);

}  // namespace pomona::glue
