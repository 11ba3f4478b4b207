// tests/fuzz/launch_control.cc: libFuzzer over what ranks send to the launcher's socket: frames of
// any type and contents, in pieces, on several connections that come and go. The launcher must
// neither crash nor mix up who is which rank. Input: (what to do, length, bytes)...
#include "pmix/control.h"
#include "pmix/launch/control_server.h"

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

using namespace pomona;

namespace {

constexpr int kRanks = 3;

void must(bool holds) {
    if (!holds) std::abort();
}

struct Place {
    std::string directory;
    event_base* base = event_base_new();
    Place() {
        std::signal(SIGPIPE, SIG_IGN);
        char pattern[] = "/tmp/pomona-fuzz-XXXXXX";
        directory = mkdtemp(pattern);
    }
    ~Place() {
        event_base_free(base);
        rmdir(directory.c_str());
    }
};

int connect_to(const std::string& directory) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    control_socket_path(directory).copy(address.sun_path, sizeof address.sun_path - 1);
    int descriptor = socket(AF_UNIX, SOCK_STREAM, 0);
    must(descriptor >= 0 && fcntl(descriptor, F_SETFL, O_NONBLOCK) == 0);
    must(connect(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    return descriptor;
}

void send_all(int descriptor, ConstBytes bytes) {
    // A connection that was dropped refuses; a full one keeps the rest to itself.
    if (write(descriptor, bytes.data(), bytes.size()) < 0) return;
}

// A frame whose length is right, around bytes of the input.
std::vector<std::byte> framed(ConstBytes bytes) {
    Writer payload;
    payload.put_bytes(bytes.subspan(std::min<size_t>(1, bytes.size())));
    auto type = bytes.empty() ? ControlType::fence : static_cast<ControlType>(bytes[0]);
    return control_frame(type, payload);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static Place place;
    int clients[4] = {-1, -1, -1, -1};
    {
        ControlServer server(place.base, kRanks);
        must(server.listen(place.directory).ok());
        int aborts = 0;
        server.on_abort = [&](int rank, int, const std::string&) {
            must(rank >= 0 && rank < kRanks);
            ++aborts;
        };
        for (int step = 0; size >= 2 && step < 40; ++step) {
            int& client = clients[data[0] % 4];
            unsigned what = data[0] / 4 % 8;
            size_t length = std::min<size_t>(data[1], size - 2);
            ConstBytes bytes{reinterpret_cast<const std::byte*>(data) + 2, length};
            data += 2 + length, size -= 2 + length;
            if (client < 0) client = connect_to(place.directory);
            if (what == 0) {
                close(client);
                client = -1;
            } else if (what == 1) {
                send_all(client, bytes);
            } else if (what == 2) {
                server.tell_gone(static_cast<int>(length % kRanks), "was killed");
            } else if (what == 3) {
                server.settle(static_cast<int>(length % kRanks));
            } else {
                send_all(client, framed(bytes));
            }
            event_base_loop(place.base, EVLOOP_NONBLOCK);
            for (int rank = 0; rank < kRanks; ++rank)
                must(server.phase(rank) != ControlServer::Phase::outside ||
                     !server.waits_in_fence(rank));
        }
    }
    for (int client : clients)
        if (client >= 0) close(client);
    return 0;
}
