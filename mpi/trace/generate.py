#!/usr/bin/env python3
"""Writes the functions of the trace library (mpi/trace) from the tables of the ABI
(mpi/abi/tables).

  generate.py FOLDER      functions.h, names.cc, wrappers.cc

Each wrapper asks for the time, calls the function's PMPI_ name and writes one record: what is in it
follows from the names and types of the parameters. Those that complete requests, and those that
begin and end MPI, are written by hand (completion.cc, job.cc). Functions that neither communicate
nor wait are not traced.
"""
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "abi"))

from generator import tables  # noqa: E402

GROUPS = ("pt2pt", "coll", "rma", "io", "spawn", "part")
NOT = re.compile(r"MPI_(Reduce_local|Comm_get_parent|Register_datarep|File_(get|set)_.*|Free_mem|Alloc_mem|"
                 r"Win_(get|set)_.*|Win_shared_query|Win_attach|Win_detach|Buffer_attach|"
                 r"(Comm|Session)_attach_buffer|Open_port|Close_port)(_c)?")
OTHERS = {"MPI_Comm_create_from_group", "MPI_Comm_create", "MPI_Comm_create_group", "MPI_Comm_dup",
          "MPI_Comm_dup_with_info", "MPI_Comm_idup", "MPI_Comm_idup_with_info", "MPI_Comm_free",
          "MPI_Comm_split", "MPI_Comm_split_type", "MPI_Intercomm_create", "MPI_Comm_set_name",
          "MPI_Intercomm_create_from_groups", "MPI_Intercomm_merge", "MPI_Cart_create", "MPI_Cart_sub",
          "MPI_Graph_create", "MPI_Dist_graph_create", "MPI_Dist_graph_create_adjacent",
          "MPI_File_set_view", "MPI_File_set_view_c", "MPI_File_set_size", "MPI_Abort",
          "MPI_Start", "MPI_Startall", "MPI_Request_free"}
BY_HAND = {"MPI_Init", "MPI_Init_thread", "MPI_Finalize", "MPI_Wait", "MPI_Waitall", "MPI_Waitany",
           "MPI_Waitsome", "MPI_Test", "MPI_Testall", "MPI_Testany", "MPI_Testsome"}
SENDS = {"Send", "Ssend", "Rsend", "Bsend"}


def traced(f):
    if f.variadic or f.name in BY_HAND:
        return False
    return f.name in OTHERS or (f.group in GROUPS and not NOT.fullmatch(f.name))


def base(f):
    return f.short.removesuffix("_c")


def is_send(name):
    return name in SENDS or (name.startswith("I") and name[1:].capitalize() in SENDS) or \
        name.removesuffix("_init") in SENDS


def is_receive(name):
    return name in ("Recv", "Irecv", "Recv_init", "Mrecv", "Imrecv")


def is_collective(f):
    """Those in which all ranks of a communicator meet, in the same order."""
    name = base(f)
    return f.group == "coll" and "eighbor" not in name and not name.endswith("_init")


def kind(f):
    name = base(f)
    if is_collective(f):
        return "collective"
    if (is_send(name) and not name.endswith("_init")) or "endrecv" in name:
        return "send"
    return "call"


def collective_bytes(f):
    """What this rank gives; arguments that mean nothing here are not looked at."""
    name = base(f).removeprefix("I").lower().removesuffix("_init")
    has = f.param
    rooted = "root >= 0" if has("root") else ""
    if name.startswith("scatter"):
        expression, valid = "bytes_of(recvcount, recvtype)", "recvbuf != MPI_IN_PLACE"
    elif has("sendtypes"):
        expression, valid = "bytes_of(sendcounts, comm_.peers, sendtypes)", "sendbuf != MPI_IN_PLACE"
    elif has("sendcounts"):
        expression, valid = "bytes_of(sendcounts, comm_.peers, sendtype)", "sendbuf != MPI_IN_PLACE"
    elif has("sendcount"):
        expression, valid = "bytes_of(sendcount, sendtype)", "sendbuf != MPI_IN_PLACE"
    elif has("recvcounts"):
        expression, valid = "bytes_of(recvcounts, comm_.size, datatype)", ""
    elif has("recvcount"):
        expression, valid = "bytes_of(recvcount, datatype)", ""
    elif has("count"):
        expression, valid = "bytes_of(count, datatype)", ""
    else:
        return ""
    if "neighbor" in name and ("counts" in expression):
        return ""
    conditions = " && ".join(c for c in (rooted, valid) if c)
    return f"{conditions} ? {expression} : 0" if conditions else expression


def bytes_text(f):
    if f.group == "coll":
        return collective_bytes(f)
    if f.group == "part" or base(f) in ("Recv", "Mrecv"):
        return ""
    for count, type_ in (("target_count", "target_datatype"), ("sendcount", "sendtype"),
                         ("count", "datatype")):
        if f.param(count) and f.param(type_) and not f.param(count).pointers:
            return f"bytes_of({count}, {type_})"
    return ""


def handle(f, type_):
    return next((p for p in f.params if p.type == type_ and not p.array), None)


def before(f):
    lines = []
    name = base(f)
    comm = handle(f, "MPI_Comm")
    if comm:
        lines += [f"[[maybe_unused]] const CommInfo& comm_ = comm_info({comm.name});", "record.comm = comm_.number;"]
    if f.param("dest") and comm:
        lines += ["record.peer = comm_.peer(dest);"]
    if (is_receive(name) or name in ("Probe", "Mprobe")) and comm:
        lines += ["record.peer = comm_.peer(source);"]
    tag = f.param("sendtag") or f.param("tag")
    if tag and comm and tag.type == "int":
        lines += [f"record.tag = {tag.name};"]
    if f.param("root") and is_collective(f):
        lines += ["record.peer = comm_.peer(root);"]
    if f.param("target_rank"):
        lines += ["set_target(record, win, target_rank);"]
    text = bytes_text(f)
    if text:
        lines += [f"record.bytes = {text};"]
    if kind(f) == "send":
        lines += ["if (dest < 0) record.kind = Kind::call;"]
    if name in ("Comm_free", "Comm_disconnect"):
        lines += ["forget_comm(*comm);"]
    if name == "Win_free":
        lines += ["forget_window(*win);"]
    if name == "Comm_set_name":
        lines += ["rename_comm(comm, comm_name);"]
    if name in ("Mrecv", "Imrecv"):
        lines += ["RequestInfo taken = take_message(*message);"]
    if f.param("status") and f.param("status").pointers:
        lines += ["MPI_Status own_status{};",
                  "if (status == MPI_STATUS_IGNORE) status = &own_status;"]
    if name == "Start":
        lines += ["start_request(*request, Function::Start, call.record().begin);"]
    if name == "Startall":
        lines += ["for (int i = 0; i < count; ++i)",
                  "    start_request(array_of_requests[i], Function::Startall, now());"]
    if name == "Request_free":
        lines += ["forget_request(*request);"]
    if name == "Abort":
        lines += ["call.end();"]
    return lines


def request_line(f):
    """What is known of a request from now on."""
    name = base(f)
    persistent = "true" if name.endswith("_init") else "false"
    active = "false" if name.endswith("_init") else "true"
    what = "add_request(*request, {{Kind::{}, {}, {}, {}, {}, {}, record.bytes, record.begin}});"
    if name == "Imrecv":
        return ["taken.kind = taken.comm ? Kind::receive : Kind::call;", "taken.active = true;",
                "add_request(*request, taken);"]
    if name.startswith("Isendrecv"):
        return [what.format("receive", "false", "true", "&comm_", "comm_.peer(source)", "recvtag")]
    if is_send(name):
        return [what.format("send", persistent, active, "&comm_", "record.peer", "tag")]
    if is_receive(name):
        return [what.format("receive", persistent, active, "&comm_", "comm_.peer(source)", "tag")]
    if is_collective(f):
        return [what.format("collective", "false", "true", "&comm_", "record.peer", "0")]
    return []


def after(f):
    """When the call has succeeded."""
    lines = []
    name = base(f)
    if name in ("Recv", "Sendrecv", "Sendrecv_replace"):
        lines += ["if (status->MPI_SOURCE >= 0) {"]
        if name == "Recv":
            lines += ["    set_received(record, comm_, *status);", "    record.kind = Kind::receive;"]
        else:
            lines += ["    got = record;", "    set_received(got, comm_, *status);", "    got.kind = Kind::received;"]
        lines += ["}"]
    if name == "Mrecv":
        lines += ["if (taken.comm && status->MPI_SOURCE >= 0) {",
                  "    set_received(record, *taken.comm, *status);", "    record.kind = Kind::receive;",
                  "    record.order = taken.order;", "}"]
    if name in ("Mprobe", "Improbe"):
        condition = "if (*flag) " if name == "Improbe" else ""
        lines += [f"{condition}add_message(*message, {{Kind::receive, false, false, &comm_, kNobody, 0, 0, "
                  "record.begin});"]
    request = f.param("request")
    if request and request.pointers and name not in ("Start", "Request_free"):
        lines += request_line(f)
    for p in f.params:
        if p.type == "MPI_Comm *" and name not in ("Comm_free", "Comm_disconnect") and not p.array:
            like = "_like" if "idup" in name else ""
            lines += [f"add_comm{like}(*{p.name}{', comm' if like else ''});"]
        if p.type == "MPI_Win *" and name != "Win_free":
            lines += [f"add_window(*{p.name}, comm);"]
    return lines


def wrapper(f):
    name = base(f)
    arguments = ", ".join(f.arguments)
    real = f"POMONA_NEXT({f.short})({arguments})"
    lines = [f"POMONA_TRACED int {f.name}({f.prototype}) {{",
             f"    if (!is_recording()) return {real};",
             f"    Call call(Function::{f.short}, Kind::{kind(f)});",
             "    [[maybe_unused]] Record& record = call.record();"]
    lines += ["    " + line for line in before(f)]
    if "Sendrecv" in name:
        lines += ["    Record got{};"]
    if name == "Abort":
        return "\n".join(lines + [f"    return {real};", "}"])
    receives = name in ("Recv", "Mrecv", "Probe", "Mprobe")
    lines += ["    Call::open(record, Kind::receive);" if receives else "    call.open();", f"    int error = {real};"]
    if kind(f) == "send":
        lines += ["    if (error != MPI_SUCCESS) record.kind = Kind::call;"]
    done = after(f)
    if done:
        lines += ["    if (error == MPI_SUCCESS) {"] + ["        " + line for line in done] + ["    }"]
    flag = f.param("flag")
    vain = name in ("Iprobe", "Improbe", "Win_test", "Parrived") and flag
    lines += ["    if (error == MPI_SUCCESS && !*flag) end_in_vain(call);", "    else call.end();"] if vain \
        else ["    call.end();"]
    if "Sendrecv" in name:
        lines += ["    got.end = record.end;", "    if (got.kind == Kind::received) append(got);"]
    return "\n".join(lines + ["    return error;", "}"])


def write(path, text):
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    functions = [f for f in tables.functions() if traced(f)]
    names = [f.short for f in functions] + sorted(name[4:] for name in BY_HAND)
    head = "Generated by mpi/trace/generate.py; do not edit.\n"
    enum = ",\n    ".join(names)
    write(folder / "functions.h",
          f"// functions.h: the functions that are traced. {head}#pragma once\n\n#include <cstdint>\n\n"
          f"namespace pomona::trace {{\nenum class Function : uint16_t {{\n    {enum}\n}};\n}}\n")
    texts = ",\n    ".join(f'"MPI_{name}"' for name in names)
    write(folder / "names.cc",
          f'// names.cc: their names. {head}#include "mpi/trace/part_file.h"\n\n'
          f"namespace pomona::trace {{\nconst char* const kNames[] = {{\n    {texts}\n}};\n"
          f"const size_t kNameCount = {len(names)};\n}}\n")
    body = "\n\n".join(wrapper(f) for f in functions)
    write(folder / "wrappers.cc",
          f'// wrappers.cc: the functions of MPI that are traced. {head}#include "functions.h"\n'
          '#include "mpi/trace/completion.h"\n#include "mpi/trace/objects.h"\n'
          '#include "mpi/trace/pmpi.h"\n\nusing namespace pomona::trace;\n\n' + body + "\n")


if __name__ == "__main__":
    main()
