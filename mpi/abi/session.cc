// mpi/abi/session.cc: sessions (MPI 5.0, section 11.3): processes sets, groups and communicators
// made without MPI_COMM_WORLD. Two sets exist: mpi://WORLD and mpi://SELF.
#include "mpi/abi/buffer.h"
#include "mpi/abi/comm_internal.h"
#include "mpi/abi/define.h"
#include "mpi/abi/init_internal.h"
#include "mpi/abi/session.h"
#include "mpi/object/hints.h"
#include "pmix/wireup/control_client.h"

#include <cstring>
#include <strings.h>

using namespace pomona;

namespace pomona {
Session* resolve(MPI_Session handle) {
    return static_cast<Session*>(resolve_any(handle, Kind::session));
}

int session_fail(const char* function, Session* session, int code, const std::string& sentence) {
    auto handle = handle_of<MPI_Session>(session);
    return fail_with(function, session->errhandler.get(), &handle, code, sentence);
}
}  // namespace pomona

namespace {

const char* const kSets[] = {"mpi://WORLD", "mpi://SELF"};

#define SESSION_ARGUMENT(name)                                                                     \
    REQUIRE_RUNNING();                                                                             \
    Session* name = resolve(session);                                                              \
    REQUIRE(name, nullptr, MPI_ERR_SESSION, "session is not a valid session")

}  // namespace

void pomona::tell_of_sessions() {
    Process& here = process();
    bool world = here.world_model.load() == Process::State::running;
    std::lock_guard guard(here.object_mutex);
    if (here.wireup) tell_sessions(*here.wireup, here.users - world, world);
}

POMONA_MPI(int, Session_init, (MPI_Info info, MPI_Errhandler errhandler, MPI_Session* session)) {
    REQUIRE(session, nullptr, MPI_ERR_ARG, "session is a null pointer");
    Info* hints = resolve(info);
    REQUIRE(hints || info == MPI_INFO_NULL, nullptr, MPI_ERR_INFO, "info is not valid");
    Errhandler* handler = resolve(errhandler);
    REQUIRE(handler, nullptr, MPI_ERR_ERRHANDLER, "errhandler is not valid");
    int level = MPI_THREAD_SINGLE;
    if (const std::string* wanted = hints ? hints->get("thread_level") : nullptr) {
        if (*wanted == "MPI_THREAD_MULTIPLE") level = MPI_THREAD_MULTIPLE;
        if (*wanted == "MPI_THREAD_SERIALIZED") level = MPI_THREAD_SERIALIZED;
        if (*wanted == "MPI_THREAD_FUNNELED") level = MPI_THREAD_FUNNELED;
    }
    Status started = acquire_library(level);
    if (!started.ok()) {
        MPI_Session none = MPI_SESSION_NULL;
        const Error& error = started.error();
        return fail_with(__func__, handler, &none, error_class_of(error.code), error.text());
    }
    auto* made = new Session;
    made->errhandler = Ref<Errhandler>::share(handler);
    *session = hand_out<MPI_Session>(made);
    tell_of_sessions();
    return MPI_SUCCESS;
}

POMONA_MPI(int, Session_finalize, (MPI_Session* session_handle)) {
    REQUIRE(session_handle, nullptr, MPI_ERR_ARG, "session is a null pointer");
    MPI_Session session = *session_handle;
    SESSION_ARGUMENT(owner);
    *session_handle = MPI_SESSION_NULL;
    detach_buffer(owner->bsend);
    take_back(owner);
    owner->release();
    Status finished = release_library();
    if (process().users > 0) tell_of_sessions();
    return finished.ok() ? MPI_SUCCESS : fail(__func__, nullptr, finished.error());
}

POMONA_MPI(int, Session_get_info, (MPI_Session session, MPI_Info* info_used)) {
    SESSION_ARGUMENT(owner);
    REQUIRE(info_used, nullptr, MPI_ERR_ARG, "info_used is a null pointer");
    auto* made = new Info;
    const char* level = "MPI_THREAD_SINGLE";
    switch (process().thread_level) {
    case MPI_THREAD_FUNNELED: level = "MPI_THREAD_FUNNELED"; break;
    case MPI_THREAD_SERIALIZED: level = "MPI_THREAD_SERIALIZED"; break;
    case MPI_THREAD_MULTIPLE: level = "MPI_THREAD_MULTIPLE"; break;
    default: break;
    }
    made->set("thread_level", level);
    tell_memory_kinds(*made);
    *info_used = hand_out<MPI_Info>(made);
    return MPI_SUCCESS;
}

POMONA_MPI(int, Session_get_num_psets, (MPI_Session session, MPI_Info, int* npset_names)) {
    SESSION_ARGUMENT(owner);
    REQUIRE(npset_names, nullptr, MPI_ERR_ARG, "npset_names is a null pointer");
    *npset_names = static_cast<int>(std::size(kSets));
    return MPI_SUCCESS;
}

POMONA_MPI(int, Session_get_nth_pset, (MPI_Session session, MPI_Info, int n, int* pset_len,
                                       char* pset_name)) {
    SESSION_ARGUMENT(owner);
    if (n < 0 || n >= static_cast<int>(std::size(kSets)))
        return session_fail(__func__, owner, MPI_ERR_ARG, format("n is {}; there are 2 sets", n));
    REQUIRE(pset_len, nullptr, MPI_ERR_ARG, "pset_len is a null pointer");
    auto need = static_cast<int>(std::strlen(kSets[n])) + 1;
    if (*pset_len > 0 && pset_name) {
        size_t length = static_cast<size_t>(std::min(*pset_len, need)) - 1;
        std::memcpy(pset_name, kSets[n], length);
        pset_name[length] = '\0';
    }
    *pset_len = need;
    return MPI_SUCCESS;
}

// The number of the set `name`, or -1.
static int find_set(const char* name) {
    for (int i = 0; name && i < static_cast<int>(std::size(kSets)); ++i)
        if (strcasecmp(name, kSets[i]) == 0) return i;  // URIs: RFC 3986, section 6.2.2.1
    return -1;
}

POMONA_MPI(int, Session_get_pset_info, (MPI_Session session, const char* pset_name, MPI_Info* info)) {
    SESSION_ARGUMENT(owner);
    int set = find_set(pset_name);
    if (set < 0 || !info)
        return session_fail(__func__, owner, MPI_ERR_ARG,
                            "pset_name is no process set of this session");
    auto* made = new Info;
    made->set("mpi_size", std::to_string(set == 0 ? process().job().world_size() : 1));
    *info = hand_out<MPI_Info>(made);
    return MPI_SUCCESS;
}

POMONA_MPI(int, Group_from_session_pset, (MPI_Session session, const char* pset_name,
                                          MPI_Group* newgroup)) {
    SESSION_ARGUMENT(owner);
    int set = find_set(pset_name);
    if (set < 0 || !newgroup)
        return session_fail(__func__, owner, MPI_ERR_ARG,
                            "pset_name is no process set of this session");
    Communicator* all = set == 0 ? process().world() : process().self();
    auto* made = new Group(all->group->members(), process().job().rank);
    made->session = Ref<Object>::share(owner);
    *newgroup = hand_out<MPI_Group>(made);
    return MPI_SUCCESS;
}

POMONA_MPI(int, Comm_create_from_group, (MPI_Group group, const char* stringtag, MPI_Info info,
                                         MPI_Errhandler errhandler, MPI_Comm* newcomm)) {
    REQUIRE_RUNNING();
    Group* members = resolve(group);
    REQUIRE_NEW(members, errhandler, MPI_ERR_GROUP, "group is not a valid group");
    REQUIRE_NEW(stringtag && newcomm, errhandler, MPI_ERR_ARG,
                "stringtag or newcomm is a null pointer");
    REQUIRE_NEW(resolve(info) || info == MPI_INFO_NULL, errhandler, MPI_ERR_INFO,
                "info is not valid");
    *newcomm = MPI_COMM_NULL;
    if (members->size() == 0) return MPI_SUCCESS;
    REQUIRE_NEW(members->rank() >= 0, errhandler, MPI_ERR_GROUP, "the caller is not in group");
    Process& here = process();
    uint64_t name = hash_members(hash_text(5, stringtag), members->members());
    uint64_t context = child_context(name, here.next_use(name));
    Engine::Hold hold(here.engine);
    auto* made = new Communicator(here, context, Ref<Group>::share(members), {});
    made->errhandler = Ref<Errhandler>::share(resolve(errhandler));
    made->session = members->session;
    if (const Info* hints = resolve(info)) take_hints(kCommHints, *hints, made->info);
    *newcomm = hand_out<MPI_Comm>(made);
    return MPI_SUCCESS;
}
