/* Goal: threads of one process may use one file handle at the same time (MPI 5.0, sections 11.6,
 * 14.6).
 * Method: under MPI_THREAD_MULTIPLE, threads write records at explicit offsets, at the individual
 * and at the shared pointer of the same files; every record must lie in the file exactly once. In
 * atomic mode threads write and read the same scattered ints; nobody reads two writers' values.
 */
#include "io_files.h"
#include <pthread.h>

enum { threads = 4, records = 50, ints = 8, scattered = 400 };

static MPI_File by_offset, by_pointer, by_shared, atomic;

static void make_record(int* record, int number) {
    for (int i = 0; i < ints; ++i) record[i] = number * ints + i;
}

static void* work(void* argument) {
    int thread = (int)(intptr_t)argument, k, record[ints];
    long failed = 0;
    for (k = 0; k < records; ++k) {
        int own = thread * records + k, number = check_rank * threads * records + own;
        make_record(record, number);
        failed += MPI_File_write_at(by_offset, number, record, ints, MPI_INT, MPI_STATUS_IGNORE) != MPI_SUCCESS;
        failed += MPI_File_write_shared(by_shared, record, ints, MPI_INT, MPI_STATUS_IGNORE) != MPI_SUCCESS;
        make_record(record, own);
        failed += MPI_File_write(by_pointer, record, ints, MPI_INT, MPI_STATUS_IGNORE) != MPI_SUCCESS;
    }
    return (void*)(intptr_t)failed;
}

static void* work_atomic(void* argument) {
    int thread = (int)(intptr_t)argument, k, i, mine[scattered], found[scattered];
    long failed = 0;
    for (i = 0; i < scattered; ++i) mine[i] = check_rank * threads + thread;
    for (k = 0; k < records / 2; ++k) {
        failed += MPI_File_write_at(atomic, 0, mine, scattered, MPI_INT, MPI_STATUS_IGNORE) != MPI_SUCCESS;
        failed += MPI_File_read_at(atomic, 0, found, scattered, MPI_INT, MPI_STATUS_IGNORE) != MPI_SUCCESS;
        for (i = 1; i < scattered && found[i] == found[0]; ++i) {}
        failed += i < scattered;
    }
    return (void*)(intptr_t)failed;
}

static void run_threads(void* (*function)(void*)) {
    pthread_t running[threads];
    int t;
    for (t = 0; t < threads; ++t) CHECK_EQ(0, pthread_create(&running[t], NULL, function, (void*)(intptr_t)t));
    for (t = 0; t < threads; ++t) {
        void* failed = NULL;
        CHECK_EQ(0, pthread_join(running[t], &failed));
        CHECK_EQ(0, (intptr_t)failed);
    }
}

/* Are all records there, once each? In their places if `sorted`. */
static void check_file(const char* name, int total, int sorted) {
    int* all = malloc((size_t)total * ints * sizeof *all);
    char* seen = calloc((size_t)total, 1);
    long bytes = (long)total * ints * (long)sizeof *all;
    CHECK_EQ(bytes, plain_read(name, all, 0, bytes));
    for (int k = 0; k < total; ++k) {
        int number = all[k * ints] / ints, i, good = 1;
        for (i = 0; i < ints; ++i) good &= all[k * ints + i] == number * ints + i;
        if (!CHECK(good && number >= 0 && number < total)) continue;
        CHECK_EQ(0, seen[number]++);
        if (sorted) CHECK_EQ(k, number);
    }
    free(all), free(seen);
}

static MPI_File open_one(MPI_Comm comm, const char* name, MPI_Datatype record) {
    MPI_File f;
    CHECK_OK(MPI_File_open(comm, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f));
    CHECK_OK(MPI_File_set_view(f, 0, record, record, "native", MPI_INFO_NULL));
    return f;
}

int main(int argc, char** argv) {
    char offset_name[200], shared_name[200], pointer_name[200], atomic_name[200];
    int provided = 0, total;
    MPI_Datatype record, gapped;
    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS) return 1;
    begin_program();
    if (provided < MPI_THREAD_MULTIPLE) return skip("no MPI_THREAD_MULTIPLE");
    total = check_size * threads * records;
    new_name(offset_name, sizeof offset_name);
    new_name(shared_name, sizeof shared_name);
    new_name(pointer_name, sizeof pointer_name - 20);
    snprintf(pointer_name + strlen(pointer_name), 20, "-%d", check_rank);
    CHECK_OK(MPI_Type_contiguous(ints, MPI_INT, &record));
    CHECK_OK(MPI_Type_commit(&record));
    by_offset = open_one(MPI_COMM_WORLD, offset_name, record);
    by_shared = open_one(MPI_COMM_WORLD, shared_name, record);
    by_pointer = open_one(MPI_COMM_SELF, pointer_name, record);
    run_threads(work);
    context("atomic mode");
    new_name(atomic_name, sizeof atomic_name);
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, atomic_name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &atomic));
    CHECK_OK(MPI_Type_create_resized(MPI_INT, 0, 8, &gapped));
    CHECK_OK(MPI_Type_commit(&gapped));
    CHECK_OK(MPI_File_set_view(atomic, 0, MPI_INT, gapped, "native", MPI_INFO_NULL));
    CHECK_OK(MPI_File_set_atomicity(atomic, 1));
    run_threads(work_atomic);
    CHECK_OK(MPI_File_close(&atomic));
    CHECK_OK(MPI_Type_free(&gapped));
    CHECK_OK(MPI_File_close(&by_offset));
    CHECK_OK(MPI_File_close(&by_shared));
    CHECK_OK(MPI_File_close(&by_pointer));
    context("explicit offsets");
    check_file(offset_name, total, 1);
    context("shared pointer");
    check_file(shared_name, total, 0);
    context("individual pointer");
    check_file(pointer_name, threads * records, 0);
    barrier();
    CHECK_OK(MPI_File_delete(pointer_name, MPI_INFO_NULL));
    if (check_rank == 0) {
        CHECK_OK(MPI_File_delete(offset_name, MPI_INFO_NULL));
        CHECK_OK(MPI_File_delete(shared_name, MPI_INFO_NULL));
        CHECK_OK(MPI_File_delete(atomic_name, MPI_INFO_NULL));
    }
    CHECK_OK(MPI_Type_free(&record));
    return finish();
}
