"""How much memory a rank has, for tests that look whether it grows."""

import ctypes
import os


class Mallinfo2(ctypes.Structure):
    """glibc's counts of bytes (mallinfo2(3)), of all arenas."""

    _fields_ = [(name, ctypes.c_size_t) for name in
                "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]


def pages():
    """The memory that this process has, less what has been freed and malloc() keeps: a piece of
    1.2 MB that a small one stands above is not given back, by chance."""
    with open("/proc/self/statm", encoding="ascii") as file:
        resident = int(file.read().split()[1])
    mallinfo2 = getattr(ctypes.CDLL(None), "mallinfo2", None)  # since glibc 2.33
    if mallinfo2 is None:
        return resident
    mallinfo2.restype = Mallinfo2
    return resident - mallinfo2().fordblks // os.sysconf("SC_PAGE_SIZE")


def expect_no_growth(before, most):
    """This process has not `most` pages more than pages() has told before. The runtime of a
    sanitizer keeps what has been freed, in order to see whether somebody uses it: no number of
    pages says anything there."""
    program = ctypes.CDLL(None)
    if hasattr(program, "__asan_init") or hasattr(program, "__tsan_init"):
        return
    now = pages()
    assert now < before + most, (before, now)
