// btl/base/named_file.cc: see named_file.h.
#include "btl/base/named_file.h"

#include "btl/base/format.h"

#include <array>
#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

namespace pomona {

std::string read_named_file(const std::string& path, std::string& text) {
    auto unreadable = [] { return format("cannot be read: {}", os_text(errno)); };
    text.clear();
    int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return unreadable();
    std::array<char, 1 << 16> piece;
    std::string why;
    while (why.empty()) {
        ssize_t count = read(file, piece.data(), piece.size());
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) why = unreadable();  // a folder, too
        if (count <= 0) break;
        text.append(piece.data(), static_cast<size_t>(count));
        if (text.size() > kNamedFileMost)
            why = format("has more than {} MiB", kNamedFileMost >> 20);
    }
    close(file);
    if (!why.empty()) text.clear();
    return why;
}

}  // namespace pomona
