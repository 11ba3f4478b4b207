// pmix/launch/queues.cc: see queues.h.
// Idea: each job has a socket in a directory that only its user may enter (job_directory.h), so
// nobody else asks, and it need not be known which job a process belongs to.
#include "pmix/launch/queues.h"

#include "btl/base/bytes.h"
#include "btl/base/format.h"
#include "pmix/control.h"
#include "pmix/job_directory.h"

#include <cerrno>
#include <string_view>
#include <utility>
#include <vector>

#include <dirent.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace pomona {

namespace {

constexpr int kPatienceMs = 5000;  // mpirun answers within two seconds

// A job that ends just then must not end this process.
#if defined(MSG_NOSIGNAL)
constexpr int kNoSignal = MSG_NOSIGNAL;
#else
constexpr int kNoSignal = 0;  // SO_NOSIGPIPE is set instead
#endif

std::vector<std::string> job_directories() {
    std::vector<std::string> out;
    std::string folder = temporary_directory();
    std::string begins = format("pomona-{}-", getuid());
    DIR* directory = opendir(folder.c_str());
    if (!directory) return out;
    while (const dirent* entry = readdir(directory))
        if (std::string_view(entry->d_name).starts_with(begins))
            out.push_back(folder + "/" + entry->d_name);
    closedir(directory);
    return out;
}

int connect_to(const std::string& directory) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::string path = control_socket_path(directory);
    if (path.size() >= sizeof address.sun_path) return -1;
    path.copy(address.sun_path, path.size());
    int descriptor = socket(AF_UNIX, SOCK_STREAM, 0);
    if (descriptor < 0) return -1;
#if defined(SO_NOSIGPIPE)
    int on = 1;
    setsockopt(descriptor, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
    if (connect(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0)
        return descriptor;
    close(descriptor);  // a job that was killed has left it
    return -1;
}

Result<std::string> answer_from(int descriptor) {
    ControlParser parser;
    for (;;) {
        if (auto frame = parser.next()) {
            Reader reader(frame->payload);
            std::string text = reader.get_text(kControlFrameMax);
            if (frame->type != ControlType::queues || reader.failed())
                return Error{Code::malformed, "The answer of mpirun does not parse"};
            return text;
        }
        pollfd entry{descriptor, POLLIN, 0};
        int ready = poll(&entry, 1, kPatienceMs);
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) return Error{Code::timed_out, "mpirun does not answer"};
        std::byte buffer[16384];
        ssize_t count = recv(descriptor, buffer, sizeof buffer, 0);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return Error{Code::peer_gone, "mpirun has ended"};
        parser.feed({buffer, static_cast<size_t>(count)});
        if (parser.malformed())
            return Error{Code::malformed, "The answer of mpirun does not parse"};
    }
}

}  // namespace

Result<std::string> ask_for_queues(int process) {
    Writer writer;
    writer.put(static_cast<int32_t>(process));
    std::vector<std::byte> question = control_frame(ControlType::queues, writer);
    Result<std::string> out = std::string("[]");
    // One that does not answer may be of an older version, or stopped; another may know the
    // process.
    for (const std::string& directory : job_directories()) {
        int descriptor = connect_to(directory);
        if (descriptor < 0) continue;
        bool sent = send(descriptor, question.data(), question.size(), kNoSignal) ==
                    static_cast<ssize_t>(question.size());
        auto answer = sent ? answer_from(descriptor)
                           : Result<std::string>(os_error(Code::io, "mpirun cannot be asked"));
        close(descriptor);
        if (answer.ok() && *answer != "[]") return answer;
        if (!answer.ok() && answer.error().code == Code::timed_out) out = std::move(answer);
    }
    return out;
}

}  // namespace pomona
