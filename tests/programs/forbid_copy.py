#!/usr/bin/env python3
"""Runs a program that may not read or write another process's memory, as in many containers.

    forbid_copy.py program arguments...

Linux: a seccomp filter lets process_vm_readv(2) and process_vm_writev(2) fail with EPERM, in the
program and all that it starts; where the system allows no filter, it says so and runs it without.
Source: Linux's seccomp_filter documentation; numbers of system calls: its tables.
"""
import ctypes
import errno
import os
import platform
import struct
import sys

CALLS = {"x86_64": (310, 311), "aarch64": (270, 271)}
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
LOAD_NUMBER, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
REFUSE, ALLOW = 0x00050000 | errno.EPERM, 0x7FFF0000


def forbid():
    """None, or why there is no filter."""
    if sys.platform != "linux" or platform.machine() not in CALLS:
        return f"not written for {sys.platform} on {platform.machine()}"
    read, write = CALLS[platform.machine()]
    code = [(LOAD_NUMBER, 0, 0, 0), (JUMP_IF_EQUAL, 2, 0, read), (JUMP_IF_EQUAL, 1, 0, write),
            (RETURN, 0, 0, ALLOW), (RETURN, 0, 0, REFUSE)]
    text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in code))
    program = ctypes.create_string_buffer(
        struct.pack("HxxxxxxP", len(code), ctypes.addressof(text)))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
    for arguments in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
                      (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(program), 0, 0)):
        if libc.prctl(*arguments) != 0:
            return os.strerror(ctypes.get_errno())
    return None


def main():
    why = forbid()
    if why:
        print(f"forbid_copy: {sys.argv[1]} runs without the filter: {why}", file=sys.stderr)
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
