// mpi/abi/handles.cc: handles as integers for Fortran and other languages (MPI 5.0, section 20).
// Idea: a predefined handle's integer is its value; any other gets a number from 0x400 on, made
// when asked for and kept by address, so that objects which reuse memory reuse numbers.
#include "mpi/abi/define.h"
#include "mpi/abi/guard.h"
#include "mpi/runtime/extensions.h"

#include <unordered_map>
#include <vector>

using namespace pomona;

namespace {

struct HandleNumbers final : Process::Extension {
    static constexpr Slot slot = Slot::handle_numbers;
    std::mutex mutex;
    std::unordered_map<const void*, int> numbers;
    std::vector<const void*> handles;  // by number - kBuiltinHandles
};

int to_number(const void* handle) {
    auto bits = reinterpret_cast<uintptr_t>(handle);
    if (bits < kBuiltinHandles) return static_cast<int>(bits);
    HandleNumbers& table = extension<HandleNumbers>(process());
    std::lock_guard guard(table.mutex);
    int next = static_cast<int>(kBuiltinHandles + table.handles.size());
    auto [place, added] = table.numbers.try_emplace(handle, next);
    if (added) table.handles.push_back(handle);
    return place->second;
}

// A handle that no object ever has: of requests and messages in the place of null, which would be
// taken for a right one that is complete.
constexpr uintptr_t kNeverValid = kBuiltinHandles - 1;

// `null` for numbers that no handle has.
template <class Handle> Handle from_number(int number, Handle null) {
    if (number < 0) return null;
    auto bits = static_cast<size_t>(number);
    if (bits < kBuiltinHandles) return reinterpret_cast<Handle>(bits);
    HandleNumbers& table = extension<HandleNumbers>(process());
    std::lock_guard guard(table.mutex);
    if (bits - kBuiltinHandles >= table.handles.size()) return null;
    return static_cast<Handle>(const_cast<void*>(table.handles[bits - kBuiltinHandles]));
}

}  // namespace

POMONA_MPI(int, Comm_toint, (MPI_Comm comm)) { return to_number(comm); }
POMONA_MPI(MPI_Comm, Comm_fromint, (int comm)) { return from_number(comm, MPI_COMM_NULL); }
POMONA_MPI(int, Errhandler_toint, (MPI_Errhandler errhandler)) { return to_number(errhandler); }
POMONA_MPI(MPI_Errhandler, Errhandler_fromint, (int errhandler)) {
    return from_number(errhandler, MPI_ERRHANDLER_NULL);
}
POMONA_MPI(int, File_toint, (MPI_File file)) { return to_number(file); }
POMONA_MPI(MPI_File, File_fromint, (int file)) { return from_number(file, MPI_FILE_NULL); }
POMONA_MPI(int, Group_toint, (MPI_Group group)) { return to_number(group); }
POMONA_MPI(MPI_Group, Group_fromint, (int group)) { return from_number(group, MPI_GROUP_NULL); }
POMONA_MPI(int, Info_toint, (MPI_Info info)) { return to_number(info); }
POMONA_MPI(MPI_Info, Info_fromint, (int info)) { return from_number(info, MPI_INFO_NULL); }
POMONA_MPI(int, Message_toint, (MPI_Message message)) { return to_number(message); }
POMONA_MPI(MPI_Message, Message_fromint, (int message)) {
    return from_number(message, reinterpret_cast<MPI_Message>(kNeverValid));
}
POMONA_MPI(int, Op_toint, (MPI_Op op)) { return to_number(op); }
POMONA_MPI(MPI_Op, Op_fromint, (int op)) { return from_number(op, MPI_OP_NULL); }
POMONA_MPI(int, Request_toint, (MPI_Request request)) { return to_number(request); }
POMONA_MPI(MPI_Request, Request_fromint, (int request)) {
    return from_number(request, reinterpret_cast<MPI_Request>(kNeverValid));
}
POMONA_MPI(int, Session_toint, (MPI_Session session)) { return to_number(session); }
POMONA_MPI(MPI_Session, Session_fromint, (int session)) {
    return from_number(session, MPI_SESSION_NULL);
}
POMONA_MPI(int, Type_toint, (MPI_Datatype datatype)) { return to_number(datatype); }
POMONA_MPI(MPI_Datatype, Type_fromint, (int datatype)) {
    return from_number(datatype, MPI_DATATYPE_NULL);
}
POMONA_MPI(int, Win_toint, (MPI_Win win)) { return to_number(win); }
POMONA_MPI(MPI_Win, Win_fromint, (int win)) { return from_number(win, MPI_WIN_NULL); }
