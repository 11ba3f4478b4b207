#!/usr/bin/env python3
"""Checks that what a C++ file uses of the standard library comes from a header that it includes.

Headers that other headers happen to bring differ between compilers: g++ 13 and later bring fewer
than g++ 12 (no SIZE_MAX from <cstdlib>). A file has a header when it includes it itself or by a
header of the repository. Comments and strings are not looked at.

Usage: standard_headers.py ROOT [--fix]. Prints each fault and exits 1; --fix adds what is missing.
"""
import functools
import os
import pathlib
import re
import sys

FOLDERS = ["btl", "accel", "coll", "pmix", "mpi", "torch_glue", "tests", "examples"]
SUFFIXES = {".h", ".cc", ".mm"}
# Stand-ins for headers of other systems.
NOT_OURS = ("tests/metal/metal_stdlib", "tests/cross/macos")
# What is included instead of a header counts as that header.
EQUAL = {"stdint.h": "cstdint", "string.h": "cstring", "stdio.h": "cstdio", "stdlib.h": "cstdlib",
         "errno.h": "cerrno", "limits.h": "climits", "stddef.h": "cstddef", "linux/limits.h": "climits",
         "math.h": "cmath", "ctype.h": "cctype"}


def std(*names, call=False):
    return r"\bstd::(?:" + "|".join(names) + (r")\s*[(<]" if call else r")\b")


def plain(*names):
    """Functions of C: with or without std::, but not members or parts of other names."""
    return r"(?<![\w.>:])(?:std::|::)?(?:" + "|".join(names) + r")\s*\("


# What is looked for, and the headers of which any one gives it.
RULES = [
    (r"\bSIZE_MAX\b|\bU?INT(?:8|16|32|64|PTR)_(?:MAX|MIN)\b|\bu?int(?:8|16|32|64|ptr|max)_t\b", ["cstdint"]),
    (std("exchange", "move", "forward", "declval", "index_sequence", "make_pair", "in_place", "as_const"),
     ["utility"]),
    (std("pair"), ["utility", "map", "unordered_map"]),
    (std("find", "find_if", "sort", "stable_sort", "min", "max", "all_of", "any_of", "none_of", "copy", "copy_n",
         "fill", "fill_n", "reverse", "lower_bound", "upper_bound", "clamp", "count", "count_if", "equal", "unique",
         "remove", "remove_if", "rotate", "transform", "min_element", "max_element", "swap_ranges", "partial_sort",
         "nth_element", "binary_search", "mismatch", "partition", "shuffle", "is_sorted", "minmax", "for_each",
         "generate", "next_permutation", "lexicographical_compare", call=True), ["algorithm"]),
    (std("accumulate", "iota", "gcd", "lcm", "inner_product", "partial_sum"), ["numeric"]),
    (std("function", "bind", "reference_wrapper", "ref"), ["functional"]),
    (std("optional", "nullopt"), ["optional"]),
    (std("unique_ptr", "shared_ptr", "weak_ptr", "make_unique", "make_shared", "addressof"), ["memory"]),
    (std("array"), ["array"]),
    (std("vector"), ["vector"]),
    (std("string", "to_string", "stoi", "stoul"), ["string"]),
    (std("string_view"), ["string_view"]),
    (std("map", "multimap"), ["map"]),
    (std("unordered_map"), ["unordered_map"]),
    (std("unordered_set"), ["unordered_set"]),
    (std("set", "multiset"), ["set"]),
    (std("deque"), ["deque"]),
    (std("list"), ["list"]),
    (std("span"), ["span"]),
    (std("variant"), ["variant"]),
    (std(r"atomic\w*", r"memory_order\w*"), ["atomic"]),
    (std("mutex", "lock_guard", "unique_lock", "scoped_lock", "call_once"), ["mutex"]),
    (std("condition_variable"), ["condition_variable"]),
    (std("thread", "this_thread"), ["thread"]),
    (std("chrono"), ["chrono"]),
    (std("numeric_limits"), ["limits"]),
    (r"\b(?:INT_MAX|INT_MIN|CHAR_BIT|UINT_MAX|LONG_MAX|SHRT_MAX|LLONG_MAX|UCHAR_MAX|PATH_MAX)\b", ["climits"]),
    (plain("memcpy", "memset", "memcmp", "memmove", "strlen", "strcmp", "strchr", "strrchr", "strncmp", "strstr",
           "strerror", "strncpy"), ["cstring"]),
    (plain("snprintf", "printf", "fprintf", "fopen", "fclose", "fputs", "fflush", "vsnprintf", "perror", "puts",
           "fwrite", "fread", "sscanf", "rename", "fgets"), ["cstdio"]),
    (plain("getenv", "malloc", "calloc", "realloc", "strtol", "strtoul", "strtod", "strtoull", "atoi", "atof",
           "atexit", "_Exit", "quick_exit", "setenv", "unsetenv", "mkdtemp", "mkstemp"), ["cstdlib"]),
    (r"\bstd::(?:abort|exit)\b", ["cstdlib"]),
    (std("byte", "max_align_t") + r"|\bptrdiff_t\b", ["cstddef"]),
    (std("isdigit", "isspace", "isalpha", "toupper", "tolower", "isalnum"), ["cctype"]),
    (std("sqrt", "floor", "ceil", "fabs", "exp", "log2", "log", "pow", "isnan", "isfinite", "round", "lround",
         "ldexp", "isinf", call=True), ["cmath"]),
    (std("ostringstream", "istringstream", "stringstream"), ["sstream"]),
    (std("ifstream", "ofstream"), ["fstream"]),
    (std("cout", "cerr", "cin"), ["iostream"]),
    (std("initializer_list"), ["initializer_list", "vector", "string"]),
    (std("bit_cast", "popcount", "bit_width", "countr_zero", "countl_zero", "has_single_bit", "bit_ceil",
         "bit_floor", "endian"), ["bit"]),
    (std("tuple", "tie", "make_tuple"), ["tuple"]),
    (std("from_chars", "to_chars"), ["charconv"]),
    (std("complex"), ["complex"]),
    (std("bad_alloc", "nothrow") + r"|\bnew \(", ["new"]),
    (std("runtime_error", "logic_error", "invalid_argument", "out_of_range"), ["stdexcept"]),
    (std("exception", "terminate", "current_exception", "exception_ptr", "rethrow_exception"),
     ["exception", "stdexcept"]),
    (std("back_inserter", "inserter", "make_move_iterator"), ["iterator"]),
    (std("filesystem"), ["filesystem"]),
    (r"\berrno\b", ["cerrno"]),
    (std("queue", "priority_queue"), ["queue"]),
    (std("bitset"), ["bitset"]),
    (std("mt19937", "mt19937_64", "uniform_int_distribution"), ["random"]),
]


class Tree:
    def __init__(self, root):
        self.root = root
        self.texts = {}
        for folder in FOLDERS:
            for file in sorted((root / folder).rglob("*")):
                name = file.relative_to(root).as_posix()
                if file.suffix in SUFFIXES and not name.startswith(NOT_OURS):
                    self.texts[name] = file.read_text()

    @functools.lru_cache(maxsize=None)
    def own(self, name):
        """Headers of the system that a file includes itself."""
        found = re.findall(r"^\s*#\s*include\s*<([^>]+)>", self.texts[name], re.M)
        return {EQUAL.get(header, header) for header in found}

    @functools.lru_cache(maxsize=None)
    def headers(self, name):
        found, seen, left = set(), set(), [name]
        while left:
            file = left.pop()
            if file in seen:
                continue
            seen.add(file)
            found |= self.own(file)
            for include in re.findall(r'^\s*#\s*include\s*"([^"]+)"', self.texts[file], re.M):
                for place in (include, os.path.join(os.path.dirname(file), include)):
                    if os.path.normpath(place) in self.texts:
                        left.append(os.path.normpath(place))
                        break
        return found

    def faults(self, name):
        """(header, what needs it)"""
        code = re.sub(r"//[^\n]*|/\*.*?\*/", "", self.texts[name], flags=re.S)
        code = re.sub(r'R"(\w*)\(.*?\)\1"', '""', code, flags=re.S)
        code = re.sub(r'"(?:\\.|[^"\\\n])*"', '""', code)
        for rule, headers in RULES:
            used = re.search(rule, code)
            if used and not self.headers(name) & set(headers):
                yield headers[0], used.group(0).strip(" (<")


def add(path, headers):
    """Into the last block of headers without an ending, else after the last include."""
    lines = path.read_text().splitlines(keepends=True)
    standard = [i for i, line in enumerate(lines) if re.match(r"#include <[a-z_]+>", line)]
    every = [i for i, line in enumerate(lines) if re.match(r"#include ", line)]
    new = [f"#include <{header}>\n" for header in headers]
    if standard:
        begin = end = standard[-1]
        while begin - 1 in standard:
            begin -= 1
        lines[begin : end + 1] = sorted(set(lines[begin : end + 1] + new))
    elif every:
        lines[every[-1] + 1 : every[-1] + 1] = ["\n", *sorted(new)]
    else:
        place = next(i for i, line in enumerate(lines) if line.startswith("#pragma once")) + 1
        lines[place:place] = ["\n", *sorted(new)]
    path.write_text("".join(lines))


def main(root, fix):
    tree = Tree(root)
    wrong = 0
    for name in tree.texts:
        missing = {}
        for header, what in tree.faults(name):
            missing.setdefault(header, what)
        for header, what in missing.items():
            print(f"{name}: {what} needs #include <{header}>")
            wrong += 1
        if fix and missing:
            add(root / name, missing)
    print(f"{len(tree.texts)} files checked, {wrong} faults")
    return 1 if (wrong and not fix) or not tree.texts else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve(), "--fix" in sys.argv[2:]))
