// work_failure.cc: how operations fail that have begun, by MPI's errors, deadlines, ranks that have
// left, and abort; and what is said of it, here and to the others. See work.h.
#include "torch_glue/messages.h"
#include "torch_glue/work.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <sstream>
#include <thread>

namespace pomona::glue {
namespace {

using namespace std::chrono_literals;

// How long an operation that has failed by a death waits for the dead rank's name: where the two
// have exchanged nothing, MPI looks whether that rank still listens, and the launcher's word counts
// after a second.
constexpr auto kNews = 4s;

// How long one that has failed without a death waits for the word of a rank that has left: MPI may
// find that a rank takes no part before the end of that rank's program tells so.
constexpr auto kFarewell = 500ms;

// From when on a collective is long, and the others are asked.
constexpr auto kLong = 1s;

// How long before its deadline a message's peer is asked. No sooner: who receives from anybody may
// wait for hours, and would ask all.
constexpr auto kLastMoments = 2s;

// Groups with operations that were given up, which MPI_Finalize would wait for.
struct LostGroups {
    std::mutex mutex;
    std::vector<std::weak_ptr<Group>> all;  // under mutex
};
LostGroups& lost_groups() {
    static auto* const groups = new LostGroups;
    return *groups;
}

std::string departed_text(const std::string& who) {
    return who + (who.rfind("ranks", 0) == 0 ? " have" : " has") +
           " ended the program without taking part";
}

}  // namespace

// MPI's sentence is the calling thread's, and another may complete the operation.
void GlueWork::note_error(int mpi_error) {
    if (mpi_error_ != MPI_SUCCESS) return;
    mpi_error_ = mpi_error;
    mpi_text_ = error_text(mpi_error);
}

// By who has seen the end of the last request.
std::string GlueWork::mpi_failure() const {
    return mpi_error_ == MPI_SUCCESS ? std::string() : failure_text(mpi_error_, mpi_text_);
}

void GlueWork::give_up(const char* why) {
    static std::atomic<uint64_t> losses{0};
    uint64_t none = 0;
    loss_.compare_exchange_strong(none, losses.fetch_add(1) + 1);
    give_up_finalize(why, group_->count->key, loss_.load());
    // MPI's thread looks at loss_ after remaining_.
    if (phase_.load() == Phase::Armed && !flow_ && remaining_.load() == 0) return take_back();
    std::lock_guard lock(lost_groups().mutex);
    auto& all = lost_groups().all;
    const auto is_this = [this](const auto& other) { return other.lock() == group_; };
    if (std::none_of(all.begin(), all.end(), is_this)) all.emplace_back(group_);
}

void GlueWork::take_back() {
    if (const uint64_t loss = loss_.load()) take_back_finalize(group_->count->key, loss);
}

void end_lost_groups() {
    if (!mpi().X_Comm_revoke) return;
    std::vector<std::weak_ptr<Group>> lost;
    {
        std::lock_guard lock(lost_groups().mutex);
        lost.swap(lost_groups().all);
    }
    for (const auto& each : lost) {
        const auto group = each.lock();
        if (!group || mpi().X_Comm_revoke(group->comm) != MPI_SUCCESS) continue;
        take_back_finalize(group->count->key);
    }
}

void GlueWork::abort() {
    group_->aborted.store(true);
    fail("aborted");
}

std::string GlueWork::departed() const {
    if (c10d::isP2POp(opType_)) return group_->count->left_peer(peer_, group_->rank);
    return group_->count->left(sequence_);
}

std::string GlueWork::given_up() const {
    if (c10d::isP2POp(opType_)) return group_->count->given_up_peer(peer_, group_->rank);
    return group_->count->given_up(sequence_);
}

void GlueWork::fail_bereft() {
    const std::string who = departed();
    give_up("a rank has left");
    complete(who.empty() ? given_up() : departed_text(who));
}

// The operation may be over for others, who then wait for this rank in the next.
void GlueWork::tell_others(const std::string& cause) const {
    const bool counted = !c10d::isP2POp(opType_) && title_ != nullptr;
    const uint64_t first = counted ? sequence_ : group_->count->started() + 1;
    group_->count->give_up(first, what() + ": " + cause, group_->rank);
}

bool GlueWork::is_long() const {
    // In milliseconds: the longest timeouts are more than there are nanoseconds.
    const auto share = [half = timeout_ / 2](std::chrono::milliseconds most) {
        return std::min(most, half);
    };
    if (c10d::isP2POp(opType_)) return deadline_ - Clock::now() < share(kLastMoments);
    return Clock::now() - begun_ > share(kLong);
}

void GlueWork::ask_others() const {
    if (c10d::isP2POp(opType_)) group_->count->ask_peer(peer_, group_->rank);
    else group_->count->ask(sequence_, group_->rank);
}

void GlueWork::expire() {
    give_up("an operation timed out");
    std::string who;
    if (awaited_ != 0 && phase_.load() == Phase::Held)
        who = "It was to start after the callbacks of the Future of sequence " +
              std::to_string(awaited_) + ", which have not ended";
    else if (!c10d::isP2POp(opType_)) who = group_->count->absent(sequence_, group_->rank);
    else
        who = group_->count->absent_peer(peer_, group_->rank,
                                         opType_ == c10d::OpType::SEND ? "received" : "sent");
    if (who.empty()) who = "Some rank has not called the matching operation or is gone";
    complete("Timed out after " + seconds_text(timeout_) + ". " + who +
                 ". A longer timeout can be given to init_process_group(timeout=...)",
             c10d::ErrorType::TIMEOUT);
}

void GlueWork::fail(const std::string& text) {
    give_up("an operation was aborted");
    complete(text);
}

// The word that a collective has failed, which another rank has sent, can come before the news of
// who has died or left.
std::string GlueWork::failure_text(int mpi_error, const std::string& text) const {
    int kind = MPI_SUCCESS;
    mpi().Error_class(mpi_error, &kind);
    if (kind == MPI_ERR_OTHER) {
        const auto limit = Clock::now() + kFarewell;
        std::string who = departed();
        for (; who.empty() && Clock::now() < limit; who = departed()) {
            std::this_thread::sleep_for(5ms);
            look_at_presence();
        }
        if (!who.empty()) return departed_text(who) + " (" + text + ")";
    }
    if (is_mismatch(mpi_error) && !c10d::isP2POp(opType_) && !group_->compares)
        return filled(messages::unlike_calls, text);
    if (!is_death(mpi_error)) return text;
    std::vector<int> dead = dead_ranks(group_->comm);
    const auto limit = Clock::now() + kNews;
    while (dead.empty() && Clock::now() < limit) {
        std::this_thread::sleep_for(1ms);
        dead = dead_ranks(group_->comm);
    }
    if (dead.empty()) return text;
    return list_ranks(dead) + (dead.size() == 1 ? " has" : " have") + " died (" + text + ")";
}

std::string GlueWork::error_message(const std::string& cause) const {
    return group_->describe() + ": " + what() + ": " + cause;
}

std::string GlueWork::what() const {
    std::ostringstream out;
    out << c10d::opTypeToString(opType_);
    const auto& tensors = outputs_.empty() ? given_ : outputs_;
    for (size_t i = 0; i < tensors.size() && i < 3; ++i)
        out << (i ? ", " : " of ") << tensors[i].scalar_type() << tensors[i].sizes();
    if (tensors.size() > 3) out << " and " << tensors.size() - 3 << " more";
    const bool message = c10d::isP2POp(opType_);
    if (message && peer_ >= 0)
        out << (opType_ == c10d::OpType::SEND ? " to rank " : " from rank ") << peer_;
    out << (message ? " (message " : " (sequence ") << sequence_ << ")";
    return out.str();
}

}  // namespace pomona::glue
