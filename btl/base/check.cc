// btl/base/check.cc: how a failed check ends the process.
#include "btl/base/check.h"

#include "btl/base/format.h"
#include "btl/base/log.h"

#include <cstdlib>
#include <execinfo.h>
#include <unistd.h>

namespace pomona {

void check_failed(const char* what, Place place, std::initializer_list<long long> operands) {
    std::string text = format("{}internal error: {} at {}:{}; operands:", log_prefix("check"), what,
                              place.file, place.line);
    for (long long operand : operands) text += format(" {}", operand);
    text += "\nThis is a bug in Pomona; the stack follows.\n";
    if (write(2, text.data(), text.size()) < 0) std::abort();
    void* frames[48];
    backtrace_symbols_fd(frames, backtrace(frames, 48), 2);
    std::abort();
}

}  // namespace pomona
