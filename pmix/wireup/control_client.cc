// pmix/wireup/control_client.cc: see control_client.h.
// Idea: what needs no answer is collected and leaves with the next question, so that MPI_Init
// costs one round trip. Two locks: one question at a time, and whole frames on the socket, so
// that abort() gets through while another thread waits in a fence.
#include "pmix/wireup/control_client.h"

#include "btl/base/check.h"
#include "btl/base/log.h"
#include "btl/base/messages.h"
#include "btl/base/waiting.h"
#include "pmix/control.h"
#include "pmix/services.h"
#include "pmix/wireup/fates.h"
#include "pmix/wireup/origin.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

namespace pomona {

namespace {

constexpr const char* kUnparsed = "The answer of mpirun does not parse";

using Time = std::chrono::steady_clock::time_point;
constexpr Time kNever = Time::max();

Time time_in(double seconds) {
    constexpr double kLongest = 1e9;  // longer ones overflow the clock
    auto wait = std::chrono::duration<double>(std::min(seconds, kLongest));
    return std::chrono::steady_clock::now() +
           std::chrono::duration_cast<std::chrono::steady_clock::duration>(wait);
}

Error launcher_gone() { return {Code::peer_gone, "The connection to mpirun is lost", -1, 0}; }

class MpirunWireup final : public Wireup {
public:
    MpirunWireup(Job job, int descriptor) : job_(std::move(job)), descriptor_(descriptor) {}
    ~MpirunWireup() override { close(descriptor_); }

    const Job& job() const override { return job_; }

    Status hello() {
        Writer writer;
        writer.put(static_cast<int32_t>(job_.rank));
        writer.put(static_cast<int32_t>(getpid()));
        queue(ControlType::hello, writer);
        return flush();
    }

    Status publish(std::string_view key, ConstBytes value) override {
        if (key.size() > kControlKeyMax || value.size() > kControlFrameMax / 2)
            return Error{Code::invalid_argument, "A key or value to publish is too long"};
        Writer writer;
        writer.put_text(key);
        writer.put_sized(value);
        queue(ControlType::publish, writer);
        return {};
    }

    Status fence() override {
        std::vector<int> nobody;
        return fence_within(0, nobody);
    }

    Status fence_within(double seconds, std::vector<int>& missing) override {
        std::lock_guard lock(question_);
        if (!std::exchange(in_fence_, true)) queue(ControlType::fence, {});
        for (Time end = seconds > 0 ? time_in(seconds) : kNever;;) {
            auto done = ask(ControlType::fence_done, end);
            if (done.ok()) in_fence_ = false;
            if (done.ok() || done.error().code != Code::timed_out)
                return done.ok() ? Status{} : done.error();
            queue(ControlType::missing, {});
            ControlFrame answer = TRY(ask(ControlType::missing));
            Reader reader(answer.payload);
            missing.resize(std::min(reader.get<uint32_t>(), static_cast<uint32_t>(job_.size)));
            for (int& rank : missing) rank = reader.get<int32_t>();
            if (reader.failed()) return Error{Code::malformed, kUnparsed};
            // Else all have come meanwhile, and the word of it came just before.
            if (!missing.empty()) return done.error();
            end = kNever;
        }
    }

    Result<std::vector<std::byte>> lookup(int rank, std::string_view key) override {
        std::lock_guard lock(question_);
        Writer writer;
        writer.put(static_cast<int32_t>(rank));
        writer.put_text(key);
        queue(ControlType::lookup, writer);
        ControlFrame answer = TRY(ask(ControlType::value));
        Reader reader(answer.payload);
        bool found = reader.get<uint8_t>() != 0;
        ConstBytes value = reader.get_sized(kControlFrameMax);
        if (reader.failed()) return Error{Code::malformed, kUnparsed};
        if (!found) return Error{Code::not_found, "Nothing was published under this key", rank, 0};
        return std::vector<std::byte>(value.begin(), value.end());
    }

    Result<std::vector<std::byte>> request(Service service, ConstBytes question) override {
        std::lock_guard lock(question_);
        Writer writer;
        writer.put(service);
        writer.put_bytes(question);
        queue(ControlType::request, writer);
        ControlFrame answer = TRY(ask(ControlType::answer));
        if (answer.payload.empty()) return Error{Code::malformed, kUnparsed};
        auto code = static_cast<Code>(answer.payload[0]);
        if (code != Code::ok) return Error{code, refusal_of(service)};
        answer.payload.erase(answer.payload.begin());
        return std::move(answer.payload);
    }

    [[noreturn]] void abort(int code, std::string_view message) override {
        Writer writer;
        writer.put(static_cast<int32_t>(code));
        writer.put_text(message.substr(0, kControlTextMax / 2));
        queue(ControlType::abort, writer);
        if (flush().ok()) {  // mpirun kills us; without it we go after two seconds
            pollfd nothing{-1, 0, 0};
            poll(&nothing, 0, 2000);
        }
        _exit(exit_code_of(code));
    }

    void on_peer_death(std::function<void(int)> function) override {
        std::lock_guard lock(question_);
        on_death_ = std::move(function);
        if (on_death_)
            for (int rank : std::exchange(untold_, {})) on_death_(rank);
    }
    int watch_fd() const override { return descriptor_; }

    void drain() override {
        std::unique_lock lock(question_, std::try_to_lock);
        if (!lock.owns_lock()) return;  // whoever asks a question now reads everything
        for (pollfd entry{descriptor_, POLLIN, 0}; !lost_ && poll(&entry, 1, 0) == 1;)
            if (!receive()) break;
        while (auto frame = parser_.next()) handle_event(*frame);
    }

    void tell_waiting(uint32_t number, int64_t waited_ns, bool explain,
                      const Waiting& waiting) override {
        Writer writer;
        writer.put(number);
        writer.put(waited_ns);
        writer.put(static_cast<uint8_t>(explain));
        waiting.write(writer);
        queue(ControlType::waiting, writer);
        (void)flush();  // where mpirun is gone others notice
    }
    void tell_waited(uint32_t number) override {
        Writer writer;
        writer.put(number);
        queue(ControlType::waited, writer);
        (void)flush();
    }
    std::string explanation(uint32_t number) override {
        drain();
        std::unique_lock lock(question_, std::try_to_lock);
        if (!lock.owns_lock()) return {};
        auto found = explanations_.find(number);
        if (found == explanations_.end()) return {};
        std::string text = std::move(found->second);
        explanations_.erase(found);
        return text;
    }

    uint32_t asked_for_queues() override { return asked_for_queues_.exchange(0); }
    void tell_queues(uint32_t number, const std::string& text) override {
        Writer writer;
        writer.put(number);
        writer.put_text(text);
        queue(ControlType::queues, writer);
        (void)flush();
    }

    void tell_lines(ConstBytes lines) override {
        Writer writer;
        writer.put_bytes(lines);
        queue(ControlType::lines, writer);
    }

    void tell_sessions(int open, bool world) {
        Writer writer;
        writer.put(static_cast<uint32_t>(open));
        writer.put(static_cast<uint8_t>(world));
        queue(ControlType::sessions, writer);
        (void)flush();
    }

    Status finalize() override {
        queue(ControlType::finalized, {});
        return flush();
    }

private:
    void queue(ControlType type, const Writer& payload) {
        std::lock_guard lock(writing_);
        std::vector<std::byte> frame = control_frame(type, payload);
        out_.insert(out_.end(), frame.begin(), frame.end());
    }

    Status flush() {
        std::lock_guard lock(writing_);
        size_t sent = 0;
        while (sent < out_.size()) {
            ssize_t count = send(descriptor_, out_.data() + sent, out_.size() - sent, kNoSignal);
            if (count < 0 && errno == EINTR) continue;
            if (count < 0) {
                out_.clear();
                return os_error(Code::peer_gone, "mpirun cannot be reached any more");
            }
            sent += static_cast<size_t>(count);
        }
        out_.clear();
        return {};
    }

    // Sends what is queued and waits for an answer of this type, until `end` at most.
    Result<ControlFrame> ask(ControlType answer, Time end = kNever) {
        if (lost_) return launcher_gone();
        Status sent = flush();
        if (!sent.ok() && !refused_) (void)receive();  // a refusal explains the closed connection
        for (;;) {
            while (auto frame = parser_.next()) {
                if (frame->type == answer) return std::move(*frame);
                handle_event(*frame);
            }
            if (refused_) return Error{Code::refused, "mpirun refused this process"};
            if (answer == ControlType::fence_done && std::exchange(fence_over_, false))
                return ControlFrame{answer, {}};
            if (!sent.ok()) return sent.error();
            if (!readable_until(end))
                return Error{Code::timed_out, "mpirun has not answered in time"};
            if (!receive()) return launcher_gone();
        }
    }

    // False: nothing has come.
    bool readable_until(Time end) const {
        while (end != kNever) {
            auto left = std::chrono::ceil<std::chrono::milliseconds>(
                end - std::chrono::steady_clock::now());
            pollfd entry{descriptor_, POLLIN, 0};
            int milliseconds = static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1'000'000));
            if (poll(&entry, 1, milliseconds) == 1) return true;
            if (left.count() <= 0) return false;
        }
        return true;
    }

    // Blocks for some bytes; false when the launcher is gone.
    bool receive() {
        std::byte buffer[16384];
        ssize_t count;
        do count = recv(descriptor_, buffer, sizeof buffer, 0);
        while (count < 0 && errno == EINTR);
        if (count > 0) {
            parser_.feed({buffer, static_cast<size_t>(count)});
            if (!parser_.malformed()) return true;
        }
        if (!lost_.exchange(true) && on_death_) on_death_(-1);
        return false;
    }

    void handle_event(const ControlFrame& frame) {
        Reader reader(frame.payload);
        if (frame.type == ControlType::gone) {
            int rank = reader.get<int32_t>();
            if (reader.failed()) return;
            note_fate(rank, reader.get_text(kControlTextMax));
            if (on_death_) on_death_(rank);
            else untold_.push_back(rank);
        } else if (frame.type == ControlType::explanation) {
            auto number = reader.get<uint32_t>();
            std::string text = reader.get_text(kControlTextMax);
            if (!reader.failed()) explanations_[number] = std::move(text);
        } else if (frame.type == ControlType::queues) {
            auto number = reader.get<uint32_t>();
            if (!reader.failed()) asked_for_queues_ = number;
        } else if (frame.type == ControlType::fence_done) {
            fence_over_ = true;
        } else if (frame.type == ControlType::refused) {
            LOG(error, pmix, "mpirun refused rank {}: {}", job_.rank,
                reader.get_text(kControlTextMax));
            refused_ = true;
        }
    }

    Job job_;
    int descriptor_;
    std::mutex question_;  // held from a question to its answer
    std::mutex writing_;   // held while frames are queued or sent
    std::vector<std::byte> out_;
    ControlParser parser_;
    std::function<void(int)> on_death_;
    std::vector<int> untold_;  // who has ended while nobody asked, mostly before this rank came
    std::map<uint32_t, std::string> explanations_;  // not yet taken; by the number of the wait
    std::atomic<uint32_t> asked_for_queues_ = 0;    // read by whoever polls; any order will do
    bool in_fence_ = false,
         fence_over_ = false;  // it has asked; the answer came to another question
    bool refused_ = false;
    std::atomic<bool> lost_ = false;  // only the holder of question_ changes it; any order will do
};

}  // namespace

Result<std::unique_ptr<Wireup>> start_under_mpirun(Job job) {
    auto descriptor = connect_to_control(job.directory);
    if (!descriptor.ok()) {
        const Error& error = descriptor.error();
        if (error.code == Code::refused)
            LOG(error, pmix, messages::mpirun_silent, job.rank, control_socket_path(job.directory),
                os_text(error.os_errno));
        return error;
    }
    auto wireup = std::make_unique<MpirunWireup>(std::move(job), *descriptor);
    TRY(wireup->hello());
    // Is this process that rank? Who is not must let alone what the ranks of a machine share.
    auto answer = wireup->lookup(wireup->job().rank, "");
    if (!answer.ok() && answer.error().code != Code::not_found) return answer.error();
    return std::unique_ptr<Wireup>(std::move(wireup));
}

void tell_sessions(Wireup& wireup, int open, bool world) {
    if (auto* ours = dynamic_cast<MpirunWireup*>(&wireup)) ours->tell_sessions(open, world);
}

}  // namespace pomona
