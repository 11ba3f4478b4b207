// btl/base/named_file.cc: see named_file.h.
#include "btl/base/named_file.h"

#include "btl/base/format.h"

#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

namespace pomona {

namespace {
constexpr size_t kPiece = 64u << 10;
}  // namespace

std::string read_named_file(const std::string& path, std::string& text) {
    auto unreadable = [] { return format("cannot be read: {}", os_text(errno)); };
    text.clear();
    int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return unreadable();
    std::string why;
    while (why.empty()) {
        // Where it shall lie: a piece of the stack might be more than there is (ulimit -s).
        size_t before = text.size();
        text.resize(before + kPiece);
        ssize_t count = read(file, text.data() + before, kPiece);
        int error = errno;
        text.resize(before + (count > 0 ? static_cast<size_t>(count) : 0));
        errno = error;
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) why = unreadable();  // a folder, too
        if (count <= 0) break;
        if (text.size() > kNamedFileMost)
            why = format("has more than {} MiB", kNamedFileMost >> 20);
    }
    close(file);
    if (!why.empty()) text.clear();
    return why;
}

}  // namespace pomona
