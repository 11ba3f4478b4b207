// pmix/launch/local_host.h: the host on which mpirun runs: its agent, called directly.
#pragma once

#include "pmix/launch/agent.h"
#include "pmix/launch/host.h"

#include <string>
#include <utility>

namespace pomona {

class LocalHost final : public Host {
public:
    LocalHost(std::string name, HostEvents events, const char* const* environment)
        : Host(std::move(name), std::move(events)), agent(environment) {}

    bool here() const override { return true; }
    bool lost() const override { return false; }
    void set_facts(const HostFacts& facts) { facts_ = facts; }
    bool prepare(const JobOrders& orders) override {
        std::string mistake = agent.prepare(orders, events_.remark);
        if (!mistake.empty()) events_.say(mistake);
        return mistake.empty();
    }
    void start(const StartOrder& order) override {
        Agent::Started started = agent.start(order);
        if (started.pid < 0) return events_.refused(order.rank, started.code, started.why);
        events_.streams(order.rank, started.input, started.output, started.error);
        events_.started(order.rank, started.pid, started.binding);
    }
    void ask_program(const std::string& name, const std::string& directory,
                     std::function<void(bool)> answer) override {
        answer(agent.has_program(name, directory));
    }
    void guard() override {
        if (!agent.guard())
            events_.remark(
                "no watchdog process could be started; should mpirun be killed, files may remain");
    }
    void signal(int number) override { agent.signal(number); }
    void signal_catchers(int number) override { agent.signal_catchers(number); }
    void input(int, std::string_view) override {}
    void input_end(int) override {}
    void output_taken(int, int, size_t) override {}
    void ask_stacks(int rank, std::function<void(const std::string&)> answer) override {
        agent.ask_stacks(base, rank, std::move(answer));
    }
    void sweep() override { agent.kill_what_outlives_ranks(); }
    void leave() override { agent.clean_up(); }
    bool left() const override { return true; }

    Agent agent;
    event_base* base = nullptr;  // mpirun's loop, once there is one
};

}  // namespace pomona
