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
#include <unistd.h>

namespace pomona {

namespace {

constexpr int kPatienceMs = 5000;  // mpirun answers within two seconds

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
        auto connection = connect_to_control(directory);
        if (!connection.ok()) continue;  // a job that was killed has left its directory
        int descriptor = *connection;
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
