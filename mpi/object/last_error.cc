// mpi/object/last_error.cc: see last_error.h.
#include "mpi/object/last_error.h"

#include "mpi/include/mpi.h"

#include <utility>

namespace pomona {

namespace {
struct LastError {
    int code = MPI_SUCCESS;
    std::string sentence;
};
// MPI may be called when the destructors of this thread's variables have run: by atexit handlers,
// before which the main thread's run. What is made then stays.
thread_local LastError* last_made = nullptr;
LastError& last_error() {
    struct Remover {
        ~Remover() { delete std::exchange(last_made, nullptr); }
    };
    if (!last_made) {
        thread_local Remover remover;
        static_cast<void>(remover);
        last_made = new LastError;
    }
    return *last_made;
}
}  // namespace

void keep_sentence(int code, const std::string& sentence) { last_error() = {code, sentence}; }

std::string last_error_sentence(int code) {
    return last_made && last_made->code == code ? last_made->sentence : "";
}

}  // namespace pomona
