// pmix/launch/remote_host.h: a host on which mpirun does not run: an agent there, started by ssh.
// Idea: the agent's standard streams carry frames (agent_words.h). Both ends say something at least
// every second, so that either notices when the other is gone; ssh's own end is noticed at once.
// Where mpirun takes agents' connections (dial_back.h), ssh's place is taken by a program that
// passes standard input on and need not live as long as the agent: then the connection's end is
// what counts.
#pragma once

#include "pmix/launch/control_server.h"
#include "pmix/launch/dial_back.h"
#include "pmix/launch/frame_channel.h"
#include "pmix/launch/host.h"
#include "pmix/launch/host_probe.h"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace pomona {

struct ShellOptions {
    std::string program = "ssh";   // --ssh
    std::string own;               // this program, as an absolute path
    double patience_seconds = 30;  // until the agent speaks
    double retry_seconds = 0;      // a host that cannot be reached yet is tried again so long
    const DialBack* dial_back =
        nullptr;     // the agent connects here; none: it speaks through `program`
    int number = 0;  // of this host, from 1
};

class RemoteHost final : public Host {
public:
    RemoteHost(event_base* base, const HostSlots& host, HostEvents events, ShellOptions shell);
    ~RemoteHost() override;

    // Starts ssh; ready or lost follows. False if it cannot be executed, with a word to the user.
    bool connect(const std::vector<std::string>& environment, const sigset_t& ignored);
    // Ranks there speak with this server.
    void serve(ControlServer& control) { control_ = &control; }
    // A child of ours has ended; true if it was ssh.
    bool reap(pid_t process, int status);
    // The agent's connection, where it makes one and is waited for.
    bool awaits_agent() const { return state_ == State::connecting && !channel_; }
    void admit(tcp::Socket socket);
    bool connecting() const { return state_ == State::connecting; }
    // No word for so long, and it is given up.
    void set_silence(double seconds) { silence_ = seconds; }
    // It is given up sooner where its system does not answer `here` any more either.
    void watch_system(const HostFacts& here);
    void pause();  // mpirun is about to be stopped
    void resume();
    void give_up(const std::string& why);

    bool here() const override { return false; }
    bool lost() const override { return state_ == State::lost; }
    bool prepare(const JobOrders& orders) override;
    void start(const StartOrder& order) override;
    void ask_program(const std::string& name, const std::string& directory,
                     std::function<void(bool)> answer) override;
    void guard() override;
    void signal(int number) override;
    void signal_catchers(int number) override;
    void input(int rank, std::string_view bytes) override;
    void input_end(int rank) override;
    void output_taken(int rank, int stream, size_t bytes) override;
    void ask_stacks(int rank, std::function<void(const std::string&)> answer) override;
    void sweep() override;
    void leave() override;
    bool left() const override;

private:
    enum class State { connecting, ready, leaving, lost };
    void on_frame(AgentWord word, Reader& in);
    void on_facts(Reader& in);
    void on_ended(Reader& in);
    void on_control(AgentWord word, Reader& in);
    void read_errors();
    void beat();
    void heard();
    bool start_shell();
    void open_channel(std::unique_ptr<FrameChannel> channel);
    std::string why_unheard() const;
    bool try_again();
    void end_shell();
    std::string why_lost() const;
    void finish_lost(const std::string& why);

    event_base* base_;
    HostSlots host_;
    ShellOptions shell_;
    State state_ = State::connecting;
    std::vector<std::string> environment_;  // of ssh
    sigset_t ignored_{};
    double begun_ = 0;
    pid_t process_ = -1;
    bool reaped_ = false, given_up_ = false;
    int status_ = 0;
    bool closing_ = false;  // its frames have ended, and its process not yet
    std::string closed_why_;
    std::unique_ptr<FrameChannel> channel_;  // none before the agent has connected, where it does
    std::string own_address_, caller_address_;  // of that connection, as the agent would see it
    int errors_ = -1;                           // ssh's standard error
    std::string error_text_;                    // before the agent spoke, or the begin of a line
    EventPtr errors_readable_, beat_timer_, late_timer_, again_timer_;
    ControlServer* control_ = nullptr;
    std::map<uint32_t, uint64_t> connections_;  // the agent's numbers to the server's
    std::map<int, std::function<void(const std::string&)>> stacks_;
    std::map<uint32_t, std::function<void(bool)>> questions_;
    uint32_t questions_asked_ = 0;
    double silence_ = 32;
    double heard_ = 0;  // when, by the steady clock, in seconds
    bool told_of_silence_ = false;
    std::unique_ptr<HostProbe> probe_;  // none: the silence alone counts
};

}  // namespace pomona
