// record.cc: see record.h.
#include "torch_glue/record.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <memory>
#include <thread>
#include <utility>

namespace pomona::glue {
namespace {

int64_t system_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
}

size_t bucket_of(std::chrono::nanoseconds time) {
    const double us = std::max(static_cast<double>(time.count()) / 1e3, 1.0);
    return std::min(static_cast<size_t>(std::ceil(std::log2(us) * 4)),
                    OperationTimes::kBuckets - 1);
}

// "all_reduce" of "mpi:all_reduce".
std::string kind_of(const std::string& title) {
    const size_t colon = title.rfind(':');
    return colon == std::string::npos ? title : title.substr(colon + 1);
}

// Whether the library counts the time of its reductions (of 4 KiB and more at a time).
bool reduces(const std::string& kind, uint64_t bytes) {
    return bytes >= 4096 && kind.find("reduce") != std::string::npos;
}

std::atomic<void (*)()> record_dumper{nullptr};

}  // namespace

double OperationTimes::quantile_us(double part) const {
    const auto wanted = static_cast<uint64_t>(std::ceil(part * static_cast<double>(count)));
    uint64_t seen = 0;
    for (size_t i = 0; i < kBuckets; ++i) {
        seen += buckets[i];
        if (seen >= wanted && seen > 0) return std::exp2(static_cast<double>(i) / 4);
    }
    return 0;
}

Record& Record::instance() {
    static Record* const record = new Record;  // outlives static destructors
    return *record;
}

void Record::share_reducing() {
    if (reduce_counter_ == nullptr) return;
    const uint64_t now = reduce_counter_();
    if (now > reduced_ns_ && !under_way_.empty())
        times_[under_way_.begin()->first].reducing_seconds +=
            static_cast<double>(now - reduced_ns_) * 1e-9;
    reduced_ns_ = now;
}

uint64_t Record::begin(RecordEntry entry, uint64_t bytes) {
    const std::string kind = kind_of(entry.title);
    entry.created_ns = system_ns();
    std::lock_guard lock(mutex_);
    if (reduces(kind, bytes)) {
        share_reducing();
        ++under_way_[kind];
    }
    entry.number = next_++;
    if (entries_.size() < kEntries) entries_.push_back(std::move(entry));
    else entries_[(entry.number - 1) % kEntries] = std::move(entry);
    return next_ - 1;
}

uint64_t Record::end(uint64_t number, const std::string& title, uint64_t bytes,
                     const OperationTime& time, bool failed) {
    if (number == 0) return 0;
    const std::string kind = kind_of(title);
    std::lock_guard lock(mutex_);
    if (reduces(kind, bytes)) {
        share_reducing();
        if (--under_way_[kind] == 0) under_way_.erase(kind);
    }
    RecordEntry& entry = entries_[(number - 1) % kEntries];
    if (entry.number == number) {  // else it has been overwritten
        entry.ended_ns = system_ns();
        entry.failed = failed;
    }
    OperationTimes& times = times_[kind];
    if (failed) {
        ++times.failed;
        return epoch_;
    }
    ++times.count;
    times.bytes += bytes;
    times.seconds += std::chrono::duration<double>(time.whole).count();
    if (time.waiting) times.waiting_seconds += std::chrono::duration<double>(*time.waiting).count();
    else ++(time.told_later ? times.unsettled : times.unseen);
    ++times.buckets[bucket_of(time.whole)];
    return epoch_;
}

void Record::settle(const std::string& title, uint64_t epoch, std::chrono::nanoseconds waiting) {
    std::lock_guard lock(mutex_);
    if (epoch != epoch_) return;
    OperationTimes& times = times_[kind_of(title)];
    --times.unsettled;
    times.waiting_seconds += std::chrono::duration<double>(waiting).count();
}

void Record::give_up_waiting(const std::string& title, uint64_t epoch) {
    std::lock_guard lock(mutex_);
    if (epoch != epoch_) return;
    OperationTimes& times = times_[kind_of(title)];
    --times.unsettled;
    ++times.unseen;
}

void Record::waited(const std::string& title, std::chrono::nanoseconds time) {
    std::lock_guard lock(mutex_);
    times_[kind_of(title)].waited_seconds += std::chrono::duration<double>(time).count();
}

void Record::know_group(const std::string& name, std::vector<int> ranks) {
    std::lock_guard lock(mutex_);
    KnownGroup& group = groups_[name];
    group.ranks = std::move(ranks);
    ++group.alive;
}

void Record::end_group(const std::string& name) {
    std::lock_guard lock(mutex_);
    --groups_[name].alive;
    ended_.push_back(name);
    if (ended_.size() <= kEndedMost) return;
    const std::string oldest = std::move(ended_.front());
    ended_.pop_front();
    const auto group = groups_.find(oldest);
    if (group == groups_.end() || group->second.alive > 0) return;
    const auto mentions = [&](const RecordEntry& entry) { return entry.group == oldest; };
    if (std::any_of(entries_.begin(), entries_.end(), mentions)) ended_.push_back(oldest);
    else groups_.erase(group);
}

std::vector<RecordEntry> Record::entries() const {
    std::lock_guard lock(mutex_);
    std::vector<RecordEntry> all = entries_;
    std::sort(all.begin(), all.end(),
              [](const auto& a, const auto& b) { return a.number < b.number; });
    return all;
}

uint64_t Record::latest() const {
    std::lock_guard lock(mutex_);
    return next_ - 1;
}

std::map<std::string, std::vector<int>> Record::groups() const {
    std::map<std::string, std::vector<int>> all;
    std::lock_guard lock(mutex_);
    for (const auto& [name, group] : groups_) all[name] = group.ranks;
    return all;
}

std::map<std::string, OperationTimes> Record::times(bool reset) {
    std::lock_guard lock(mutex_);
    if (!reset) return times_;
    ++epoch_;
    return std::exchange(times_, {});
}

void set_record_dumper(void (*dumper)()) { record_dumper.store(dumper); }

// On a thread of its own: a program that hangs with Python's lock must still get its error.
void dump_record_at_timeout() {
    const auto dumper = record_dumper.load();
    if (dumper == nullptr) return;
    struct Done {
        std::mutex mutex;
        std::condition_variable changed;
        bool done = false;
    };
    auto done = std::make_shared<Done>();
    std::thread([dumper, done] {
        dumper();
        std::lock_guard lock(done->mutex);
        done->done = true;
        done->changed.notify_all();
    }).detach();
    std::unique_lock lock(done->mutex);
    done->changed.wait_for(lock, std::chrono::seconds(2), [&] { return done->done; });
}

}  // namespace pomona::glue
