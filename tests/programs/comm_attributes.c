/* Goal: attributes cached on communicators and datatypes with their copy and delete callbacks
 * (MPI-5.0 section 7.7), the deprecated forms too. Method: callbacks count and note their
 * arguments; copy may decide not to copy; dup, free, replace and delete each call what the standard
 * says.
 */
#include "check.h"

static int copies, deletes, copy_flag = 1, extra_seen;
static intptr_t last_deleted;

static int on_copy(MPI_Comm comm, int key, void* extra, void* in, void* out, int* flag) {
    (void)comm, (void)key;
    ++copies;
    extra_seen = *(int*)extra;
    *(void**)out = (char*)in + 1;
    *flag = copy_flag;
    return MPI_SUCCESS;
}

static int on_delete(MPI_Comm comm, int key, void* value, void* extra) {
    (void)comm, (void)key;
    ++deletes;
    last_deleted = (intptr_t)value;
    extra_seen = *(int*)extra;
    return MPI_SUCCESS;
}

static int refuse_delete(MPI_Comm comm, int key, void* value, void* extra) {
    (void)comm, (void)key, (void)value, (void)extra;
    return MPI_ERR_OTHER;
}

static void expect(MPI_Comm comm, int key, int there, intptr_t value) {
    void* found = NULL;
    int flag = -1;
    CHECK_OK(MPI_Comm_get_attr(comm, key, &found, &flag));
    CHECK_EQ(there, flag);
    if (there && flag) CHECK_EQ(value, (intptr_t)found);
}

static void on_comms(void) {
    int key, extra = 42, kept;
    MPI_Comm a, b;
    context("communicator attributes");
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &a));
    CHECK_OK(MPI_Comm_create_keyval(on_copy, on_delete, &key, &extra));
    CHECK(key != MPI_KEYVAL_INVALID);
    expect(a, key, 0, 0);
    CHECK_OK(MPI_Comm_set_attr(a, key, (void*)(intptr_t)100));
    expect(a, key, 1, 100);
    CHECK_OK(MPI_Comm_set_attr(a, key, (void*)(intptr_t)200));
    CHECK_EQ(1, deletes);
    CHECK_EQ(100, last_deleted);
    expect(a, key, 1, 200);
    CHECK_OK(MPI_Comm_dup(a, &b));
    CHECK_EQ(1, copies);
    CHECK_EQ(42, extra_seen);
    expect(b, key, 1, 201);
    CHECK_OK(MPI_Comm_free(&b));
    CHECK_EQ(2, deletes);
    CHECK_EQ(201, last_deleted);
    copy_flag = 0;
    CHECK_OK(MPI_Comm_dup(a, &b));
    CHECK_EQ(2, copies);
    expect(b, key, 0, 0);
    CHECK_OK(MPI_Comm_free(&b));
    CHECK_EQ(2, deletes);
    CHECK_OK(MPI_Comm_split(a, 0, 0, &b));
    CHECK_EQ(2, copies);
    expect(b, key, 0, 0);
    CHECK_OK(MPI_Comm_free(&b));
    kept = key;
    CHECK_OK(MPI_Comm_free_keyval(&key));
    CHECK_EQ(MPI_KEYVAL_INVALID, key);
    expect(a, kept, 1, 200);
    CHECK_OK(MPI_Comm_delete_attr(a, kept));
    CHECK_EQ(3, deletes);
    CHECK_EQ(200, last_deleted);
    CHECK_OK(MPI_Comm_free(&a));
    CHECK_EQ(3, deletes);
}

static void predefined_callbacks(void) {
    int dup_key, null_key, stubborn, extra = 0;
    MPI_Comm a, b;
    context("predefined callbacks");
    CHECK_OK(MPI_Comm_dup(MPI_COMM_SELF, &a));
    CHECK_OK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &dup_key, &extra));
    CHECK_OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &null_key, 0));
    CHECK_OK(MPI_Comm_set_attr(a, dup_key, (void*)(intptr_t)7));
    CHECK_OK(MPI_Comm_set_attr(a, null_key, (void*)(intptr_t)8));
    CHECK_OK(MPI_Comm_dup(a, &b));
    expect(b, dup_key, 1, 7);
    expect(b, null_key, 0, 0);
    CHECK_OK(MPI_Comm_free(&b));
    context("delete callback that fails");
    CHECK_OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, refuse_delete, &stubborn, NULL));
    CHECK_OK(MPI_Comm_set_errhandler(a, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Comm_set_attr(a, stubborn, NULL));
    CHECK(MPI_Comm_delete_attr(a, stubborn) != MPI_SUCCESS);
    CHECK(MPI_Comm_free(&a) != MPI_SUCCESS);
    CHECK(MPI_Comm_delete_attr(MPI_COMM_SELF, MPI_TAG_UB) != MPI_SUCCESS);
    /* A keyval in use may be freed again by another copy of its number. */
    {
        int key = MPI_KEYVAL_INVALID, copy;
        MPI_Comm own;
        context("keyval freed twice");
        CHECK_OK(MPI_Comm_dup(MPI_COMM_SELF, &own));
        CHECK_OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL));
        copy = key;
        CHECK_OK(MPI_Comm_set_attr(own, key, &extra));
        CHECK_OK(MPI_Comm_free_keyval(&key));
        CHECK_OK(MPI_Comm_free_keyval(&copy));
        CHECK_OK(MPI_Comm_free(&own));
    }
    CHECK_OK(MPI_Comm_free_keyval(&dup_key));
    CHECK_OK(MPI_Comm_free_keyval(&null_key));
}

static int type_copies, type_deletes;
static int on_type_copy(MPI_Datatype t, int key, void* extra, void* in, void* out, int* flag) {
    (void)t, (void)key, (void)extra;
    ++type_copies;
    *(void**)out = in;
    *flag = 1;
    return MPI_SUCCESS;
}
static int on_type_delete(MPI_Datatype t, int key, void* value, void* extra) {
    (void)t, (void)key, (void)value, (void)extra;
    ++type_deletes;
    return MPI_SUCCESS;
}

static void on_types(void) {
    int key, flag = -1, length = -1;
    void* value = NULL;
    char name[MPI_MAX_OBJECT_NAME];
    MPI_Datatype t, u;
    context("datatype attributes");
    CHECK_OK(MPI_Type_create_keyval(on_type_copy, on_type_delete, &key, NULL));
    CHECK_OK(MPI_Type_contiguous(3, MPI_INT, &t));
    CHECK_OK(MPI_Type_set_attr(t, key, (void*)(intptr_t)9));
    CHECK_OK(MPI_Type_dup(t, &u));
    CHECK_EQ(1, type_copies);
    CHECK_OK(MPI_Type_get_attr(u, key, &value, &flag));
    CHECK_EQ(1, flag);
    CHECK_EQ(9, (intptr_t)value);
    CHECK_OK(MPI_Type_delete_attr(u, key));
    CHECK_EQ(1, type_deletes);
    CHECK_OK(MPI_Type_get_attr(u, key, &value, &flag));
    CHECK_EQ(0, flag);
    CHECK_OK(MPI_Type_set_name(t, "triple"));
    CHECK_OK(MPI_Type_get_name(t, name, &length));
    CHECK_STR("triple", name);
    CHECK_OK(MPI_Type_free(&u));
    CHECK_OK(MPI_Type_free(&t));
    CHECK_EQ(2, type_deletes);
    CHECK_OK(MPI_Type_free_keyval(&key));
    CHECK_EQ(MPI_KEYVAL_INVALID, key);
}

/* The names of MPI-1, deprecated and still in the ABI. */
static void deprecated(void) {
    int key, flag = -1, extra = 5;
    void* value = NULL;
    MPI_Comm a;
    context("deprecated forms");
    deletes = 0;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_SELF, &a));
    CHECK_OK(MPI_Keyval_create(MPI_NULL_COPY_FN, on_delete, &key, &extra));
    CHECK_OK(MPI_Attr_put(a, key, (void*)(intptr_t)3));
    CHECK_OK(MPI_Attr_get(a, key, &value, &flag));
    CHECK_EQ(1, flag);
    CHECK_EQ(3, (intptr_t)value);
    CHECK_OK(MPI_Attr_delete(a, key));
    CHECK_EQ(1, deletes);
    CHECK_OK(MPI_Attr_get(a, key, &value, &flag));
    CHECK_EQ(0, flag);
    CHECK_OK(MPI_Keyval_free(&key));
    CHECK_OK(MPI_Comm_free(&a));
}

int main(int argc, char** argv) {
    start(&argc, &argv);
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    on_comms();
    predefined_callbacks();
    on_types();
    deprecated();
    return finish();
}
