// btl/base/named_file.h: the text of a file that a user names.
#pragma once

#include <cstddef>
#include <string>

namespace pomona {

// No list of hosts, network with all pairs of hosts or recorded step is longer; /dev/zero is.
inline constexpr size_t kNamedFileMost = 64 << 20;

// Why it cannot be had, in words that follow the file's name ("cannot be read: Is a directory"); ""
// when `text` is the file's.
std::string read_named_file(const std::string& path, std::string& text);

}  // namespace pomona
