// btl/tcp/shared.h: what the TCP transports of one process have in common.
// Idea: each of them makes one path to each peer (transport.h), but all of them are reached at the
// same addresses: one listening socket for each chosen address of an interface, and none for
// anything else. Who connects says which path it is, and gets to the transport of that number. No
// two paths to a peer should go by one pair of interfaces, so each may ask what the others use.
#pragma once

#include "btl/base/params.h"
#include "btl/link/handshake.h"
#include "btl/tcp/connection.h"
#include "btl/tcp/pairs.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace pomona::tcp {

// A transport, for the others.
class Sibling {
public:
    virtual ~Sibling() = default;
    // A rank of this job has connected, and has proved it. Left: the connection is closed.
    virtual void admit(std::unique_ptr<Connection>& connection, link::Handshake& handshake) = 0;
    // By what its path to this peer goes; none: there is no path now.
    virtual std::optional<Ends> used(int peer) const = 0;
};

class Shared {
public:
    // Listens at the chosen addresses; `loopback_only`: at 127.0.0.1, unless the user names others.
    static Result<std::shared_ptr<Shared>> open(const Params& params, bool loopback_only);

    const std::vector<Place>& places() const { return places_; }
    bool loopback_only() const;
    // How many paths to a peer there should be.
    int paths() const { return paths_; }
    // The user wants so many, whatever interfaces there are.
    bool several_alike() const { return several_alike_; }
    // The listening sockets, for the first who asks.
    std::vector<Socket> take_listeners() { return std::move(listeners_); }
    // Connections by this interface that are made from now on, from here or from elsewhere, have
    // shorter packets. So many bytes then; 0: they are as short as they get.
    int shorten_packets(const std::string& interface);
    // 0: as many as the interface takes.
    int packet_bytes(const std::string& interface) const;
    // The interface that has this address; null if none of the chosen ones has.
    const Place* place_of(const Ip& ip) const;

    // Made when it is needed first; null: no thread is to be had.
    AwayWriter* away_writer() {
        if (!away_writer_ && !no_writer_)
            no_writer_ = (away_writer_ = AwayWriter::start()) == nullptr;
        return away_writer_.get();
    }

    void join(size_t path, Sibling* transport);
    void leave(const Sibling* transport);
    void admit(size_t path, std::unique_ptr<Connection>& connection, link::Handshake& handshake);
    // Does this end want that this connection is encrypted? By its interface; if that is none of
    // the chosen ones, yes.
    bool encrypts(const Socket& socket) const;
    // What goes by interfaces of this kind.
    bool encrypts(InterfaceKind kind) const {
        return std::find(encrypted_.begin(), encrypted_.end(), kind) != encrypted_.end();
    }
    // Does another path to this peer go by one of the two interfaces?
    bool used_by_others(const Sibling* own, int peer, const Ends& pair) const;
    bool any_up(int peer) const;
    uint32_t next_decision() { return ++decisions_; }

private:
    Status listen(const std::vector<Interface>& chosen, const std::vector<Interface>& all,
                  uint64_t buffer_size);
    std::vector<Place> places_;
    std::vector<Socket> listeners_;
    std::vector<int> listening_;  // at each of places_, as long as there are transports
    std::map<std::string, int> packet_bytes_;  // by interface
    std::vector<Sibling*> transports_;
    int paths_ = 1;
    bool several_alike_ = false;
    std::vector<InterfaceKind> encrypted_;
    std::unique_ptr<AwayWriter> away_writer_;
    bool no_writer_ = false;
    uint32_t decisions_ = 0;  // of this process, for all its connections
};

}  // namespace pomona::tcp
