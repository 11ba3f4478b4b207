// pmix/launch/dial_back.h: agents that connect to mpirun, where what starts them carries no answer
// back.
// Idea: mpirun listens, and gives each agent by its standard input one line, the invitation:
// mpirun's addresses and a secret made for this job. The agent tries all addresses, and both ends
// prove the secret (btl/link/handshake.h, mpirun as rank 0, agents from 1); then the connection is
// encrypted and carries the frames that ssh would (agent_words.h). Encryption is no choice here,
// for the job's key is in them.
#pragma once

#include "btl/link/handshake.h"
#include "btl/tcp/interfaces.h"
#include "btl/tcp/socket.h"
#include "pmix/launch/forward.h"
#include "pmix/launch/listener.h"

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pomona {

struct Invitation {
    struct Place {
        std::string address;  // numeric
        uint16_t port = 0;
        bool operator==(const Place&) const = default;
    };
    link::JobKey key{};
    int number = 0;       // of the agent's host, from 1
    double seconds = 30;  // to try for
    std::vector<Place> places;
};
// One line with its end; and the reverse, of a line without.
std::string invitation_line(const Invitation& invitation);
std::optional<Invitation> parse_invitation(std::string_view line);

// mpirun's side.
class DialBack {
public:
    explicit DialBack(event_base* base) : base_(base) {}
    ~DialBack();
    DialBack(const DialBack&) = delete;
    DialBack& operator=(const DialBack&) = delete;

    // Listens on the interfaces that `filter` takes, for so many hosts; a mistake as text, or "".
    std::string open(int hosts, double seconds, const tcp::InterfaceFilter& filter);
    // Nobody is let in any more.
    void close();

    std::string invitation(int number) const;
    double seconds() const { return offer_.seconds; }
    // For the user, when one does not come: "10.0.7.1 port 40123, ...", and who came in its place.
    std::string places() const;
    std::string strangers() const;

    // Is the agent of this host waited for? Asked before `admit` gets its connection.
    std::function<bool(int number)> awaits;
    std::function<void(int number, tcp::Socket socket)> admit;

private:
    struct Caller {
        DialBack* owner;
        tcp::Socket socket;
        link::Handshake handshake;
        double deadline;
        EventPtr readable;
    };
    void take(int descriptor);
    void watch(Caller& caller);
    bool hear(Caller& caller);
    bool let_in(Caller& caller);
    bool refuse(const char* why);
    void send_away(Caller& caller);

    event_base* base_;
    Invitation offer_;
    link::Identity identity_;
    std::list<Listener> listeners_;
    std::list<Caller> callers_;  // the oldest first
    int refused_ = 0;
    const char* last_refusal_ = "";
};

// The agent's side: reads the invitation from a descriptor, and nothing behind it.
Result<Invitation> read_invitation(int descriptor);
// Tries all places, again and again, until mpirun lets it in or the time is over: the error says
// then what each place answered.
struct Dialled {
    std::optional<tcp::Socket> socket;
    std::string why;
};
Dialled dial_mpirun(const Invitation& invitation);

}  // namespace pomona
