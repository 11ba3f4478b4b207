// mpi/abi/spawn.cc: processes that start other processes (MPI 5.0, section 11.8).
// Idea: the root asks mpirun, which starts a new world in the same job; the new processes learn
// from their environment who their parent's root is, and both worlds become an intercommunicator by
// an ordinary exchange between the two roots (intercomm.cc) while the children are in MPI_Init.
#include "mpi/abi/comm_internal.h"
#include "mpi/abi/define.h"
#include "mpi/runtime/collectives.h"
#include "mpi/runtime/extensions.h"
#include "pmix/program.h"
#include "pmix/services.h"

#include <sstream>
#include <unistd.h>

using namespace pomona;

namespace {

struct Parent : Process::Extension {
    static constexpr Slot slot = Slot::parent;
    MPI_Comm comm = MPI_COMM_NULL;
};

// What the root has found out, for all.
struct Announcement {
    int error = MPI_SUCCESS;
    int first = 0;  // rank in the job of the first new process
    int count = 0;
    char reason[240] = "";

    void refuse(int code, const std::string& why) {
        error = code;
        reason[why.copy(reason, sizeof reason - 1)] = '\0';
    }
};

// The info key "path": folders, separated by colons, that are looked through first.
void search(const std::string& folders, Program& out) {
    if (out.command[0].find('/') != std::string::npos) return;
    std::istringstream list(folders);
    for (std::string folder; std::getline(list, folder, ':');) {
        std::string candidate = folder + "/" + out.command[0];
        if (access(candidate.c_str(), X_OK) != 0) continue;
        out.command[0] = candidate;
        return;
    }
}

// One program from a call's arguments; says what is wrong with it.
std::string read_program(const char* command, char** arguments, int maxprocs, MPI_Info info,
                         Program& out) {
    if (!command || !*command) return "command is empty";
    if (maxprocs <= 0) return format("maxprocs is {}; it must be positive", maxprocs);
    Info* hints = resolve(info);
    if (!hints && info != MPI_INFO_NULL) return "info is not a valid info object";
    out.count = maxprocs;
    out.command = {command};
    for (; arguments && *arguments; ++arguments) out.command.push_back(*arguments);
    if (const std::string* directory = hints ? hints->get("wdir") : nullptr)
        out.directory = *directory;
    if (const std::string* host = hints ? hints->get("host") : nullptr) out.host = *host;
    if (const std::string* name = hints ? hints->get("mpi_initial_errhandler") : nullptr) {
        if (!is_errhandler_name(*name))
            return format("mpi_initial_errhandler is \"{}\"; it must be {}", *name,
                          kErrhandlerNames);
        out.errhandler = *name;
    }
    if (const std::string* folders = hints ? hints->get("path") : nullptr) search(*folders, out);
    return {};
}

// At the root: asks mpirun for the processes.
void ask_for(Process& here, const std::vector<Program>& programs, Announcement& out) {
    for (const Program& program : programs) out.count += program.count;
    Status open = here.open_tcp();  // before the children look for us
    if (!open.ok()) return out.refuse(MPI_ERR_SPAWN, open.error().text());
    auto answer = here.wireup->request(Service::spawn, write_spawn(programs));
    if (!answer.ok()) return out.refuse(MPI_ERR_SPAWN, answer.error().text());
    Reader reader(*answer);
    out.first = reader.get<int32_t>();
    if (reader.failed()) out.refuse(MPI_ERR_SPAWN, "the answer of mpirun does not parse");
}

// Collective: tells all what the root found, and makes the intercommunicator.
int spawn(const char* function, Communicator& owner, int root, Announcement& told, int codes[],
          MPI_Comm* intercomm) {
    if (run_bcast(owner, &told, sizeof told, root) != MPI_SUCCESS)
        return fail(function, &owner, MPIX_ERR_PROC_FAILED, "a member of comm has ended");
    if (codes != MPI_ERRCODES_IGNORE) std::fill_n(codes, told.count, told.error);
    if (told.error) return fail(function, &owner, told.error, told.reason);
    return join_worlds(function, owner, root, told.first, static_cast<uint64_t>(told.first),
                       intercomm);
}

}  // namespace

namespace pomona {

int meet_parent(const char* function) {
    Process& here = process();
    if (here.job().parent < 0) return MPI_SUCCESS;
    MPI_Comm made = MPI_COMM_NULL;
    if (int error = join_worlds(function, *here.world(), 0, here.job().parent,
                                static_cast<uint64_t>(here.job().first), &made))
        return error;
    resolve(made)->name = "MPI_COMM_PARENT";
    resolve(made)->errhandler = here.initial_errhandler;
    extension<Parent>(here).comm = made;
    return MPI_SUCCESS;
}

void forget_parent(Communicator& comm) {
    if (comm.process.job().parent < 0) return;
    Parent& parent = extension<Parent>(comm.process);
    if (resolve(parent.comm) == &comm) parent.comm = MPI_COMM_NULL;
}

}  // namespace pomona

#define SPAWN_ARGUMENTS()                                                                          \
    COMM_ARGUMENT(owner, comm);                                                                    \
    REQUIRE(!owner->is_inter(), owner, MPI_ERR_COMM, "comm must be an intracommunicator");         \
    REQUIRE(root >= 0 && root < owner->size(), owner, MPI_ERR_ROOT,                                \
            "root is {}; comm has ranks 0 to {}", root, owner->size() - 1);                        \
    REQUIRE(intercomm, owner, MPI_ERR_ARG, "intercomm is a null pointer");                         \
    *intercomm = MPI_COMM_NULL;                                                                    \
    Announcement told

POMONA_MPI(int, Comm_spawn, (const char* command, char* argv[], int maxprocs, MPI_Info info, int root,
                             MPI_Comm comm, MPI_Comm* intercomm, int array_of_errcodes[])) {
    SPAWN_ARGUMENTS();
    if (owner->rank() == root) {
        std::vector<Program> programs(1);
        std::string wrong = read_program(command, argv, maxprocs, info, programs[0]);
        if (wrong.empty()) ask_for(owner->process, programs, told);
        else told.refuse(MPI_ERR_ARG, wrong);
    }
    return spawn(__func__, *owner, root, told, array_of_errcodes, intercomm);
}

POMONA_MPI(int, Comm_spawn_multiple,
           (int count, char* array_of_commands[], char** array_of_argv[],
            const int array_of_maxprocs[], const MPI_Info array_of_info[], int root, MPI_Comm comm,
            MPI_Comm* intercomm, int array_of_errcodes[])) {
    SPAWN_ARGUMENTS();
    if (owner->rank() == root) {
        std::vector<Program> programs(count > 0 ? static_cast<size_t>(count) : 0);
        bool whole = count > 0 && array_of_commands && array_of_maxprocs && array_of_info;
        std::string wrong = whole ? "" : "count is not positive, or an array is a null pointer";
        for (int i = 0; i < count && wrong.empty(); ++i)
            wrong = read_program(
                array_of_commands[i], array_of_argv == MPI_ARGVS_NULL ? nullptr : array_of_argv[i],
                array_of_maxprocs[i], array_of_info[i], programs[static_cast<size_t>(i)]);
        if (wrong.empty()) ask_for(owner->process, programs, told);
        else told.refuse(MPI_ERR_ARG, wrong);
    }
    return spawn(__func__, *owner, root, told, array_of_errcodes, intercomm);
}

POMONA_MPI(int, Comm_get_parent, (MPI_Comm* parent)) {
    REQUIRE_RUNNING();
    REQUIRE(parent, nullptr, MPI_ERR_ARG, "parent is a null pointer");
    *parent = extension<Parent>(process()).comm;
    return MPI_SUCCESS;
}
