// flow.h: an operation on tensors of a device, as stages that go through host memory.
// Idea: a stage is copied to the host, given to MPI, and copied back. Stages overlap: while MPI is
// at one, the device copies the next down and the last up, on side streams that wait for the
// caller's stream, and no thread waits for the device. Few stages are under way at a time and share
// their staging memory. Whoever has time moves a flow on (advance): the thread that waits for the
// operation, or the Mover's.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "torch_glue/device.h"
#include "torch_glue/library.h"

namespace pomona::glue {

struct Stage {
    using Step = std::function<void()>;
    std::vector<Step> loads;  // device to host; current stream: Device::down
    std::vector<std::function<int(MPI_Comm, MPI_Request*)>> calls;
    std::vector<Step> unpacks;  // on the host
    std::vector<Step> stores;   // host to device; current stream: Device::up
    bool direct = false;        // MPI uses the device's own memory
    // What else must be so before its loads, and before MPI is called; empty: nothing.
    std::function<bool()> may_load, may_call;
    std::function<void(MomentPointer)> stored;  // hears when its stores are over
};

class Flow {
public:
    static constexpr size_t kDepth = 4;  // stages under way at a time

    // For tensors of `where`; the caller's stream is the current one.
    explicit Flow(c10::Device where);
    ~Flow();
    Flow(const Flow&) = delete;
    Flow& operator=(const Flow&) = delete;

    // Building:
    c10::Device where() const { return where_; }
    const Device& device() const { return device_; }
    bool has_streams() const { return device_.has_streams(); }
    Stage& stage();                  // the last one
    Stage& new_stage();              // one more, that may overlap the others
    at::Tensor room(int64_t bytes);  // staging memory of the current stage alone
    at::Tensor slot(int64_t bytes);  // staging memory that later stages use again

    // An operation whose stages depend on what ranks tell each other: `plan` runs when it is the
    // operation's turn to call MPI, and adds stages; so may their unpacks, until end_of_plan().
    void set_plan(std::function<void()> plan);
    void end_of_plan() { open_ = false; }

    void begin();  // by the caller: all that its stream has been given so far comes first

    // Moves on what can be moved, without waiting; true if something has. `may_post`: it is this
    // operation's turn to call MPI. Throws what goes wrong.
    // `waited`: by a thread that waits for the operation, on its current stream.
    bool advance(MPI_Comm comm, bool may_post, int* mpi_error, bool waited = false);
    bool posted() const { return !open_ && posted_ == stages_.size(); }  // MPI is called no more
    bool finished() const { return !open_ && finished_ == stages_.size(); }
    int source() const { return source_; }                     // of the message that came last
    const std::string& mpi_text() const { return mpi_text_; }  // of the error of advance()
    bool waits_for_device() const;  // nothing tells when it is over: look again
    // MPI calls `notify` when a request ends; for who does not want to look all the time.
    void rest(void (*notify)());

    void join() const;  // the caller's current stream waits for the last copy up

private:
    struct Running {
        Stage stage;
        MomentPointer loaded, stored;
        std::vector<MPI_Request> requests;
        std::shared_ptr<struct Resting> resting;
        bool used_slot = false;
    };
    void load(Running& each, size_t number);
    bool short_load() const;
    void load_here(Running& each);
    bool may_load(const Running& each) const;
    bool may_call(const Running& each) const;
    bool test(Running& each, int* mpi_error);
    void finish(Running& each, bool here);
    void give_back();

    const c10::Device where_;
    const Device& device_;
    MomentPointer start_;
    std::vector<std::unique_ptr<Running>> stages_;
    std::function<void()> plan_;
    bool open_ = false;      // more stages may come
    bool is_short_ = false;  // copied on the callers' streams
    size_t loading_ = 0, posted_ = 0, finished_ = 0;
    int source_ = -1;
    std::string mpi_text_;
    std::vector<at::Tensor> rooms_, slots_;
};

}  // namespace pomona::glue
