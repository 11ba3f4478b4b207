"""Writes mpi.h from the tables: clean C89 and C++98, one declaration per function and PMPI twin."""
import re

from . import tables

INTRODUCTION = """\
/* mpi.h: the MPI-5.0 standard ABI, as Pomona offers it.
 * Generated from mpi/abi/tables by mpi/abi/generate.py header; edit those, not this.
 * A program compiled with this header runs with any MPI library of the standard ABI. */
#ifndef MPI_H_INCLUDED
#define MPI_H_INCLUDED

#include <stdint.h>

#if defined(__cplusplus)
extern "C" {
#endif
"""

FORTRAN_INTRODUCTION = """
/* Fortran's INTEGER handles and statuses. They use the ABI's conversions, so programs that take them
 * run with any library of the ABI. MPI_NO_FORTRAN, defined before, leaves them away. */
#if !defined(MPI_NO_FORTRAN)
typedef int MPI_Fint;
typedef MPI_Status MPI_F08_status;
"""

FORTRAN_ENDING = """
#if defined(__cplusplus) || (defined(__STDC_VERSION__) && __STDC_VERSION__ >= 199901L)
#define MPI_ABI_INLINE static inline
#else
#define MPI_ABI_INLINE static __inline
#endif
MPI_ABI_INLINE int MPI_Status_c2f(const MPI_Status* c_status, MPI_Fint* f_status)
{
    int i;
    f_status[MPI_F_SOURCE] = c_status->MPI_SOURCE;
    f_status[MPI_F_TAG] = c_status->MPI_TAG;
    f_status[MPI_F_ERROR] = c_status->MPI_ERROR;
    for (i = 3; i < MPI_F_STATUS_SIZE; ++i) f_status[i] = c_status->MPI_internal[i - 3];
    return MPI_SUCCESS;
}
MPI_ABI_INLINE int MPI_Status_f2c(const MPI_Fint* f_status, MPI_Status* c_status)
{
    int i;
    c_status->MPI_SOURCE = f_status[MPI_F_SOURCE];
    c_status->MPI_TAG = f_status[MPI_F_TAG];
    c_status->MPI_ERROR = f_status[MPI_F_ERROR];
    for (i = 3; i < MPI_F_STATUS_SIZE; ++i) c_status->MPI_internal[i - 3] = f_status[i];
    return MPI_SUCCESS;
}
MPI_ABI_INLINE int MPI_Status_f082c(const MPI_F08_status* f08_status, MPI_Status* c_status)
{
    *c_status = *f08_status;
    return MPI_SUCCESS;
}
MPI_ABI_INLINE int MPI_Status_c2f08(const MPI_Status* c_status, MPI_F08_status* f08_status)
{
    *f08_status = *c_status;
    return MPI_SUCCESS;
}
MPI_ABI_INLINE int MPI_Status_f2f08(const MPI_Fint* f_status, MPI_F08_status* f08_status)
{
    return MPI_Status_f2c(f_status, f08_status);
}
MPI_ABI_INLINE int MPI_Status_f082f(const MPI_F08_status* f08_status, MPI_Fint* f_status)
{
    return MPI_Status_c2f(f08_status, f_status);
}
#undef MPI_ABI_INLINE
#define PMPI_Status_c2f MPI_Status_c2f
#define PMPI_Status_f2c MPI_Status_f2c
#define PMPI_Status_f082c MPI_Status_f082c
#define PMPI_Status_c2f08 MPI_Status_c2f08
#define PMPI_Status_f2f08 MPI_Status_f2f08
#define PMPI_Status_f082f MPI_Status_f082f

/* The addresses of Fortran's MPI_STATUS_IGNORE and MPI_STATUSES_IGNORE; defined in the library that
 * Fortran programs are linked with (mpifort), not in that of the ABI. */
extern MPI_Fint* MPI_F_STATUS_IGNORE;
extern MPI_Fint* MPI_F_STATUSES_IGNORE;
extern MPI_F08_status* MPI_F08_STATUS_IGNORE;
extern MPI_F08_status* MPI_F08_STATUSES_IGNORE;
#endif
"""

ENDING = """
#if defined(__cplusplus)
}
#endif

#endif
"""

KIND_TITLES = {
    "version": "Version", "op": "Operations", "comm": "Communicators", "group": "Groups",
    "win": "Windows", "file": "Files", "session": "Sessions", "message": "Messages",
    "info": "Info", "errhandler": "Error handlers", "request": "Requests",
    "datatype": "Datatypes", "fortran_status_index": "The status as Fortran integers",
    "error_class": "Error classes", "mpi_t_error_class": "Error classes of MPI_T",
    "special_pointer": "Special addresses", "max_string": "Sizes of string buffers, with the final 0",
    "assorted": "Buffered sends", "mode_bits": "Modes of files and assertions of windows",
    "sentinel": "Special values of ranks, tags and results", "thread_level": "Levels of thread support",
    "array_order": "Order of arrays", "darray_distribution": "Distributions of arrays",
    "combiner": "Combiners of datatypes", "typeclass": "Classes for MPI_Type_match_size",
    "compare_result": "Results of comparisons", "topology": "Topologies",
    "split_type": "Types for MPI_Comm_split_type", "lock_type": "Locks",
    "win_flavor": "Flavors of windows", "win_model": "Memory models of windows",
    "seek": "Origins of MPI_File_seek", "file_offset_sentinel": "Displacement",
    "attr_key": "Attributes of communicators", "win_attr_key": "Attributes of windows",
    "predefined_callback": "Predefined callbacks: values to compare, not functions",
    "mpi_t_handle": "MPI_T handles", "mpi_t_verbosity": "MPI_T verbosity",
    "mpi_t_bind": "MPI_T objects that variables are bound to", "mpi_t_scope": "MPI_T scopes",
    "mpi_t_pvar_class": "MPI_T classes of performance variables",
}

GROUP_TITLES = {
    "abi": "ABI and handle conversion", "attr": "Attributes", "coll": "Collectives",
    "comm": "Communicators", "datatype": "Datatypes", "errhan": "Errors", "group": "Groups",
    "info": "Info", "init": "Start and end", "io": "Files", "misc": "Miscellaneous",
    "mpi_t": "Tools", "op": "Operations", "part": "Partitioned point-to-point",
    "pt2pt": "Point-to-point", "request": "Requests", "rma": "One-sided", "session": "Sessions",
    "spawn": "Dynamic processes", "timer": "Timers", "topo": "Topologies",
}


def group_title(group):
    return GROUP_TITLES[group]


def pointer_left(text):
    """`const void *buf` -> `const void* buf`, the project's style."""
    return re.sub(r"\s*(\*+)\s*", r"\1 ", text).replace("* )", "*)").replace("* ,", "*,")


def constant_text(row):
    value = row["value"]
    if row["ctype"] == "int":
        return f"({value})" if value.startswith("-") else value
    return f"(({row['ctype']}){value})"


def emit_types(out):
    out.append("/* Types */")
    enumerators = [c for c in tables.constants() if c["kind"] in tables.ENUM_KINDS]
    for row in tables.types():
        name, kind, definition = row["name"], row["kind"], row["definition"]
        if kind in ("integer", "handle", "alias"):
            out.append(f"typedef {definition} {name};")
        elif kind == "struct":
            members = "\n".join(f"    {m.strip()};" for m in definition.split(";"))
            out.append(f"typedef struct {name} {{\n{members}\n}} {name};")
        elif kind == "enum":
            members = ",\n".join(f"    {c['name']} = {c['value']}" for c in enumerators
                                 if tables.ENUM_KINDS[c["kind"]] == name)
            out.append(f"typedef enum {name} {{\n{members}\n}} {name};")
        else:
            result, params = definition.split(" (", 1)
            out.append(wrap(f"typedef {result} {name}({pointer_left(params)};"))


def emit_constants(out):
    kind = None
    for row in tables.constants():
        if row["kind"] in tables.ENUM_KINDS:
            continue
        if row["kind"] != kind:
            kind = row["kind"]
            out.append(f"\n/* {KIND_TITLES[kind]} */")
        out.append(f"#define {row['name']} {constant_text(row)}")


def wrap(text):
    """Breaks a long declaration, after commas only."""
    words = text.replace(", ", ",\0").split("\0")
    lines = [""]
    for word in words:
        candidate = f"{lines[-1]} {word}".strip() if len(lines) == 1 else f"{lines[-1]} {word}"
        if len(candidate) > 98 and lines[-1]:
            lines.append("        " + word)
        else:
            lines[-1] = candidate
    return "\n".join(lines)


def prototype(function):
    """The parameters; weights as pointers, since gcc takes `int weights[]` for an array and warns
    of the special address MPI_UNWEIGHTED."""
    text = re.sub(r"(\w+) (\w*weights)\[\]", r"\1* \2", function.prototype)
    return pointer_left(text)


def emit_functions(out):
    functions = tables.functions()
    for group in sorted({f.group for f in functions}):
        members = [f for f in functions if f.group == group]
        for prefix, what in (("", ""), ("P", ", profiling names")):
            out.append(f"\n/* {GROUP_TITLES[group]}{what} */")
            out.extend(wrap(f"{f.result} {prefix}{f.name}({prototype(f)});")
                       for f in members)


def emit_fortran(out):
    out.append(FORTRAN_INTRODUCTION.rstrip("\n"))
    for prefix in ("", "P"):
        for f in tables.functions():
            for end, new in (("_toint", "_c2f"), ("_fromint", "_f2c")):
                if f.name.endswith(end):
                    out.append(f"#define {prefix}{f.name[:-len(end)]}{new} {prefix}{f.name}")
    out.append(FORTRAN_ENDING.strip("\n"))


def generate():
    out = [INTRODUCTION]
    emit_types(out)
    emit_constants(out)
    emit_functions(out)
    emit_fortran(out)
    return "\n".join(out) + "\n" + ENDING
