// mpi/abi/attribute.cc: values cached on communicators, datatypes and windows (MPI 5.0, section
// 7.7), with the deprecated names of MPI-1. Idea: the callbacks of the three kinds differ in their
// first argument only, so one set of functions serves them all; `Owner` carries the handle and
// calls through the right type.
#include "mpi/abi/attributes.h"

#include "mpi/abi/define.h"
#include "mpi/abi/errhandler.h"
#include "mpi/abi/guard.h"
#include "mpi/abi/p2p_arguments.h"
#include "mpi/abi/win_internal.h"
#include "mpi/runtime/extensions.h"

#include <algorithm>

using namespace pomona;

namespace pomona {

namespace {
using Holder = Keyval::Holder;

struct Keyvals final : Process::Extension {
    static constexpr Slot slot = Slot::keyvals;
    std::mutex mutex;
    std::map<int, std::shared_ptr<Keyval>> known;
    std::map<int, std::string> made_by;  // functions, of programs that are checked
    int next = 0x1000;                   // above the predefined ones
    // Values of the predefined attributes; MPI_Comm_get_attr returns their addresses.
    int tag_ub = kTagMax;
    int io = MPI_ANY_SOURCE;
    int host = MPI_PROC_NULL;
    int wtime_is_global = 0;
    int appnum = 0;
    int universe_size = 0;

    std::shared_ptr<Keyval> find(int number, Holder holder) {
        std::lock_guard guard(mutex);
        auto found = known.find(number);
        if (found == known.end() || found->second->holder != holder) return nullptr;
        if (found->second->freed && found->second.use_count() == 1) {
            known.erase(found);  // the last attribute has gone since
            return nullptr;
        }
        return found->second;
    }
};

Keyvals& keyvals() { return extension<Keyvals>(process()); }

// One communicator, datatype or window with its attributes, seen alike.
struct Owner {
    Attributes& attributes;
    Holder holder;
    void* handle;
    Communicator* comm;  // whose error handler is used; null for others
};
Owner owner_of(Communicator& comm) {
    return {comm.attributes, Holder::communicator, handle_of<MPI_Comm>(&comm), &comm};
}
Owner owner_of(Datatype& type) {
    return {type.attributes, Holder::datatype, handle_of<MPI_Datatype>(&type), nullptr};
}
Owner owner_of(Window& window) {
    return {window.attributes, Holder::window, handle_of<MPI_Win>(&window), nullptr};
}

int call_copy(const Owner& from, const Keyval& keyval, void* value, void** copied, int* flag) {
    if (keyval.copy == reinterpret_cast<void (*)()>(MPI_COMM_NULL_COPY_FN)) return MPI_SUCCESS;
    if (keyval.copy == reinterpret_cast<void (*)()>(MPI_COMM_DUP_FN)) {
        *copied = value;
        *flag = 1;
        return MPI_SUCCESS;
    }
    if (from.holder == Holder::communicator)
        return reinterpret_cast<MPI_Comm_copy_attr_function*>(keyval.copy)(
            static_cast<MPI_Comm>(from.handle), keyval.number, keyval.extra_state, value, copied,
            flag);
    return reinterpret_cast<MPI_Type_copy_attr_function*>(keyval.copy)(
        static_cast<MPI_Datatype>(from.handle), keyval.number, keyval.extra_state, value, copied,
        flag);
}

int call_delete(const Owner& owner, const Keyval& keyval, void* value) {
    if (keyval.erase == reinterpret_cast<void (*)()>(MPI_COMM_NULL_DELETE_FN)) return MPI_SUCCESS;
    if (owner.holder == Holder::communicator)
        return reinterpret_cast<MPI_Comm_delete_attr_function*>(keyval.erase)(
            static_cast<MPI_Comm>(owner.handle), keyval.number, value, keyval.extra_state);
    if (owner.holder == Holder::window)
        return reinterpret_cast<MPI_Win_delete_attr_function*>(keyval.erase)(
            static_cast<MPI_Win>(owner.handle), keyval.number, value, keyval.extra_state);
    return reinterpret_cast<MPI_Type_delete_attr_function*>(keyval.erase)(
        static_cast<MPI_Datatype>(owner.handle), keyval.number, value, keyval.extra_state);
}

// A snapshot, oldest first: callbacks may change the attributes while they are walked over.
std::vector<Attributes::Entry> entries_by_age(const Attributes& attributes) {
    std::vector<Attributes::Entry> entries;
    for (const auto& [number, entry] : attributes.entries) entries.push_back(entry);
    std::sort(entries.begin(), entries.end(),
              [](const auto& a, const auto& b) { return a.age < b.age; });
    return entries;
}

void put(Attributes& attributes, std::shared_ptr<Keyval> keyval, void* value) {
    int number = keyval->number;
    attributes.entries[number] = {std::move(keyval), value, ++attributes.ages};
}

int copy_all(const Owner& from, Attributes& to) {
    for (const auto& entry : entries_by_age(from.attributes)) {
        void* copied = nullptr;
        int flag = 0;
        if (int error = call_copy(from, *entry.keyval, entry.value, &copied, &flag)) return error;
        if (flag) put(to, entry.keyval, copied);
    }
    return MPI_SUCCESS;
}

// Latest first, as the standard asks for MPI_COMM_SELF at MPI_Finalize.
int delete_all(const Owner& owner) {
    auto entries = entries_by_age(owner.attributes);
    for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
        if (int error = call_delete(owner, *entry->keyval, entry->value)) return error;
        owner.attributes.entries.erase(entry->keyval->number);
    }
    return MPI_SUCCESS;
}

template <class Copy, class Delete> int create_keyval(const char* function, Holder holder,
                                                      Copy* copy, Delete* erase, int* result,
                                                      void* extra_state) {
    if (!result) return fail(function, nullptr, MPI_ERR_ARG, "keyval is a null pointer");
    Keyvals& table = keyvals();
    std::lock_guard guard(table.mutex);
    auto made = std::make_shared<Keyval>();
    made->number = table.next++;
    made->holder = holder;
    made->copy = reinterpret_cast<void (*)()>(copy);
    made->erase = reinterpret_cast<void (*)()>(erase);
    made->extra_state = extra_state;
    *result = made->number;
    if (process().checker) table.made_by[made->number] = mpi_name(function);
    table.known[made->number] = std::move(made);
    return MPI_SUCCESS;
}

int free_keyval(const char* function, Holder holder, int* number) {
    if (!number) return fail(function, nullptr, MPI_ERR_ARG, "keyval is a null pointer");
    Keyvals& table = keyvals();
    auto keyval = table.find(*number, holder);
    if (!keyval)
        return fail(function, nullptr, MPI_ERR_KEYVAL,
                    format("keyval {} is not valid here", *number));
    std::lock_guard guard(table.mutex);
    keyval->freed = true;
    // While attributes use it (two references are the table's and ours), its number stays good:
    // other copies of it may be freed too.
    if (keyval.use_count() == 2) table.known.erase(*number);
    table.made_by.erase(*number);
    *number = MPI_KEYVAL_INVALID;
    return MPI_SUCCESS;
}

bool predefined_key(int number) { return number >= MPI_TAG_UB && number <= MPI_UNIVERSE_SIZE; }

int set_attribute(const char* function, const Owner& owner, int number, void* value) {
    if (owner.holder == Holder::communicator && predefined_key(number))
        return fail(function, owner.comm, MPI_ERR_KEYVAL,
                    "a predefined attribute cannot be changed");
    auto keyval = keyvals().find(number, owner.holder);
    if (!keyval || keyval->freed)
        return fail(function, owner.comm, MPI_ERR_KEYVAL,
                    format("keyval {} is not valid here", number));
    auto old = owner.attributes.entries.find(number);
    if (old != owner.attributes.entries.end())
        if (int error = call_delete(owner, *old->second.keyval, old->second.value))
            return fail(function, owner.comm, error,
                        "the delete function of the old value refused");
    put(owner.attributes, std::move(keyval), value);
    return MPI_SUCCESS;
}

int get_attribute(const char* function, const Owner& owner, int number, void* value, int* flag) {
    if (!value || !flag)
        return fail(function, owner.comm, MPI_ERR_ARG, "attribute_val or flag is a null pointer");
    auto found = owner.attributes.entries.find(number);
    *flag = found != owner.attributes.entries.end();
    if (*flag) *static_cast<void**>(value) = found->second.value;
    else if (!keyvals().find(number, owner.holder))
        return fail(function, owner.comm, MPI_ERR_KEYVAL,
                    format("keyval {} is not valid here", number));
    return MPI_SUCCESS;
}

int delete_attribute(const char* function, const Owner& owner, int number) {
    if (owner.holder == Holder::communicator && predefined_key(number))
        return fail(function, owner.comm, MPI_ERR_KEYVAL,
                    "a predefined attribute cannot be deleted");
    auto found = owner.attributes.entries.find(number);
    if (found == owner.attributes.entries.end())
        return fail(function, owner.comm, MPI_ERR_KEYVAL,
                    format("there is no attribute with keyval {}", number));
    if (int error = call_delete(owner, *found->second.keyval, found->second.value))
        return fail(function, owner.comm, error, "the attribute's delete function refused");
    owner.attributes.entries.erase(number);
    return MPI_SUCCESS;
}

// The address of a predefined attribute's value, or null where it has none.
int* predefined_value(int number) {
    Keyvals& table = keyvals();
    const Job& job = process().job();
    switch (number) {
    case MPI_TAG_UB: return &table.tag_ub;
    case MPI_IO: return &table.io;
    case MPI_HOST: return &table.host;
    case MPI_WTIME_IS_GLOBAL: return &table.wtime_is_global;
    case MPI_APPNUM:
        table.appnum = job.app_number;
        return job.app_number >= 0 ? &table.appnum : nullptr;
    case MPI_UNIVERSE_SIZE:
        table.universe_size = job.universe_size;
        return job.universe_size > 0 ? &table.universe_size : nullptr;
    case MPI_LASTUSEDCODE: return last_used_error_code();
    default: return nullptr;
    }
}
}  // namespace

std::map<std::string, int> keyvals_left() {
    Keyvals& table = keyvals();
    std::lock_guard guard(table.mutex);
    std::map<std::string, int> out;
    for (const auto& [number, function] : table.made_by) ++out[function];
    return out;
}

int copy_attributes(Communicator& from, Communicator& to) {
    return copy_all(owner_of(from), to.attributes);
}
int delete_attributes(Communicator& comm) { return delete_all(owner_of(comm)); }
int copy_attributes(Datatype& from, Datatype& to) {
    return copy_all(owner_of(from), to.attributes);
}
int delete_attributes(Datatype& type) { return delete_all(owner_of(type)); }
int delete_attributes(Window& window) { return delete_all(owner_of(window)); }
void delete_attributes_of_self() {
    if (Communicator* self = process().self()) delete_all(owner_of(*self));
}

}  // namespace pomona

// ---- communicators

#define COMM_OWNER()                                                                               \
    REQUIRE_RUNNING();                                                                             \
    Communicator* owner = resolve(comm);                                                           \
    REQUIRE(owner, nullptr, MPI_ERR_COMM, "comm is not a valid communicator")

POMONA_MPI(int, Comm_create_keyval,
           (MPI_Comm_copy_attr_function* comm_copy_attr_fn,
            MPI_Comm_delete_attr_function* comm_delete_attr_fn, int* comm_keyval,
            void* extra_state)) {
    return create_keyval(__func__, Holder::communicator, comm_copy_attr_fn, comm_delete_attr_fn,
                         comm_keyval, extra_state);
}
POMONA_MPI(int, Comm_free_keyval, (int* comm_keyval)) {
    return free_keyval(__func__, Holder::communicator, comm_keyval);
}
POMONA_MPI(int, Comm_set_attr, (MPI_Comm comm, int comm_keyval, void* attribute_val)) {
    COMM_OWNER();
    return set_attribute(__func__, owner_of(*owner), comm_keyval, attribute_val);
}
POMONA_MPI(int, Comm_get_attr, (MPI_Comm comm, int comm_keyval, void* attribute_val, int* flag)) {
    COMM_OWNER();
    if (!predefined_key(comm_keyval))
        return get_attribute(__func__, owner_of(*owner), comm_keyval, attribute_val, flag);
    REQUIRE(attribute_val && flag, owner, MPI_ERR_ARG, "attribute_val or flag is a null pointer");
    int* value = predefined_value(comm_keyval);
    *flag = value != nullptr;
    if (value) *static_cast<int**>(attribute_val) = value;
    return MPI_SUCCESS;
}
POMONA_MPI(int, Comm_delete_attr, (MPI_Comm comm, int comm_keyval)) {
    COMM_OWNER();
    return delete_attribute(__func__, owner_of(*owner), comm_keyval);
}

// ---- the same under their names of MPI-1, deprecated in MPI-2.0

POMONA_MPI(int, Keyval_create,
           (MPI_Copy_function* copy_fn, MPI_Delete_function* delete_fn, int* keyval,
            void* extra_state)) {
    return create_keyval(__func__, Holder::communicator, copy_fn, delete_fn, keyval, extra_state);
}
POMONA_MPI(int, Keyval_free, (int* keyval)) {
    return free_keyval(__func__, Holder::communicator, keyval);
}
POMONA_MPI(int, Attr_put, (MPI_Comm comm, int keyval, void* attribute_val)) {
    COMM_OWNER();
    return set_attribute(__func__, owner_of(*owner), keyval, attribute_val);
}
POMONA_MPI(int, Attr_get, (MPI_Comm comm, int keyval, void* attribute_val, int* flag)) {
    return PMPI_Comm_get_attr(comm, keyval, attribute_val, flag);
}
POMONA_MPI(int, Attr_delete, (MPI_Comm comm, int keyval)) {
    COMM_OWNER();
    return delete_attribute(__func__, owner_of(*owner), keyval);
}

// ---- datatypes

#define TYPE_OWNER()                                                                               \
    Datatype* owner = resolve(datatype);                                                           \
    REQUIRE(owner, nullptr, MPI_ERR_TYPE, "datatype is not a valid datatype")

POMONA_MPI(int, Type_create_keyval,
           (MPI_Type_copy_attr_function* type_copy_attr_fn,
            MPI_Type_delete_attr_function* type_delete_attr_fn, int* type_keyval,
            void* extra_state)) {
    return create_keyval(__func__, Holder::datatype, type_copy_attr_fn, type_delete_attr_fn,
                         type_keyval, extra_state);
}
POMONA_MPI(int, Type_free_keyval, (int* type_keyval)) {
    return free_keyval(__func__, Holder::datatype, type_keyval);
}
POMONA_MPI(int, Type_set_attr, (MPI_Datatype datatype, int type_keyval, void* attribute_val)) {
    TYPE_OWNER();
    return set_attribute(__func__, owner_of(*owner), type_keyval, attribute_val);
}
POMONA_MPI(int, Type_get_attr,
           (MPI_Datatype datatype, int type_keyval, void* attribute_val, int* flag)) {
    TYPE_OWNER();
    return get_attribute(__func__, owner_of(*owner), type_keyval, attribute_val, flag);
}
POMONA_MPI(int, Type_delete_attr, (MPI_Datatype datatype, int type_keyval)) {
    TYPE_OWNER();
    return delete_attribute(__func__, owner_of(*owner), type_keyval);
}

// ---- windows. They are never copied, so copy functions are not called.

POMONA_MPI(int, Win_create_keyval,
           (MPI_Win_copy_attr_function* win_copy_attr_fn,
            MPI_Win_delete_attr_function* win_delete_attr_fn, int* win_keyval,
            void* extra_state)) {
    return create_keyval(__func__, Holder::window, win_copy_attr_fn, win_delete_attr_fn, win_keyval,
                         extra_state);
}
POMONA_MPI(int, Win_free_keyval, (int* win_keyval)) {
    return free_keyval(__func__, Holder::window, win_keyval);
}
static bool predefined_win_key(int number) {
    return number >= MPI_WIN_BASE && number <= MPI_WIN_MODEL;
}
POMONA_MPI(int, Win_set_attr, (MPI_Win win, int win_keyval, void* attribute_val)) {
    WIN_ARGUMENT();
    WIN_REQUIRE(!predefined_win_key(win_keyval), MPI_ERR_KEYVAL,
                "a predefined attribute cannot be changed");
    return set_attribute(__func__, owner_of(*window), win_keyval, attribute_val);
}
// The base is the address itself; of the others the user gets the address of the value.
POMONA_MPI(int, Win_get_attr, (MPI_Win win, int win_keyval, void* attribute_val, int* flag)) {
    WIN_ARGUMENT();
    if (!predefined_win_key(win_keyval))
        return get_attribute(__func__, owner_of(*window), win_keyval, attribute_val, flag);
    WIN_REQUIRE(attribute_val && flag, MPI_ERR_ARG, "attribute_val or flag is a null pointer");
    void* value = nullptr;
    switch (win_keyval) {
    case MPI_WIN_BASE: value = window->base(); break;
    case MPI_WIN_SIZE: value = &window->attribute_size; break;
    case MPI_WIN_DISP_UNIT: value = &window->attribute_unit; break;
    case MPI_WIN_CREATE_FLAVOR: value = &window->attribute_flavor; break;
    case MPI_WIN_MODEL: value = &window->attribute_model; break;
    }
    *flag = 1;
    *static_cast<void**>(attribute_val) = value;
    return MPI_SUCCESS;
}
POMONA_MPI(int, Win_delete_attr, (MPI_Win win, int win_keyval)) {
    WIN_ARGUMENT();
    WIN_REQUIRE(!predefined_win_key(win_keyval), MPI_ERR_KEYVAL,
                "a predefined attribute cannot be deleted");
    return delete_attribute(__func__, owner_of(*window), win_keyval);
}
