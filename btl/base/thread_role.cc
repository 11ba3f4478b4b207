// btl/base/thread_role.cc: see thread_role.h.
#include "btl/base/thread_role.h"

#include <pthread.h>
#if defined(__APPLE__)
#include <pthread/qos.h>
#endif

namespace pomona {

static const char kProgress[] = "pomona-progress",  // at most 15 characters
    kHelper[] = "pomona-helper", kWriter[] = "pomona-writer";
static thread_local bool makes_progress = false;

bool is_progress_thread() { return makes_progress; }

static void set_role(const char* name) {
#if defined(__APPLE__)
    (void)pthread_setname_np(name);
    // One below the user interface's: latency matters, and the user did ask for it.
    (void)pthread_set_qos_class_self_np(QOS_CLASS_USER_INITIATED, 0);
#else
    (void)pthread_setname_np(pthread_self(), name);
#endif
}

void become_progress_thread() {
    makes_progress = true;
    set_role(kProgress);
}

void become_helper_thread() { set_role(kHelper); }

void become_writer_thread() { set_role(kWriter); }

}  // namespace pomona
