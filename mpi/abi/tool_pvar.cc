// mpi/abi/tool_pvar.cc: performance variables of the tool interface (MPI 5.0, section 15.3.7), and
// events and sources, of which there are none.
// Idea: every variable is a counter that always runs (continuous). A handle remembers where the
// counter stood at its reset, so that tools do not disturb each other.
#include "mpi/abi/define.h"
#include "mpi/abi/tool.h"

#include <cstring>

using namespace pomona;

namespace {

uint64_t counter_value(int index) {
    return (process().counters.*counter_table()[index].field).load(std::memory_order_relaxed);
}

template <class T> void give(T* place, T value) {
    if (place) *place = value;
}

}  // namespace

POMONA_MPI(int, T_pvar_get_num, (int* num_pvar)) {
    TOOLS_LOCKED();
    if (!num_pvar) return MPI_T_ERR_INVALID;
    *num_pvar = pvar_count();
    return MPI_SUCCESS;
}

POMONA_MPI(int, T_pvar_get_info,
           (int pvar_index, char* name, int* name_len, int* verbosity, int* var_class,
            MPI_Datatype* datatype, MPI_T_enum* enumtype, char* desc, int* desc_len, int* bind,
            int* readonly, int* continuous, int* atomic)) {
    TOOLS_LOCKED();
    if (pvar_index < 0 || pvar_index >= pvar_count()) return MPI_T_ERR_INVALID_INDEX;
    const CounterInfo& counter = counter_table()[pvar_index];
    give_text(counter.name, name, name_len);
    give_text(counter.text, desc, desc_len);
    give(verbosity, MPI_T_VERBOSITY_TUNER_DETAIL);
    give(var_class, MPI_T_PVAR_CLASS_COUNTER);
    give(datatype, MPI_UNSIGNED_LONG_LONG);
    give(enumtype, MPI_T_ENUM_NULL);
    give(bind, MPI_T_BIND_NO_OBJECT);
    give(readonly, 0);
    give(continuous, 1);
    give(atomic, 1);
    return MPI_SUCCESS;
}

POMONA_MPI(int, T_pvar_get_index, (const char* name, int var_class, int* pvar_index)) {
    TOOLS_LOCKED();
    if (!name || !pvar_index) return MPI_T_ERR_INVALID;
    if (var_class != MPI_T_PVAR_CLASS_COUNTER) return MPI_T_ERR_INVALID_NAME;
    for (int i = 0; i < pvar_count(); ++i)
        if (std::strcmp(counter_table()[i].name, name) == 0) return *pvar_index = i, MPI_SUCCESS;
    return MPI_T_ERR_INVALID_NAME;
}

// ---- sessions and handles

POMONA_MPI(int, T_pvar_session_create, (MPI_T_pvar_session* session)) {
    TOOLS_LOCKED();
    if (!session) return MPI_T_ERR_INVALID;
    *session = *state.sessions.insert(new MPI_ABI_T_pvar_session).first;
    return MPI_SUCCESS;
}

POMONA_MPI(int, T_pvar_session_free, (MPI_T_pvar_session* session)) {
    TOOLS_LOCKED();
    if (!session || state.sessions.erase(*session) == 0) return MPI_T_ERR_INVALID_SESSION;
    for (MPI_T_pvar_handle handle : (*session)->handles) delete handle;
    delete *session;
    *session = MPI_T_PVAR_SESSION_NULL;
    return MPI_SUCCESS;
}

#define SESSION_ARGUMENT(session)                                                                  \
    if (!state.sessions.count(session)) return MPI_T_ERR_INVALID_SESSION
#define HANDLE_ARGUMENT(session, handle)                                                           \
    SESSION_ARGUMENT(session);                                                                     \
    if (!(session)->handles.count(handle)) return MPI_T_ERR_INVALID_HANDLE

POMONA_MPI(int, T_pvar_handle_alloc,
           (MPI_T_pvar_session session, int pvar_index, void*, MPI_T_pvar_handle* handle,
            int* count)) {
    TOOLS_LOCKED();
    SESSION_ARGUMENT(session);
    if (pvar_index < 0 || pvar_index >= pvar_count()) return MPI_T_ERR_INVALID_INDEX;
    if (!handle || !count) return MPI_T_ERR_INVALID;
    *handle = new MPI_ABI_T_pvar_handle{pvar_index, counter_value(pvar_index)};
    session->handles.insert(*handle);
    *count = 1;
    return MPI_SUCCESS;
}

POMONA_MPI(int, T_pvar_handle_free, (MPI_T_pvar_session session, MPI_T_pvar_handle* handle)) {
    TOOLS_LOCKED();
    SESSION_ARGUMENT(session);
    if (!handle || session->handles.erase(*handle) == 0) return MPI_T_ERR_INVALID_HANDLE;
    delete *handle;
    *handle = MPI_T_PVAR_HANDLE_NULL;
    return MPI_SUCCESS;
}

// ---- values

POMONA_MPI(int, T_pvar_read, (MPI_T_pvar_session session, MPI_T_pvar_handle handle, void* buf)) {
    TOOLS_LOCKED();
    HANDLE_ARGUMENT(session, handle);
    if (!buf) return MPI_T_ERR_INVALID;
    *static_cast<unsigned long long*>(buf) = counter_value(handle->index) - handle->start;
    return MPI_SUCCESS;
}

POMONA_MPI(int, T_pvar_readreset,
           (MPI_T_pvar_session session, MPI_T_pvar_handle handle, void* buf)) {
    TOOLS_LOCKED();
    HANDLE_ARGUMENT(session, handle);
    if (!buf) return MPI_T_ERR_INVALID;
    uint64_t value = counter_value(handle->index);
    *static_cast<unsigned long long*>(buf) = value - handle->start;
    handle->start = value;
    return MPI_SUCCESS;
}

POMONA_MPI(int, T_pvar_reset, (MPI_T_pvar_session session, MPI_T_pvar_handle handle)) {
    TOOLS_LOCKED();
    SESSION_ARGUMENT(session);
    if (handle == MPI_T_PVAR_ALL_HANDLES) {
        for (MPI_T_pvar_handle each : session->handles) each->start = counter_value(each->index);
        return MPI_SUCCESS;
    }
    HANDLE_ARGUMENT(session, handle);
    handle->start = counter_value(handle->index);
    return MPI_SUCCESS;
}

POMONA_MPI(int, T_pvar_write,
           (MPI_T_pvar_session session, MPI_T_pvar_handle handle, const void* buf)) {
    TOOLS_LOCKED();
    HANDLE_ARGUMENT(session, handle);
    if (!buf) return MPI_T_ERR_INVALID;
    handle->start = counter_value(handle->index) - *static_cast<const unsigned long long*>(buf);
    return MPI_SUCCESS;
}

// Continuous variables cannot be started or stopped; for all handles at once they are passed over.
POMONA_MPI(int, T_pvar_start, (MPI_T_pvar_session session, MPI_T_pvar_handle handle)) {
    TOOLS_LOCKED();
    SESSION_ARGUMENT(session);
    if (handle == MPI_T_PVAR_ALL_HANDLES) return MPI_SUCCESS;
    HANDLE_ARGUMENT(session, handle);
    return MPI_T_ERR_PVAR_NO_STARTSTOP;
}

POMONA_MPI(int, T_pvar_stop, (MPI_T_pvar_session session, MPI_T_pvar_handle handle)) {
    TOOLS_LOCKED();
    SESSION_ARGUMENT(session);
    if (handle == MPI_T_PVAR_ALL_HANDLES) return MPI_SUCCESS;
    HANDLE_ARGUMENT(session, handle);
    return MPI_T_ERR_PVAR_NO_STARTSTOP;
}

// ---- events and sources: none, so every index, name and handle is wrong

POMONA_MPI(int, T_event_get_num, (int* num_events)) {
    TOOLS_LOCKED();
    if (!num_events) return MPI_T_ERR_INVALID;
    *num_events = 0;
    return MPI_SUCCESS;
}
POMONA_MPI(int, T_source_get_num, (int* num_sources)) {
    TOOLS_LOCKED();
    if (!num_sources) return MPI_T_ERR_INVALID;
    *num_sources = 0;
    return MPI_SUCCESS;
}

#define NO_EVENTS(name, params, error)                                                             \
    POMONA_MPI(int, name, params) {                                                                \
        TOOLS_LOCKED();                                                                            \
        return error;                                                                              \
    }
NO_EVENTS(T_event_callback_get_info, (MPI_T_event_registration, MPI_T_cb_safety, MPI_Info*),
          MPI_T_ERR_INVALID_HANDLE)
NO_EVENTS(T_event_callback_set_info, (MPI_T_event_registration, MPI_T_cb_safety, MPI_Info),
          MPI_T_ERR_INVALID_HANDLE)
NO_EVENTS(T_event_copy, (MPI_T_event_instance, void*), MPI_T_ERR_INVALID_HANDLE)
NO_EVENTS(T_event_get_index, (const char*, int*), MPI_T_ERR_INVALID_NAME)
NO_EVENTS(T_event_get_info,
          (int, char*, int*, int*, MPI_Datatype[], MPI_Aint[], int*, MPI_T_enum*, MPI_Info*, char*,
           int*, int*),
          MPI_T_ERR_INVALID_INDEX)
NO_EVENTS(T_event_get_source, (MPI_T_event_instance, int*), MPI_T_ERR_INVALID_HANDLE)
NO_EVENTS(T_event_get_timestamp, (MPI_T_event_instance, MPI_Count*), MPI_T_ERR_INVALID_HANDLE)
NO_EVENTS(T_event_handle_alloc, (int, void*, MPI_Info, MPI_T_event_registration*),
          MPI_T_ERR_INVALID_INDEX)
NO_EVENTS(T_event_handle_free, (MPI_T_event_registration, void*, MPI_T_event_free_cb_function),
          MPI_T_ERR_INVALID_HANDLE)
NO_EVENTS(T_event_handle_get_info, (MPI_T_event_registration, MPI_Info*), MPI_T_ERR_INVALID_HANDLE)
NO_EVENTS(T_event_handle_set_info, (MPI_T_event_registration, MPI_Info), MPI_T_ERR_INVALID_HANDLE)
NO_EVENTS(T_event_read, (MPI_T_event_instance, int, void*), MPI_T_ERR_INVALID_HANDLE)
NO_EVENTS(T_event_register_callback,
          (MPI_T_event_registration, MPI_T_cb_safety, MPI_Info, void*, MPI_T_event_cb_function),
          MPI_T_ERR_INVALID_HANDLE)
NO_EVENTS(T_event_set_dropped_handler, (MPI_T_event_registration, MPI_T_event_dropped_cb_function),
          MPI_T_ERR_INVALID_HANDLE)
NO_EVENTS(T_source_get_info,
          (int, char*, int*, char*, int*, MPI_T_source_order*, MPI_Count*, MPI_Count*, MPI_Info*),
          MPI_T_ERR_INVALID_INDEX)
NO_EVENTS(T_source_get_timestamp, (int, MPI_Count*), MPI_T_ERR_INVALID_INDEX)
