// btl/base/thread_role.h: tells the system what a thread of ours is for.
// Linux: its name, as seen in top and gdb. macOS: its name, and the quality-of-service class that
// lets it run on performance cores: a thread that nobody classed may be put on an efficiency core
// while ranks wait for it; cores cannot be chosen there.
#pragma once

namespace pomona {

// For the calling thread. Failure costs speed, not correctness, and is ignored.
void become_progress_thread();
void become_helper_thread();  // coll/helper.h
void become_writer_thread();  // btl/tcp/away_writer.h
void become_copier_thread();  // btl/rdma/copiers.h
void become_driver_thread();  // btl/rdma/driver.h, and who opens a device
// Whether the calling thread is the progress thread.
bool is_progress_thread();
// Threads of this process that are not of ours; -1 where the system does not tell (macOS). It reads
// a file for each.
int count_foreign_threads();

}  // namespace pomona
