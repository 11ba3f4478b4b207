// pmix/launch/read_buffer.h: room for what is read from a stream at once. It does not lie on the
// stack, which the user may have made small (ulimit -s).
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include <sys/types.h>

namespace pomona {

class ReadBuffer {
public:
    static constexpr size_t kSize = 64u << 10;  // as much as a pipe holds

    char* data() { return bytes_.get(); }
    std::string_view first(ssize_t count) const {
        return {bytes_.get(), static_cast<size_t>(count)};
    }

private:
    std::unique_ptr<char[]> bytes_{new char[kSize]};
};

}  // namespace pomona
