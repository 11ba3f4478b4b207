// btl/base/thread_role.cc: see thread_role.h.
#include "btl/base/thread_role.h"

#include <pthread.h>
#if defined(__APPLE__)
#include <pthread/qos.h>
#endif

namespace pomona {

static const char kName[] = "pomona-progress";  // Linux allows 15 characters
static thread_local bool makes_progress = false;

bool is_progress_thread() { return makes_progress; }

#if defined(__APPLE__)
void become_progress_thread() {
    makes_progress = true;
    (void)pthread_setname_np(kName);
    // One below the user interface's: latency matters, and the user did ask for it.
    (void)pthread_set_qos_class_self_np(QOS_CLASS_USER_INITIATED, 0);
}
#else
void become_progress_thread() {
    makes_progress = true;
    (void)pthread_setname_np(pthread_self(), kName);
}
#endif

}  // namespace pomona
