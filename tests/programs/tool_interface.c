/* Goal: the tool information interface (MPI-5.0 chapter 15): control and performance variables,
 * categories. Method: before MPI_Init and while running every variable is listed, looked up by name
 * and read where it is not bound to an object.
 */
#include "check.h"

static long long early_failures;

static void control_variables(void) {
    int n = -1, i, k;
    CHECK_EQ(MPI_SUCCESS, MPI_T_cvar_get_num(&n));
    CHECK(n >= 0);
    for (i = 0; i < n; ++i) {
        char name[256], text[2048];
        int name_length = sizeof name, text_length = sizeof text, verbosity, bind, scope, count = -1;
        MPI_Datatype type;
        MPI_T_enum names;
        MPI_T_cvar_handle handle;
        context("cvar %d", i);
        if (!CHECK_EQ(MPI_SUCCESS,
                      MPI_T_cvar_get_info(i, name, &name_length, &verbosity, &type, &names, text,
                                          &text_length, &bind, &scope))) {
            continue;
        }
        CHECK_EQ(strlen(name) + 1, name_length);
        k = -1;
        CHECK_EQ(MPI_SUCCESS, MPI_T_cvar_get_index(name, &k));
        CHECK_EQ(i, k);
        if (bind != MPI_T_BIND_NO_OBJECT) continue;
        if (MPI_T_cvar_handle_alloc(i, NULL, &handle, &count) == MPI_SUCCESS) {
            char* value = calloc((size_t)count + 1, 16);
            CHECK(count >= 1);
            CHECK_EQ(MPI_SUCCESS, MPI_T_cvar_read(handle, value));
            CHECK_EQ(MPI_SUCCESS, MPI_T_cvar_handle_free(&handle));
            CHECK(handle == MPI_T_CVAR_HANDLE_NULL);
            free(value);
        }
    }
    context("cvar that is not there");
    CHECK_EQ(MPI_T_ERR_INVALID_NAME, MPI_T_cvar_get_index("no such variable", &k));
    if (!known_limit("MPICH")) { /* converts the type it did not set */
        char name[8], text[8];
        int one = 8, two = 8, verbosity, bind, scope;
        MPI_Datatype type;
        MPI_T_enum names;
        CHECK_EQ(MPI_T_ERR_INVALID_INDEX, MPI_T_cvar_get_info(n, name, &one, &verbosity, &type,
                                                              &names, text, &two, &bind, &scope));
    }
}

static void performance_variables(void) {
    int n = -1, i, k;
    MPI_T_pvar_session session;
    CHECK_EQ(MPI_SUCCESS, MPI_T_pvar_get_num(&n));
    CHECK_EQ(MPI_SUCCESS, MPI_T_pvar_session_create(&session));
    for (i = 0; i < n; ++i) {
        char name[256], text[2048];
        int name_length = sizeof name, text_length = sizeof text, verbosity, kind, bind, readonly;
        int continuous, atomic, count = -1;
        MPI_Datatype type;
        MPI_T_enum names;
        MPI_T_pvar_handle handle;
        context("pvar %d", i);
        if (MPI_T_pvar_get_info(i, name, &name_length, &verbosity, &kind, &type, &names, text,
                                &text_length, &bind, &readonly, &continuous,
                                &atomic) != MPI_SUCCESS) {
            continue;
        }
        k = -1;
        CHECK_EQ(MPI_SUCCESS, MPI_T_pvar_get_index(name, kind, &k));
        CHECK_EQ(i, k);
        if (bind != MPI_T_BIND_NO_OBJECT) continue;
        if (MPI_T_pvar_handle_alloc(session, i, NULL, &handle, &count) == MPI_SUCCESS) {
            char* value = calloc((size_t)count + 1, 16);
            int code = continuous ? MPI_SUCCESS : MPI_T_pvar_start(session, handle);
            CHECK_EQ(MPI_SUCCESS, code);
            CHECK_EQ(MPI_SUCCESS, MPI_T_pvar_read(session, handle, value));
            if (!continuous) CHECK_EQ(MPI_SUCCESS, MPI_T_pvar_stop(session, handle));
            CHECK_EQ(MPI_SUCCESS, MPI_T_pvar_handle_free(session, &handle));
            free(value);
        }
    }
    CHECK_EQ(MPI_SUCCESS, MPI_T_pvar_session_free(&session));
    CHECK(session == MPI_T_PVAR_SESSION_NULL);
}

static void categories(void) {
    int n = -1, i, k, stamp = -1;
    CHECK_EQ(MPI_SUCCESS, MPI_T_category_get_num(&n));
    CHECK(n >= 0);
    for (i = 0; i < n; ++i) {
        char name[256], text[2048];
        int name_length = sizeof name, text_length = sizeof text, cvars = -1, pvars = -1, inner = -1;
        int* list;
        context("category %d", i);
        CHECK_EQ(MPI_SUCCESS, MPI_T_category_get_info(i, name, &name_length, text, &text_length,
                                                      &cvars, &pvars, &inner));
        CHECK_EQ(MPI_SUCCESS, MPI_T_category_get_index(name, &k));
        CHECK_EQ(i, k);
        list = malloc(((size_t)cvars + (size_t)pvars + (size_t)inner + 1) * sizeof(int));
        CHECK_EQ(MPI_SUCCESS, MPI_T_category_get_cvars(i, cvars, list));
        CHECK_EQ(MPI_SUCCESS, MPI_T_category_get_pvars(i, pvars, list));
        CHECK_EQ(MPI_SUCCESS, MPI_T_category_get_categories(i, inner, list));
        free(list);
    }
    CHECK_EQ(MPI_SUCCESS, MPI_T_category_changed(&stamp));
}

int main(int argc, char** argv) {
    int level = -1, n;
    CHECK_EQ(MPI_T_ERR_NOT_INITIALIZED, MPI_T_cvar_get_num(&n));
    CHECK_EQ(MPI_SUCCESS, MPI_T_init_thread(MPI_THREAD_SINGLE, &level));
    CHECK_EQ(MPI_SUCCESS, MPI_T_init_thread(MPI_THREAD_SINGLE, &level));
    control_variables();
    CHECK_EQ(MPI_SUCCESS, MPI_T_finalize());
    early_failures = check_failures;
    start(&argc, &argv);
    CHECK_EQ(0, early_failures);
    control_variables();
    performance_variables();
    categories();
    CHECK_EQ(MPI_SUCCESS, MPI_T_finalize());
    return finish();
}
