// module.cc: the Python module pomona._glue: makes groups, tells about MPI, ends it.
#include <torch/csrc/utils/pybind.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "torch_glue/backend.h"
#include "torch_glue/device.h"
#include "torch_glue/far_arrivals.h"
#include "torch_glue/futures.h"
#include "torch_glue/meeting.h"
#include "torch_glue/record.h"
#include "torch_glue/store.h"

#include <exception>

#include <utility>

namespace py = pybind11;
using namespace pomona::glue;

namespace {

c10::intrusive_ptr<ProcessGroupPomona> create(const std::string& backend_name,
                                              const std::string& group_name, int rank, int size,
                                              const std::vector<int>& ranks,
                                              double timeout_seconds) {
    ProcessGroupPomona::Setup setup;
    setup.backend_name = backend_name;
    setup.group_name = group_name;
    setup.rank = rank;
    setup.size = size;
    setup.ranks = ranks;
    setup.timeout = std::chrono::milliseconds(static_cast<int64_t>(timeout_seconds * 1000));
    return ProcessGroupPomona::create(setup);
}

// Rank 0's text on all ranks of the world.
std::string broadcast_text(std::string text) {
    char buffer[1024] = {};
    text.copy(buffer, sizeof buffer - 1);
    const int error = broadcast_bytes(buffer, sizeof buffer);
    TORCH_CHECK_WITH(DistBackendError, error == MPI_SUCCESS,
                     "MPI_Bcast failed: ", error_text(error));
    return buffer;
}

py::dict info() {
    const WorldInfo world = world_info();
    py::dict result;
    result["rank"] = world.rank;
    result["size"] = world.size;
    result["library"] = world.library;
    result["mpix"] = has_mpix();
    return result;
}

py::list record_entries() {
    py::list result;
    for (const RecordEntry& entry : Record::instance().entries()) {
        py::dict each;
        each["number"] = entry.number;
        each["group"] = entry.group;
        each["title"] = entry.title;
        each["sequence"] = entry.sequence;
        each["message"] = entry.message;
        each["rank"] = entry.rank;
        each["peer"] = entry.peer;
        each["sizes"] = entry.sizes;
        py::list dtypes;
        for (at::ScalarType dtype : entry.dtypes) dtypes.append(at::toString(dtype));
        each["dtypes"] = dtypes;
        each["created_ns"] = entry.created_ns;
        each["ended_ns"] = entry.ended_ns;
        each["timeout_ms"] = entry.timeout_ms;
        each["failed"] = entry.failed;
        result.append(each);
    }
    return result;
}

py::dict metrics(bool reset) {
    {
        const py::gil_scoped_release others_may_run;
        settle_far();
    }
    py::dict result;
    for (const auto& [title, times] : Record::instance().times(reset)) {
        py::dict each;
        each["count"] = times.count;
        each["failed"] = times.failed;
        each["bytes"] = times.bytes;
        each["seconds"] = times.seconds;
        each["waited_seconds"] = times.waited_seconds;
        each["reducing_seconds"] = times.reducing_seconds;
        if (times.unseen == 0) {
            each["waiting_seconds"] = times.waiting_seconds;
            each["moving_seconds"] = times.moving_seconds();
        }
        each["p50_us"] = times.quantile_us(0.5);
        each["p99_us"] = times.quantile_us(0.99);
        result[title.c_str()] = each;
    }
    return result;
}

py::object* record_dumper = nullptr;  // what Python is to call at a timeout

void call_record_dumper() {
    const py::gil_scoped_acquire gil;
    try {
        (*record_dumper)();
    } catch (const std::exception& e) { TORCH_WARN("the record was not written: ", e.what()); }
}

// Python ends: no Future may run Python any more; after a failure MPI_Finalize would wait for ranks
// that wait for us.
void python_ends(bool failed) {
    stop_futures();
    if (failed) give_up_finalize("the program failed");
}

}  // namespace

PYBIND11_MODULE(_glue, m) {
    using release = py::call_guard<py::gil_scoped_release>;
    py::module_::import("torch.distributed");  // registers c10d::Backend's Python type
    using Copied = ProcessGroupPomona::CopiedOptions;
    py::class_<Copied, c10d::Backend::Options, c10::intrusive_ptr<Copied>>(m, "Options")
        .def("__deepcopy__",
             [](const Copied& self, const py::dict&) { return c10::make_intrusive<Copied>(self); });
    py::class_<ProcessGroupPomona, c10d::Backend, c10::intrusive_ptr<ProcessGroupPomona>>(
        m, "ProcessGroupPomona")
        // What torch asks every backend for: the timeout and the name.
        .def_property_readonly("options", &ProcessGroupPomona::getBackendOptions)
        .def("get_error", &ProcessGroupPomona::getError)  // an ErrorType of torch's
        .def("failed_ranks", &ProcessGroupPomona::failed_ranks, release())
        // torch asks ranks outside of a group for it, since NCCL needs all ranks for a split.
        .def("perform_nocolor_split", [](ProcessGroupPomona&, const py::object&) {})
        .def("_group_comm_error",
             [](ProcessGroupPomona& self) { return self.getError() != c10d::ErrorType::SUCCESS; });
    m.def("create", &create, py::arg("backend_name"), py::arg("group_name"), py::arg("rank"),
          py::arg("size"), py::arg("ranks"), py::arg("timeout"), release());
    m.def("open_library", &open_library, py::arg("path"));
    m.def("other_library", &other_library);
    m.def("register_device_kernels", &register_device_kernels);
    m.def("register_view_kernels", &register_view_kernels);
    m.def(
        "start_mpi",
        [](double timeout_seconds) {
            const std::string failure = start_mpi(timeout_seconds);
            TORCH_CHECK_WITH(DistBackendError, failure.empty(), failure);
        },
        py::arg("timeout"), release());
    m.def("start_mpi_by_store", &start_mpi_by_store, py::arg("store"), py::arg("rank"),
          py::arg("size"), release());
    m.def("exit_status_known", &exit_status_known);
    m.def("mpi_running", &mpi_running);
    m.def("world_info", &info);
    m.def(
        "meet_world",
        [](double timeout_seconds) {
            const std::string late =
                meet_world(std::chrono::milliseconds(static_cast<int64_t>(timeout_seconds * 1000)));
            TORCH_CHECK_WITH(DistBackendError, late.empty(), "MPI's world: ", late);
        },
        py::arg("timeout"), release());
    m.def(
        "local_info",
        [] {
            const LocalInfo local = local_info();
            return std::make_pair(local.rank, local.size);
        },
        release());
    m.def("paths_to", &paths_to, py::arg("rank"), release());
    m.def("broadcast_text", &broadcast_text, release());
    m.def("set_host_visible",
          [](const std::string& type) { set_host_visible(c10::Device(type).type()); });
    // `sharing`: a capsule of a MemorySharing (sharing.h), which stays. Before the first group.
    m.def("set_memory_sharing", [](const std::string& type, const py::capsule& sharing) {
        set_memory_sharing(c10::Device(type).type(), sharing.get_pointer<MemorySharing>());
    });
    m.def("pieces_by_peers", &pieces_by_peers);
    m.def("staging_kept", [](const std::string& type) {
        return StagingPool::of(Device::of(c10::Device(type).type())).kept();
    });
    m.def("record_entries", &record_entries);
    m.def("record_groups", [] { return Record::instance().groups(); });
    m.def("set_record_dumper", [](py::object dumper) {
        record_dumper = new py::object(std::move(dumper));
        set_record_dumper(&call_record_dumper);
    });
    m.def("metrics", &metrics, py::arg("reset"));
    m.def("library_counter", &library_counter, py::arg("name"));
    m.def("set_futures_inline", &set_futures_inline);
    bind_futures(m);
    m.def("python_ends", &python_ends, release());
}
