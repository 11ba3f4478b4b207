// mpi/abi/tool.cc: the tool interface: start and end, control variables, enumerations, categories
// (MPI 5.0, chapter 15). Performance variables and events are in tool_pvar.cc.
#include "mpi/abi/tool.h"

#include "btl/base/log.h"
#include "mpi/abi/define.h"

#include <cstdlib>
#include <cstring>

using namespace pomona;

namespace pomona {

static constexpr int kTextSize = 1024;  // of text variables, with the final 0

static MPI_ABI_T_enum flag_enum = {"flag", 2, {"no", "yes"}};

Category category_of(std::string_view variable) {
    if (variable.starts_with("shm_")) return Category::shm;
    if (variable.starts_with("tcp_")) return Category::tcp;
    return Category::general;
}

void give_text(std::string_view text, char* out, int* length) {
    if (!length) return;
    if (out && *length > 0) {
        size_t fits = std::min(text.size(), static_cast<size_t>(*length) - 1);
        std::memcpy(out, text.data(), fits);
        out[fits] = 0;
    }
    *length = static_cast<int>(text.size()) + 1;
}

template <class T> static void give(T* place, T value) {
    if (place) *place = value;
}

}  // namespace pomona

POMONA_MPI(int, T_init_thread, (int required, int* provided)) {
    Tools& state = tools();
    std::lock_guard guard(state.mutex);
    ++state.users;
    give(provided, std::min(required, MPI_THREAD_MULTIPLE));
    return MPI_SUCCESS;
}

POMONA_MPI(int, T_finalize, (void)) {
    TOOLS_LOCKED();
    if (--state.users > 0) return MPI_SUCCESS;
    for (MPI_T_cvar_handle handle : state.cvars) delete handle;
    for (MPI_T_pvar_session session : state.sessions) {
        for (MPI_T_pvar_handle handle : session->handles) delete handle;
        delete session;
    }
    state.cvars.clear();
    state.sessions.clear();
    return MPI_SUCCESS;
}

// ---- control variables

POMONA_MPI(int, T_cvar_get_num, (int* num_cvar)) {
    TOOLS_LOCKED();
    if (!num_cvar) return MPI_T_ERR_INVALID;
    *num_cvar = cvar_count();
    return MPI_SUCCESS;
}

POMONA_MPI(int, T_cvar_get_info,
           (int cvar_index, char* name, int* name_len, int* verbosity, MPI_Datatype* datatype,
            MPI_T_enum* enumtype, char* desc, int* desc_len, int* bind, int* scope)) {
    TOOLS_LOCKED();
    if (cvar_index < 0 || cvar_index >= cvar_count()) return MPI_T_ERR_INVALID_INDEX;
    const ParamInfo& param = param_table()[cvar_index];
    give_text(param_variable(param.name), name, name_len);
    give_text(param.text, desc, desc_len);
    give(verbosity, MPI_T_VERBOSITY_TUNER_DETAIL);
    give(bind, MPI_T_BIND_NO_OBJECT);
    // Read once, at MPI_Init; most must be the same on all processes.
    give(scope, MPI_T_SCOPE_ALL_EQ);
    give(enumtype, param.type == ParamType::Flag ? &flag_enum : MPI_T_ENUM_NULL);
    switch (param.type) {
    case ParamType::Flag: give(datatype, MPI_INT); break;
    case ParamType::Text: give(datatype, MPI_CHAR); break;
    default: give(datatype, MPI_UNSIGNED_LONG_LONG);
    }
    return MPI_SUCCESS;
}

POMONA_MPI(int, T_cvar_get_index, (const char* name, int* cvar_index)) {
    TOOLS_LOCKED();
    if (!name || !cvar_index) return MPI_T_ERR_INVALID;
    for (int i = 0; i < cvar_count(); ++i)
        if (param_variable(param_table()[i].name) == name) return *cvar_index = i, MPI_SUCCESS;
    return MPI_T_ERR_INVALID_NAME;
}

POMONA_MPI(int, T_cvar_handle_alloc,
           (int cvar_index, void*, MPI_T_cvar_handle* handle, int* count)) {
    TOOLS_LOCKED();
    if (cvar_index < 0 || cvar_index >= cvar_count()) return MPI_T_ERR_INVALID_INDEX;
    if (!handle || !count) return MPI_T_ERR_INVALID;
    *handle = *state.cvars.insert(new MPI_ABI_T_cvar_handle{cvar_index}).first;
    *count = param_table()[cvar_index].type == ParamType::Text ? kTextSize : 1;
    return MPI_SUCCESS;
}

POMONA_MPI(int, T_cvar_handle_free, (MPI_T_cvar_handle* handle)) {
    TOOLS_LOCKED();
    if (!handle || state.cvars.erase(*handle) == 0) return MPI_T_ERR_INVALID_HANDLE;
    delete *handle;
    *handle = MPI_T_CVAR_HANDLE_NULL;
    return MPI_SUCCESS;
}

POMONA_MPI(int, T_cvar_read, (MPI_T_cvar_handle handle, void* buf)) {
    TOOLS_LOCKED();
    if (!state.cvars.count(handle)) return MPI_T_ERR_INVALID_HANDLE;
    if (!buf) return MPI_T_ERR_INVALID;
    const ParamInfo& param = param_table()[handle->index];
    std::string value = get_param(process().params, param.name);
    if (param.type == ParamType::Text) {
        value.resize(std::min<size_t>(value.size(), kTextSize - 1));
        std::memcpy(buf, value.c_str(), value.size() + 1);
    } else if (param.type == ParamType::Flag) {
        *static_cast<int*>(buf) = value == "yes";
    } else {
        *static_cast<unsigned long long*>(buf) = std::strtoull(value.c_str(), nullptr, 10);
    }
    return MPI_SUCCESS;
}

POMONA_MPI(int, T_cvar_write, (MPI_T_cvar_handle handle, const void* buf)) {
    TOOLS_LOCKED();
    if (!state.cvars.count(handle)) return MPI_T_ERR_INVALID_HANDLE;
    if (!buf) return MPI_T_ERR_INVALID;
    Process& here = process();
    if (here.state.load(std::memory_order_acquire) != Process::State::before)
        return MPI_T_ERR_CVAR_SET_NOT_NOW;
    const ParamInfo& param = param_table()[handle->index];
    std::string value;
    if (param.type == ParamType::Text) {
        auto* text = static_cast<const char*>(buf);
        value.assign(text, strnlen(text, kTextSize));
    } else if (param.type == ParamType::Flag) {
        value = *static_cast<const int*>(buf) ? "yes" : "no";
    } else {
        value = std::to_string(*static_cast<const unsigned long long*>(buf));
    }
    if (!set_param(here.params, param.name, value).ok()) return MPI_T_ERR_INVALID;
    if (std::string_view(param.name) == "log") set_log_levels(value);
    return MPI_SUCCESS;
}

// ---- enumerations: one, of flags

POMONA_MPI(int, T_enum_get_info, (MPI_T_enum enumtype, int* num, char* name, int* name_len)) {
    TOOLS_LOCKED();
    if (enumtype != &flag_enum) return MPI_T_ERR_INVALID_HANDLE;
    give(num, enumtype->count);
    give_text(enumtype->name, name, name_len);
    return MPI_SUCCESS;
}

POMONA_MPI(int, T_enum_get_item,
           (MPI_T_enum enumtype, int indx, int* value, char* name, int* name_len)) {
    TOOLS_LOCKED();
    if (enumtype != &flag_enum) return MPI_T_ERR_INVALID_HANDLE;
    if (indx < 0 || indx >= enumtype->count) return MPI_T_ERR_INVALID_ITEM;
    give(value, indx);
    give_text(enumtype->items[indx], name, name_len);
    return MPI_SUCCESS;
}

// ---- categories

namespace {

struct CategoryText {
    const char* name;
    const char* text;
};
constexpr CategoryText category_texts[] = {
    {"general", "engine, collectives and everything not named below"},
    {"shm", "messages through shared memory"},
    {"tcp", "messages through TCP"}};
constexpr int kCategories = static_cast<int>(Category::count_);
static_assert(std::size(category_texts) == kCategories);

template <class Table> std::vector<int> members(const Table& table, int category) {
    std::vector<int> found;
    for (size_t i = 0; i < table.size(); ++i)
        if (category_of(table[i].name) == static_cast<Category>(category))
            found.push_back(static_cast<int>(i));
    return found;
}

int give_members(const std::vector<int>& found, int category, int len, int* indices) {
    if (category < 0 || category >= kCategories) return MPI_T_ERR_INVALID_INDEX;
    if (len < 0 || (len > 0 && !indices)) return MPI_T_ERR_INVALID;
    std::copy_n(found.begin(), std::min<size_t>(found.size(), static_cast<size_t>(len)), indices);
    return MPI_SUCCESS;
}

}  // namespace

POMONA_MPI(int, T_category_get_num, (int* num_cat)) {
    TOOLS_LOCKED();
    if (!num_cat) return MPI_T_ERR_INVALID;
    *num_cat = kCategories;
    return MPI_SUCCESS;
}

POMONA_MPI(int, T_category_get_info,
           (int cat_index, char* name, int* name_len, char* desc, int* desc_len, int* num_cvars,
            int* num_pvars, int* num_categories)) {
    TOOLS_LOCKED();
    if (cat_index < 0 || cat_index >= kCategories) return MPI_T_ERR_INVALID_INDEX;
    give_text(category_texts[cat_index].name, name, name_len);
    give_text(category_texts[cat_index].text, desc, desc_len);
    give(num_cvars, static_cast<int>(members(param_table(), cat_index).size()));
    give(num_pvars, static_cast<int>(members(counter_table(), cat_index).size()));
    give(num_categories, 0);
    return MPI_SUCCESS;
}

POMONA_MPI(int, T_category_get_index, (const char* name, int* cat_index)) {
    TOOLS_LOCKED();
    if (!name || !cat_index) return MPI_T_ERR_INVALID;
    for (int i = 0; i < kCategories; ++i)
        if (std::strcmp(category_texts[i].name, name) == 0) return *cat_index = i, MPI_SUCCESS;
    return MPI_T_ERR_INVALID_NAME;
}

POMONA_MPI(int, T_category_get_num_events, (int cat_index, int* num_events)) {
    TOOLS_LOCKED();
    if (cat_index < 0 || cat_index >= kCategories) return MPI_T_ERR_INVALID_INDEX;
    give(num_events, 0);
    return MPI_SUCCESS;
}

POMONA_MPI(int, T_category_get_cvars, (int cat_index, int len, int indices[])) {
    TOOLS_LOCKED();
    return give_members(members(param_table(), cat_index), cat_index, len, indices);
}
POMONA_MPI(int, T_category_get_pvars, (int cat_index, int len, int indices[])) {
    TOOLS_LOCKED();
    return give_members(members(counter_table(), cat_index), cat_index, len, indices);
}
POMONA_MPI(int, T_category_get_categories, (int cat_index, int len, int indices[])) {
    TOOLS_LOCKED();
    return give_members({}, cat_index, len, indices);
}
POMONA_MPI(int, T_category_get_events, (int cat_index, int len, int indices[])) {
    TOOLS_LOCKED();
    return give_members({}, cat_index, len, indices);
}

// The categories never change.
POMONA_MPI(int, T_category_changed, (int* update_number)) {
    TOOLS_LOCKED();
    if (!update_number) return MPI_T_ERR_INVALID;
    *update_number = 0;
    return MPI_SUCCESS;
}
