/* Goal: environment inquiry of MPI-5.0 chapters 9 and 11. Method: ask before MPI_Init, while
 * running and after MPI_Finalize; compare with what the standard fixes (versions, lengths,
 * attribute ranges, monotonous clock, aligned memory).
 */
#include "check.h"

static int before_init(void) {
    int flag = -1, version = 0, subversion = -1, length = 0, bad = 0;
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    if (MPI_Initialized(&flag) != MPI_SUCCESS || flag != 0) bad |= 1;
    if (MPI_Finalized(&flag) != MPI_SUCCESS || flag != 0) bad |= 2;
    if (MPI_Get_version(&version, &subversion) != MPI_SUCCESS || version != MPI_VERSION ||
        subversion != MPI_SUBVERSION) {
        bad |= 4;
    }
    if (MPI_Get_library_version(text, &length) != MPI_SUCCESS || length <= 0 ||
        ((int)strlen(text) != length && !strstr(text, "Open MPI"))) {
        bad |= 8;
    }
    return bad;
}

static void check_names(void) {
    char name[MPI_MAX_PROCESSOR_NAME];
    int length = -1;
    memset(name, 'x', sizeof name);
    CHECK_OK(MPI_Get_processor_name(name, &length));
    CHECK(length > 0 && length < MPI_MAX_PROCESSOR_NAME);
    CHECK_EQ(length, strnlen(name, sizeof name));
}

static void check_attributes(void) {
    int flag = 0, *value = NULL;
    CHECK_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &flag));
    CHECK(flag && value && *value >= 32767);
    CHECK_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, &value, &flag));
    CHECK(!flag || *value == 0 || *value == 1);
    CHECK_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_IO, &value, &flag));
    if (flag) {
        CHECK(*value == MPI_ANY_SOURCE || *value == MPI_PROC_NULL ||
              (*value >= 0 && *value < check_size));
    }
    CHECK_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &value, &flag));
    if (flag) CHECK(*value >= 1);
    CHECK_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &value, &flag));
    if (flag) CHECK(*value >= 0);
    CHECK_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &value, &flag));
    if (flag) CHECK(*value >= MPI_ERR_LASTCODE);
}

static void check_clock(void) {
    double last = MPI_Wtime(), tick = MPI_Wtick();
    int i;
    CHECK(tick > 0 && tick < 1);
    for (i = 0; i < 10000; ++i) {
        double now = MPI_Wtime();
        if (now < last) break;
        last = now;
    }
    CHECK_EQ(10000, i);
}

static void check_memory(void) {
    size_t bytes;
    for (bytes = 1; bytes <= (1u << 20); bytes *= 32) {
        char* memory = NULL;
        CHECK_OK(MPI_Alloc_mem((MPI_Aint)bytes, MPI_INFO_NULL, &memory));
        CHECK(memory != NULL);
        CHECK_EQ(0, (uintptr_t)memory % 8);
        memset(memory, 1, bytes);
        CHECK_OK(MPI_Free_mem(memory));
    }
}

static void check_addresses(void) {
    double array[8];
    MPI_Aint first, last;
    CHECK_OK(MPI_Get_address(&array[0], &first));
    CHECK_OK(MPI_Get_address(&array[7], &last));
    CHECK_EQ(7 * sizeof(double), MPI_Aint_diff(last, first));
    CHECK_EQ(last, MPI_Aint_add(first, 7 * (MPI_Aint)sizeof(double)));
    CHECK_EQ((MPI_Aint)&array[0], first);
}

int main(int argc, char** argv) {
    int unready = before_init(), flag = 0, level = -1, code;
    start(&argc, &argv);
    CHECK_EQ(0, unready);
    CHECK_OK(MPI_Initialized(&flag));
    CHECK_EQ(1, flag);
    CHECK_OK(MPI_Finalized(&flag));
    CHECK_EQ(0, flag);
    CHECK_OK(MPI_Is_thread_main(&flag));
    CHECK_EQ(1, flag);
    CHECK_OK(MPI_Query_thread(&level));
    CHECK(level == MPI_THREAD_SINGLE || level == MPI_THREAD_FUNNELED ||
          level == MPI_THREAD_SERIALIZED || level == MPI_THREAD_MULTIPLE);
    CHECK(MPI_THREAD_SINGLE < MPI_THREAD_FUNNELED && MPI_THREAD_FUNNELED < MPI_THREAD_SERIALIZED &&
          MPI_THREAD_SERIALIZED < MPI_THREAD_MULTIPLE);
    CHECK_OK(MPI_Pcontrol(1));
    check_names();
    check_attributes();
    check_clock();
    check_memory();
    check_addresses();
    code = finish();
    if (MPI_Initialized(&flag) != MPI_SUCCESS || !flag) code = 1;
    if (MPI_Finalized(&flag) != MPI_SUCCESS || !flag) code = 1;
    if (code != 0) fprintf(stderr, "env_basic: wrong state after MPI_Finalize\n");
    return code;
}
