"""Writes the constants of MPI for Fortran: those of the modules, and the whole of mpif.h."""
from . import routines
from .routines import tables

# Kinds of parameters (fortran.csv) that are handles.
TYPE_OF_KIND = {"COMMUNICATOR": "MPI_Comm", "GROUP": "MPI_Group", "DATATYPE": "MPI_Datatype",
                "OPERATION": "MPI_Op", "REQUEST": "MPI_Request", "ERRHANDLER": "MPI_Errhandler",
                "INFO": "MPI_Info", "WINDOW": "MPI_Win", "FILE": "MPI_File",
                "MESSAGE": "MPI_Message", "SESSION": "MPI_Session"}

# Known by their address: name -> (symbol, type, shape).
VARIABLES = {
    "MPI_BOTTOM": ("mpi_fortran_bottom", "integer", ""),
    "MPI_IN_PLACE": ("mpi_fortran_in_place", "integer", ""),
    "MPI_BUFFER_AUTOMATIC": ("mpi_fortran_buffer_automatic", "integer", ""),
    "MPI_STATUS_IGNORE": ("mpi_fortran_status_ignore", "status", ""),
    "MPI_STATUSES_IGNORE": ("mpi_fortran_statuses_ignore", "status", "(1)"),
    "MPI_ERRCODES_IGNORE": ("mpi_fortran_errcodes_ignore", "integer", "(1)"),
    "MPI_UNWEIGHTED": ("mpi_fortran_unweighted", "integer", "(1)"),
    "MPI_WEIGHTS_EMPTY": ("mpi_fortran_weights_empty", "integer", "(1)"),
    "MPI_ARGV_NULL": ("mpi_fortran_argv_null", "character", "(1)"),
    "MPI_ARGVS_NULL": ("mpi_fortran_argvs_null", "character", "(1,1)"),
}

# Datatypes of types whose size the compiler's options choose: name -> (an expression of the type,
# then the datatype for kind 4, 8, 16). Those of one size only are left out.
BY_KIND = {
    "MPI_LOGICAL": ("KIND(.TRUE.)", "MPI_LOGICAL", "MPI_LOGICAL8", "MPI_LOGICAL16"),
    "MPI_INTEGER": ("KIND(0)", "MPI_INTEGER", "MPI_INTEGER8", "MPI_INTEGER16"),
    "MPI_REAL": ("KIND(1.0)", "MPI_REAL", "MPI_REAL8", "MPI_REAL16"),
    "MPI_COMPLEX": ("KIND(1.0)", "MPI_COMPLEX", "MPI_COMPLEX16", "MPI_COMPLEX32"),
    "MPI_DOUBLE_PRECISION": ("KIND(1D0)", "MPI_REAL4", "MPI_DOUBLE_PRECISION", "MPI_REAL16"),
    "MPI_DOUBLE_COMPLEX": ("KIND(1D0)", "MPI_COMPLEX8", "MPI_DOUBLE_COMPLEX", "MPI_COMPLEX32"),
    # Pairs for MPI_MINLOC and MPI_MAXLOC: there are none of other sizes.
    "MPI_2INTEGER": ("KIND(0)", "MPI_2INTEGER", "MPI_DATATYPE_NULL", "MPI_DATATYPE_NULL"),
    "MPI_2REAL": ("KIND(1.0)", "MPI_2REAL", "MPI_2DOUBLE_PRECISION", "MPI_DATATYPE_NULL"),
    "MPI_2DOUBLE_PRECISION": ("KIND(1D0)", "MPI_2REAL", "MPI_2DOUBLE_PRECISION",
                              "MPI_DATATYPE_NULL"),
}


def values():
    """(name, type, value as text) of every constant that Fortran has; type "" is a default
    INTEGER."""
    rows = [c for c in tables.constants()
            if c["kind"] not in ("special_pointer", "predefined_callback", "fortran_status_index")
            and not c["name"].startswith("MPI_T_") and c["kind"] not in tables.ENUM_KINDS]
    number = {c["name"]: int(c["value"], 0) for c in rows}
    # Indices into a status count from 1 here.
    found = [("MPI_SOURCE", "", "1"), ("MPI_TAG", "", "2"), ("MPI_ERROR", "", "3")]
    for c in rows:
        name, value = c["name"], number[c["name"]]
        if c["kind"] == "max_string":
            value -= 1  # no final 0
        text = str(value)
        if name in BY_KIND:
            expression, *by_size = BY_KIND[name]
            four, eight, sixteen = (number[n] for n in by_size)
            text = (f"MERGE({sixteen},MERGE({eight},{four},{expression}.EQ.8),"
                    f"{expression}.EQ.16)")
        found.append((name, c["ctype"] if c["ctype"] != "int" else "", text))
    return found


def supported(f08):
    """Sections with gaps, and buffers that the compiler must not move, are safe in mpi_f08 only."""
    value = ".true." if f08 else ".false."
    return [("MPI_SUBARRAYS_SUPPORTED", value), ("MPI_ASYNC_PROTECTS_NONBLOCKING", value)]


def of_module(handles):
    out = []
    for name, ctype, value in values():
        if ctype in routines.HANDLES and handles:
            out.append(f"  type({ctype}), parameter :: {name} = {ctype}({value})")
        elif ctype == "MPI_Offset":
            out.append(f"  integer(MPI_OFFSET_KIND), parameter :: {name} = {value}_MPI_OFFSET_KIND")
        else:
            out.append(f"  integer, parameter :: {name} = {value}")
    out += [f"  logical, parameter :: {name} = {value}" for name, value in supported(handles)]
    return out


def variables(kinds, of_f08=False):
    """Declarations of those of some kinds. A name of the linker belongs to one module only: what
    both modules have stands in mpi_types, and the statuses of mpi_f08 have names of their own."""
    out = []
    for name, (symbol, kind, shape) in VARIABLES.items():
        if kind not in kinds:
            continue
        if kind == "status" and of_f08:
            symbol, what = symbol.replace("fortran", "f08"), "type(MPI_Status)"
        elif kind == "status":
            what = "integer(MPI_INTEGER_KIND)"
            shape = shape.replace("(", "(MPI_STATUS_SIZE, ") if shape else "(MPI_STATUS_SIZE)"
        else:
            what = "character(kind=c_char)" if kind == "character" else "integer(MPI_INTEGER_KIND)"
        out.append(f'  {what}, bind(C, name="{symbol}_") :: {name}{shape}')
    return out


def predefined_functions():
    return [name for name, _, row in routines.callbacks() if row["callback"] != "1"] + [
        "MPI_CONVERSION_FN_NULL_C"]


def mpif(generated):
    """For both source forms: statements from column 7 to 72, no continuation."""
    out = ["! mpif.h: MPI for Fortran programs that include it, in both source forms.", "! " + generated,
           "! The module mpi_f08, or mpi, finds mistakes that this file cannot."]

    def constant(kind, name, value):
        out.append(f"      {kind} {name}")
        out.append(f"      PARAMETER ({name}={value})")

    for name, value in (("MPI_INTEGER_KIND", "KIND(0)"), ("MPI_ADDRESS_KIND", "8"),
                        ("MPI_COUNT_KIND", "8"), ("MPI_OFFSET_KIND", "8"), ("MPI_STATUS_SIZE", "8")):
        constant("INTEGER", name, value)
    for name, ctype, value in values():
        constant("INTEGER(KIND=MPI_OFFSET_KIND)" if ctype == "MPI_Offset" else "INTEGER", name, value)
    for name, value in supported(False):
        constant("LOGICAL", name, value.upper())
    for name, (symbol, kind, shape) in VARIABLES.items():
        if kind == "status":
            shape = shape.replace("(", "(MPI_STATUS_SIZE,") if shape else "(MPI_STATUS_SIZE)"
        what = "CHARACTER" if kind == "character" else "INTEGER"
        out.append(f"      {what} {name}{shape}")
        out.append(f"      COMMON /{symbol.upper()}/ {name}")
    for name in predefined_functions():
        out.append(f"      EXTERNAL {name}")
    for prefix in ("", "P"):
        for name in ("MPI_WTIME", "MPI_WTICK"):
            out += [f"      DOUBLE PRECISION {prefix}{name}", f"      EXTERNAL {prefix}{name}"]
        for name in ("MPI_AINT_ADD", "MPI_AINT_DIFF"):
            out += [f"      INTEGER(KIND=MPI_ADDRESS_KIND) {prefix}{name}",
                    f"      EXTERNAL {prefix}{name}"]
    # A statement that does not fit is broken: & in column 73 is of the free form, in column 6 of
    # both.
    lines = []
    for line in out:
        while len(line) > 72 and not line.startswith("!"):
            cut = max(line.rfind(mark, 0, 72) for mark in "+,(") or 72
            lines.append(line[:cut].ljust(72) + "&")
            line = "     &" + line[cut:]
        lines.append(line)
    return "\n".join(lines + [""])
