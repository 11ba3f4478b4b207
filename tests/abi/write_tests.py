#!/usr/bin/env python3
"""Writes C sources that hold the library's mpi.h against the tables of the ABI, into a folder.

constants.c   every constant: its value, and that it has its type; compiled as C and as C++
prototypes.c  every function and its PMPI twin, assigned to a pointer of exactly its type
stub.c        a stand-in libmpi_abi whose functions do nothing; see program.c
"""
import sys
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "mpi/abi"))

from generator import tables  # noqa: E402


def declared(ctype, name):
    """`int*` x -> `int *x`; callbacks and handles are plain types."""
    return f"{ctype} {name}"


def constants():
    out = ['#include "mpi.h"', "#include <stddef.h>", "#include <stdio.h>", "",
           "static int wrong = 0;",
           "static void expect(const char* name, long long value, long long wanted)", "{",
           "    if (value == wanted) return;",
           '    printf("%s is %lld, the ABI says %lld\\n", name, value, wanted);',
           "    ++wrong;", "}", ""]
    body = []
    for i, row in enumerate(tables.constants()):
        name, value, ctype = row["name"], row["value"], row["ctype"]
        if ctype == "int":
            # Usable where the language wants a constant, in #if too.
            out += [f"#if {name} != {value}", f"#error {name} is not {value}", "#endif"]
        out.append(f"static {ctype} const constant_{i} = {name};")
        cast = "(intptr_t)" if ctype not in ("int", "MPI_Offset") and "enum" not in ctype else ""
        body.append(f'    expect("{name}", (long long){cast}constant_{i}, {int(value, 0)});')
    for row in tables.types():
        if row["size"]:
            body.append(f'    expect("sizeof {row["name"]}", (long long)sizeof({row["name"]}), '
                        f'{row["size"]});')
    for place, member in enumerate(("MPI_SOURCE", "MPI_TAG", "MPI_ERROR", "MPI_internal")):
        body.append(f'    expect("offset of {member}", (long long)offsetof(MPI_Status, {member}), '
                    f'{4 * place});')
    body.append('    expect("sizeof MPI_internal", '
                '(long long)sizeof(((MPI_Status*)0)->MPI_internal), 20);')
    return "\n".join(out + ["", "int main(void)", "{"] + body +
                     ["    return wrong != 0;", "}", ""])


def types_only(function):
    return ", ".join(p.text for p in function.params) or "void"


def prototypes():
    out = ['#include "mpi.h"', "#include <stdio.h>", "",
           "typedef void (*Function)(void);",
           "struct Entry { const char* name; Function address; };", ""]
    names = []
    for row in tables.types():
        if row["kind"] == "callback":
            result, params = row["definition"].split(" (", 1)
            out.append(f"static {result} (*callback_{row['name']})({params};")
            out.append(f"static {row['name']}* same_{row['name']};")
            names.append(f"    callback_{row['name']} = same_{row['name']};")
    for f in tables.functions():
        for name in (f.name, "P" + f.name):
            out.append(f"static {f.result} (*const pointer_{name})({types_only(f)}) = {name};")
    out += ["", "static const struct Entry entries[] = {"]
    out += [f'    {{"{p}{f.name}", (Function)pointer_{p}{f.name}}},'
            for f in tables.functions() for p in ("", "P")]
    out[-1] = out[-1].rstrip(",")
    out += ["};", "", "int main(void)", "{", "    size_t i;"] + names
    out += ["    for (i = 0; i < sizeof entries / sizeof entries[0]; ++i)",
            '        if (!entries[i].address) return printf("%s is null\\n", entries[i].name), 1;',
            '    printf("%d functions\\n", (int)i);', "    return 0;", "}", ""]
    return "\n".join(out)


def stub():
    out = ["/* A stand-in for another library of the standard ABI: every function does nothing. */",
           '#include "mpi.h"', "#include <stdio.h>", "#include <string.h>", ""]
    special = {
        "MPI_Init": 'puts("stub library"); return MPI_SUCCESS;',
        "MPI_Get_library_version": 'strcpy(version, "stub"); *resultlen = 4; return MPI_SUCCESS;',
    }
    for f in tables.functions():
        body = "return 0;" if f.result in ("int", "double", "MPI_Aint") else f"return ({f.result})0;"
        for prefix in ("", "P"):
            params = ", ".join(p.text for p in f.params) or "void"
            unused = "".join(f"(void){a}; " for a in f.arguments)
            weak = "__attribute__((weak)) " if not prefix else ""
            out.append(f"{weak}{f.result} {prefix}{f.name}({params}) "
                       f"{{ {unused}{special.get(f.name, body)} }}")
    return "\n".join(out) + "\n"


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("constants.c", constants()), ("prototypes.c", prototypes()),
                       ("stub.c", stub())):
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
    # The same as C++.
    for name in ("constants", "prototypes"):
        (folder / f"{name}_cxx.cc").write_text(f'#include "{name}.c"\n')


if __name__ == "__main__":
    main()
