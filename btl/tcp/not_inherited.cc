// btl/tcp/not_inherited.cc: a bit for each descriptor. Atomic words, so that the child of a process
// with several threads finds no lock held.
#include "btl/tcp/not_inherited.h"

#include <atomic>
#include <bit>
#include <cstdint>
#include <pthread.h>
#include <unistd.h>

namespace pomona::tcp {

static constexpr int kDescriptors = 1 << 16;  // those above are inherited
static std::atomic<uint64_t> words[kDescriptors / 64];

static bool known(int descriptor) { return descriptor >= 0 && descriptor < kDescriptors; }
static std::atomic<uint64_t>& word_of(int descriptor) { return words[descriptor / 64]; }
static uint64_t bit_of(int descriptor) { return uint64_t{1} << (descriptor % 64); }

static void close_in_child() {
    for (int first = 0; first < kDescriptors; first += 64)
        for (uint64_t left = word_of(first).exchange(0); left != 0; left &= left - 1)
            close(first + std::countr_zero(left));
}

void do_not_inherit(int descriptor) {
    // Refused only without memory; then children keep what they would have kept.
    [[maybe_unused]] static const int asked = pthread_atfork(nullptr, nullptr, close_in_child);
    if (known(descriptor)) word_of(descriptor).fetch_or(bit_of(descriptor));
}

void close_not_inherited(int descriptor) {
    if (known(descriptor)) {
        uint64_t before = word_of(descriptor).fetch_and(~bit_of(descriptor));
        if ((before & bit_of(descriptor)) == 0) return;
    }
    close(descriptor);
}

}  // namespace pomona::tcp
