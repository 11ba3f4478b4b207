// btl/shm/other_process.h: reading and writing another process's memory, where the system lets us.
// Linux: process_vm_readv and its twin, which ask for the right to trace that process: same user,
// and where the Yama module restricts tracing to ancestors, the leave that the other process has
// given. macOS has no such call without a task port: never.
#pragma once

#include "btl/base/bytes.h"

#include <cstdint>

namespace pomona {

// Reads target.size() bytes at `address` of process `pid`. False: not allowed, no such memory, or
// no such process; part of the target may have been written.
bool read_process(int64_t pid, uint64_t address, Bytes target);

// Writes to it, likewise.
bool write_process(int64_t pid, uint64_t address, ConstBytes source);

// Lets this process's siblings read it: the launcher and what it started, and nobody else whom the
// system would not let anyway.
void allow_reading_by_siblings();

}  // namespace pomona
