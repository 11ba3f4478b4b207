// btl/base/thread_role.cc: see thread_role.h.
#include "btl/base/thread_role.h"

#include <dirent.h>
#include <pthread.h>
#if defined(__APPLE__)
#include <pthread/qos.h>
#endif

#include <cstdio>
#include <cstring>

namespace pomona {

static const char kOurs[] = "pomona-", kProgress[] = "pomona-progress",  // at most 15 characters
    kHelper[] = "pomona-helper", kWriter[] = "pomona-writer", kDriver[] = "pomona-driver",
                  kCopier[] = "pomona-copier";
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

void become_copier_thread() { set_role(kCopier); }

void become_driver_thread() { set_role(kDriver); }

// The names of this process's threads, as the system has them.
int count_foreign_threads() {
    DIR* folder = opendir("/proc/self/task");
    if (!folder) return -1;
    int count = 0;
    while (const dirent* entry = readdir(folder)) {
        if (entry->d_name[0] == '.') continue;
        char path[64], name[32] = "";
        std::snprintf(path, sizeof path, "/proc/self/task/%.20s/comm", entry->d_name);
        if (FILE* file = std::fopen(path, "re")) {
            if (!std::fgets(name, sizeof name, file)) name[0] = '\0';
            std::fclose(file);
        }
        count += std::strncmp(name, kOurs, sizeof kOurs - 1) != 0;
    }
    closedir(folder);
    return count;
}

}  // namespace pomona
