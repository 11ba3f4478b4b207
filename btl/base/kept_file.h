// btl/base/kept_file.h: figures measured on this machine, kept for later runs in small text files
// of the user's cache folder. Each names the machine it holds for: a home folder may be shared by
// many.
#pragma once

#include "btl/base/result.h"

#include <cstddef>
#include <string>
#include <string_view>

namespace pomona {

// The processor as the system names it: "Apple M2 Pro".
std::string processor_name();

// ~/.cache/pomona/NAME (~/Library/Caches/pomona/NAME on macOS; $XDG_CACHE_HOME comes before both);
// "" where the environment names no home.
std::string cache_path(const char* const* environment, std::string_view name);

// Makes the folders above; written beside and renamed: a reader sees the old file or the new one.
Status write_kept(const std::string& path, std::string_view text);
// Up to a mebibyte of it; what is longer was not written by us.
Result<std::string> read_kept(const std::string& path);

// Holds the folder of such a file, so that of two who read it, add something and write it neither
// loses what the other has added. Ends with the object, and with its process. Whoever writes
// without reading needs none.
class KeptLock {
public:
    // Waits that long for another one; where the system locks no folders it goes without.
    KeptLock(const std::string& path, int milliseconds);
    ~KeptLock();
    KeptLock(const KeptLock&) = delete;
    KeptLock& operator=(const KeptLock&) = delete;
    bool held() const { return held_; }  // false: somebody else has it all the time

private:
    int folder_ = -1;
    bool held_ = false;
};

// By the local clock, as such files name it: "2026-11-23".
std::string today();

// The piece of `text` up to `end`, which is removed with it.
std::string_view take_piece(std::string_view& text, char end);

// Of files that people edit and mpirun hands to all ranks as a parameter, in one line.
inline constexpr size_t kHandedMost = 64 << 10;  // an environment variable holds it
// The line without its comment, and without blanks at both ends.
std::string_view bare_line(std::string_view line);
// No other characters than a parameter may have; ';' stands between the lines there.
bool may_be_handed(std::string_view line);

}  // namespace pomona
