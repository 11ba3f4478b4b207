// process_group_mpi.cc: PyTorch's own ProcessGroupMPI for Python, as torch binds it where it is
// built with MPI. Compiled by process_group_mpi.sh, beside PyTorch's source.
#include <torch/csrc/distributed/c10d/ProcessGroupMPI.hpp>
#include <torch/csrc/utils/pybind.h>

#include <utility>
#include <vector>

PYBIND11_MODULE(process_group_mpi, m) {
    m.def(
        "create",
        [](std::vector<int> ranks) -> c10::intrusive_ptr<c10d::Backend> {
            return c10d::ProcessGroupMPI::createProcessGroupMPI(std::move(ranks));
        },
        pybind11::call_guard<pybind11::gil_scoped_release>());
}
