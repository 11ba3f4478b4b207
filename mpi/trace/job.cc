// mpi/trace/job.cc: the begin and the end of a trace: MPI_Init and MPI_Finalize.
// Idea: at both ends the clocks of the hosts are compared. At the end rank 0 gets the files of
// other hosts' ranks by messages, and makes the one trace of all (merge.h). A job that ends without
// MPI_Finalize leaves its files, of which `pomona trace` makes what there is.
#include "btl/base/messages.h"
#include "functions.h"
#include "mpi/trace/clocks.h"
#include "mpi/trace/completion.h"
#include "mpi/trace/merge.h"
#include "mpi/trace/objects.h"
#include "mpi/trace/pmpi.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace pomona::trace {

namespace {

constexpr int kRounds = 50, kPiece = 1 << 20;

struct Job {
    std::string file, folder;
    int rank = 0, size = 0;
    MPI_Comm world = MPI_COMM_NULL;    // a duplicate: what we send nobody else receives
    MPI_Comm host = MPI_COMM_NULL;     // of this host's ranks
    MPI_Comm leaders = MPI_COMM_NULL;  // of the first ranks of all hosts
    bool far = false;                  // on another host than rank 0
};
Job job;

// Ranks of the same host have the same clock.
void make_groups() {
    POMONA_PMPI(Comm_dup)(MPI_COMM_WORLD, &job.world);
    POMONA_PMPI(Comm_set_errhandler)(job.world, MPI_ERRORS_RETURN);
    POMONA_PMPI(Comm_split_type)
    (job.world, MPI_COMM_TYPE_SHARED, job.rank, MPI_INFO_NULL, &job.host);
    int place = 0, first = job.rank;
    POMONA_PMPI(Comm_rank)(job.host, &place);
    POMONA_PMPI(Bcast)(&first, 1, MPI_INT, 0, job.host);
    job.far = first != 0;
    POMONA_PMPI(Comm_split)(job.world, place == 0 ? 0 : MPI_UNDEFINED, job.rank, &job.leaders);
}

// The leader of the first host asks each other one in turn.
ClockPoint compare_clocks() {
    ClockPoint best{now(), 0, 0};
    if (job.leaders != MPI_COMM_NULL) {
        int hosts = 0, place = 0;
        POMONA_PMPI(Comm_size)(job.leaders, &hosts);
        POMONA_PMPI(Comm_rank)(job.leaders, &place);
        for (int host = 1; host < hosts; ++host) {
            if (place != 0 && place != host) continue;
            ClockPoint found{0, 0, 0};
            for (int i = 0; i < kRounds; ++i) {
                int64_t time = now();
                if (place == 0) {
                    Round round{time, 0, 0};
                    POMONA_PMPI(Send)(&time, 1, MPI_INT64_T, host, 1, job.leaders);
                    POMONA_PMPI(Recv)
                    (&round.there, 1, MPI_INT64_T, host, 2, job.leaders, MPI_STATUS_IGNORE);
                    round.answered = now();
                    improve(found, round);
                } else {
                    POMONA_PMPI(Recv)
                    (&time, 1, MPI_INT64_T, 0, 1, job.leaders, MPI_STATUS_IGNORE);
                    time = now();
                    POMONA_PMPI(Send)(&time, 1, MPI_INT64_T, 0, 2, job.leaders);
                }
            }
            int64_t words[] = {found.at, found.offset, found.error};
            if (place == 0) POMONA_PMPI(Send)(words, 3, MPI_INT64_T, host, 3, job.leaders);
            else {
                POMONA_PMPI(Recv)
                (words, 3, MPI_INT64_T, 0, 3, job.leaders, MPI_STATUS_IGNORE);
                best = {words[0], words[1], words[2]};
            }
        }
    }
    int64_t words[] = {best.at, best.offset, best.error};
    POMONA_PMPI(Bcast)(words, 3, MPI_INT64_T, 0, job.host);
    return {words[0], words[1], words[2]};
}

// Of a spawned world the trace stands beside that of its parents.
std::string file_of_world(const std::string& given) {
    MPI_Comm parent = MPI_COMM_NULL;
    POMONA_PMPI(Comm_get_parent)(&parent);
    if (parent == MPI_COMM_NULL) return given;
    const char* number = std::getenv("POMONA_JOB_FIRST");
    size_t dot = given.rfind('.');
    std::string more = std::string(".world-") + (number ? number : "spawned");
    if (dot == given.npos || given.find('/', dot) != given.npos) return given + more;
    return given.substr(0, dot) + more + given.substr(dot);
}

// On a host that does not have the trace's folder, one for passing files.
std::string folder_here() {
    std::string folder = parts_folder(job.file);
    size_t slash = folder.rfind('/');
    std::string parent = slash == folder.npos ? "." : folder.substr(0, slash + 1);
    if (!job.far || access(parent.c_str(), W_OK) == 0) return folder;
    const char* passing = std::getenv("TMPDIR");
    return std::string(passing && *passing ? passing : "/tmp") + "/" +
           (slash == folder.npos ? folder : folder.substr(slash + 1));
}

void free_groups() {
    for (MPI_Comm* comm : {&job.leaders, &job.host, &job.world})
        if (*comm != MPI_COMM_NULL) POMONA_PMPI(Comm_free)(comm);
}

void begin(int64_t started, Function function) {
    const char* given = std::getenv("POMONA_TRACE");
    if (!given || !*given) return;
    if (!has_standard_abi()) {
        std::fprintf(stderr,
                     "pomona trace: nothing is recorded: this program uses an MPI library that "
                     "does not have the standard ABI\n");
        return;
    }
    POMONA_PMPI(Comm_rank)(MPI_COMM_WORLD, &job.rank);
    POMONA_PMPI(Comm_size)(MPI_COMM_WORLD, &job.size);
    make_groups();
    job.file = file_of_world(given);
    job.folder = folder_here();
    std::string mistake = open_part(job.folder, job.rank, job.size, job.far);
    if (!mistake.empty())
        std::fprintf(stderr, "pomona trace: rank %d records nothing: %s; %s\n", job.rank,
                     mistake.c_str(), messages::trace_folder);
    int ready = mistake.empty(), all = 0;
    POMONA_PMPI(Allreduce)(&ready, &all, 1, MPI_INT, MPI_MIN, job.world);
    int64_t stamp = now() ^ static_cast<int64_t>(getpid()) << 40;
    POMONA_PMPI(Bcast)(&stamp, 1, MPI_INT64_T, 0, job.world);
    ClockPoint point = compare_clocks();
    free_groups();
    if (!all) return close_part();
    PartHeader& header = part_header();
    header.stamp = static_cast<uint64_t>(stamp);
    header.clock[0] = point;
    header.points = 1;
    gethostname(header.host, sizeof header.host - 1);
    add_comm(MPI_COMM_WORLD);
    add_comm(MPI_COMM_SELF);
    rename_comm(MPI_COMM_WORLD, "MPI_COMM_WORLD");
    rename_comm(MPI_COMM_SELF, "MPI_COMM_SELF");
    MPI_Comm parent = MPI_COMM_NULL;
    POMONA_PMPI(Comm_get_parent)(&parent);
    add_comm(parent);
    Call init(function, Kind::call);
    init.record().begin = started;
    init.end();
    recording.store(true, std::memory_order_release);  // pairs with is_recording()
}

// Rank 0 writes the other's file down beside its own.
bool receive_part(int from) {
    std::string path = part_path(job.folder, from);
    int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    bool good = descriptor >= 0;
    std::vector<char> piece(kPiece);
    for (int length = kPiece; length == kPiece;) {
        MPI_Status status;
        POMONA_PMPI(Recv)(piece.data(), kPiece, MPI_BYTE, from, 4, job.world, &status);
        POMONA_PMPI(Get_count)(&status, MPI_BYTE, &length);
        for (int at = 0; good && at < length;) {
            ssize_t count = write(descriptor, piece.data() + at, static_cast<size_t>(length - at));
            if (count < 0 && errno == EINTR) continue;
            good = count > 0;
            if (good) at += static_cast<int>(count);
        }
    }
    if (!good)
        std::fprintf(stderr, "pomona trace: the records of rank %d are lost: %s: %s\n", from,
                     path.c_str(), std::strerror(errno));
    if (descriptor >= 0) close(descriptor);
    return good;
}

void send_part() {
    std::string path = part_file();
    int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    std::vector<char> piece(kPiece);
    for (int length = kPiece; length == kPiece;) {
        length = 0;
        while (descriptor >= 0 && length < kPiece) {
            ssize_t count =
                read(descriptor, piece.data() + length, static_cast<size_t>(kPiece - length));
            if (count <= 0) break;
            length += static_cast<int>(count);
        }
        POMONA_PMPI(Send)(piece.data(), length, MPI_BYTE, 0, 4, job.world);
    }
    if (descriptor >= 0) close(descriptor);
    unlink(path.c_str());
    rmdir(job.folder.c_str());
}

void end() {
    if (!is_recording()) return;
    Call finalize(Function::Finalize, Kind::call);
    finalize.open();  // others may never come
    make_groups();
    part_header().clock[1] = compare_clocks();
    part_header().points = 2;
    finalize.end();
    close_part();
    std::vector<int> far(static_cast<size_t>(job.size));
    int own = job.far;
    POMONA_PMPI(Gather)(&own, 1, MPI_INT, far.data(), 1, MPI_INT, 0, job.world);
    if (job.far) send_part();
    for (int rank = 1; job.rank == 0 && rank < job.size; ++rank)
        if (far[static_cast<size_t>(rank)]) receive_part(rank);
    POMONA_PMPI(Barrier)(job.world);  // all files are complete
    free_groups();
    if (job.rank != 0) return;
    MergeResult result = merge(job.file);
    for (const std::string& line : result.remarks)
        std::fprintf(stderr, "pomona trace: %s\n", line.c_str());
}

}  // namespace
}  // namespace pomona::trace

using namespace pomona::trace;

POMONA_TRACED int MPI_Init(int* argc, char*** argv) {
    int64_t started = now();
    int error = POMONA_NEXT(Init)(argc, argv);
    if (error == MPI_SUCCESS) begin(started, Function::Init);
    return error;
}

POMONA_TRACED int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
    int64_t started = now();
    int error = POMONA_NEXT(Init_thread)(argc, argv, required, provided);
    if (error == MPI_SUCCESS) begin(started, Function::Init_thread);
    return error;
}

POMONA_TRACED int MPI_Finalize() {
    end();
    return POMONA_NEXT(Finalize)();
}

// By which MPI_Init sees that the library is there.
POMONA_TRACED int pomona_trace_version() { return 1; }
