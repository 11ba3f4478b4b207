// pmix/launch/pmix_admission.h: keeps others than our ranks away from OpenPMIx's own port.
// Idea: OpenPMIx listens on a loopback port of its own, believes the user number that a client
// claims, and (4.2) waits in its only thread for a client that says nothing. Ranks reach it through
// mpirun (pmix_server.h), which asks for a secret first; so nobody else need reach that port. A
// packet filter on the listening socket admits the source ports of mpirun's own connections, which
// nobody else can have while they are bound. Where there are no such filters (macOS) the port
// stays open, and a client has to know the job's namespace, which holds the secret.
#pragma once

#include <cstdint>
#include <set>

namespace pomona {

class PmixAdmission {
public:
    // Closes the socket of this process that listens on the loopback port; false if there is none
    // or the system has no filters.
    bool close_port(int port);
    // The connection from this port, before it is made; until it is forgotten.
    void admit(int source_port);
    void forget(int source_port);

private:
    void apply();
    int listener_ = -1;
    std::set<uint16_t> admitted_;
};

}  // namespace pomona
