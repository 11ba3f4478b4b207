// mpi/runtime/simulated.cc: see simulated.h.
#include "mpi/runtime/simulated.h"

#include "btl/base/waiting.h"
#include "pmix/wireup/origin.h"

#include <algorithm>
#include <cstdlib>

namespace pomona {

namespace {

class SimulatedWireup final : public Wireup {
public:
    SimulatedWireup(std::unique_ptr<Wireup> real, sim::Remote& simulated)
        : real_(std::move(real)), simulated_(simulated), job_(real_->job()) {
        const sim::Beginning& beginning = simulated.beginning();
        job_.node_of = beginning.hosts;
        job_.host = beginning.host;
        job_.hosts = 1 + *std::max_element(job_.node_of.begin(), job_.node_of.end());
        job_.oversubscribed = true;
        fill_local(job_);
    }
    const Job& job() const override { return job_; }
    Status publish(std::string_view, ConstBytes) override { return refused(); }
    Status fence() override { return refused(); }
    Result<std::vector<std::byte>> lookup(int, std::string_view) override { return refused(); }
    Result<std::vector<std::byte>> request(Service, ConstBytes) override { return refused(); }
    void tell_waiting(uint32_t number, int64_t waited_ns, bool, const Waiting& waiting) override {
        Writer out;
        waiting.write(out);
        simulated_.tell_waiting(number, waited_ns, out.bytes());
    }
    void tell_waited(uint32_t number) override { simulated_.tell_waited(number); }
    [[noreturn]] void abort(int code, std::string_view message) override {
        real_->abort(code, message);
        std::_Exit(code);  // for compilers that do not see that the line above does not return
    }
    void on_peer_death(std::function<void(int)>) override {}  // the simulator tells of it
    Status finalize() override { return real_->finalize(); }

private:
    static Error refused() {
        return {Code::unsupported,
                "In a simulated job (mpirun --simulate) processes cannot be spawned, nor ports and "
                "names be used"};
    }

    std::unique_ptr<Wireup> real_;
    sim::Remote& simulated_;
    Job job_;
};

}  // namespace

std::unique_ptr<sim::Remote> simulation_of(const char* const* environment) {
    auto socket = variable(environment, sim::kSimulationVariable);
    // A program that was started alone by a rank, say, is not part of the job.
    if (!socket || socket->empty() || !variable(environment, "POMONA_JOB_ID")) return nullptr;
    return std::make_unique<sim::Remote>(std::string(*socket));
}

std::unique_ptr<Wireup> make_simulated_wireup(std::unique_ptr<Wireup> real,
                                              sim::Remote& simulated) {
    return std::make_unique<SimulatedWireup>(std::move(real), simulated);
}

}  // namespace pomona
