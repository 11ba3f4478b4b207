/* tests/launch/unlike_hosts.c: two hosts with the same number of ranks each, of which one has
 * another long double and another wchar_t, as its agent has told its ranks (POMONA_FORMATS, set by
 * test_hosts_programs.py). Types with one of these are refused by name between the hosts and pass
 * within each; all others arrive byte by byte everywhere. */
#include "unlike_check.h"

#include <stddef.h>
#include <string.h>
#include <wchar.h>

enum { kElements = 3, kBytes = 256 };

static int size;

struct pair {
    int number;
    double real;
};
struct letters {
    int number;
    wchar_t letter;
};

static MPI_Datatype structure(ptrdiff_t second, MPI_Datatype type) {
    int lengths[2] = {1, 1};
    MPI_Aint places[2] = {0, second};
    MPI_Datatype types[2] = {MPI_INT, type}, out;
    MPI_Type_create_struct(2, lengths, places, types, &out);
    MPI_Type_commit(&out);
    return out;
}

/* The call's code, and of a type that differs its name in the sentence; "": it must pass. */
static void judge(int code, const char* name) {
    char text[MPI_MAX_ERROR_STRING] = "", wanted[100];
    int length, class;
    if (!name[0]) {
        CHECK(code == MPI_SUCCESS);
        return;
    }
    MPI_Error_class(code, &class);
    MPI_Error_string(code, text, &length);
    snprintf(wanted, sizeof wanted, "%s has no common format: rank ", name);
    if (class != MPI_ERR_TYPE || !strstr(text, wanted)) printf("rank %d: %s\n", rank, text);
    CHECK(class == MPI_ERR_TYPE && strstr(text, wanted));
}

/* Bytes that tell who has sent them, where the type has data; zeros elsewhere. */
static void fill(unsigned char* bytes, int from, MPI_Datatype type) {
    unsigned char data[kBytes];
    int count, at = 0, i;
    memset(bytes, 0, kBytes);
    MPI_Pack_size(kElements, type, MPI_COMM_SELF, &count);
    CHECK(count > 0 && count <= kBytes);
    for (i = 0; i < count; ++i) data[i] = (unsigned char)(7 * i + 31 * from + 1);
    CHECK(MPI_Unpack(data, count, &at, bytes, kElements, type, MPI_COMM_SELF) == MPI_SUCCESS);
}

static void try_type(MPI_Datatype type, const char* name, int host, int hosts_size) {
    unsigned char mine[kBytes], got[kBytes], theirs[kBytes];
    int first, second, root;
    fill(mine, rank, type);
    for (first = 0; first < size; ++first)
        for (second = 0; second < size; ++second) {
            int peer = rank == first ? second : first;
            const char* refused = host == peer / hosts_size ? "" : name;
            if (first == second || (rank != first && rank != second)) continue;
            if (rank == first) {
                judge(MPI_Send(mine, kElements, type, peer, 1, MPI_COMM_WORLD), refused);
                continue;
            }
            memset(got, 0, kBytes);
            judge(MPI_Recv(got, kElements, type, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE), refused);
            fill(theirs, peer, type);
            if (!refused[0]) CHECK(memcmp(got, theirs, kBytes) == 0);
        }
    for (root = 0; root < size; ++root) {
        fill(got, rank, type);
        judge(MPI_Bcast(got, kElements, type, root, MPI_COMM_WORLD), name);
        fill(theirs, name[0] ? rank : root, type);
        CHECK(memcmp(got, theirs, kBytes) == 0);
    }
}

int main(int count, char** words) {
    MPI_Comm here;
    long double one = 1, sum = 0;
    double real, total = 0;
    int host, hosts_size, first;
    size_t i;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
    MPI_Comm_size(here, &hosts_size);
    CHECK(2 * hosts_size == size);
    host = rank / hosts_size;
    first = rank;
    MPI_Bcast(&first, 1, MPI_INT, 0, here);
    CHECK(first == host * hosts_size);
    {
        MPI_Datatype plain[] = {
            MPI_CHAR, MPI_SIGNED_CHAR, MPI_UNSIGNED_CHAR, MPI_BYTE, MPI_SHORT, MPI_UNSIGNED_SHORT, MPI_INT,
            MPI_UNSIGNED, MPI_LONG, MPI_UNSIGNED_LONG, MPI_LONG_LONG, MPI_UNSIGNED_LONG_LONG, MPI_FLOAT, MPI_DOUBLE,
            MPI_C_BOOL, MPI_INT8_T, MPI_INT16_T, MPI_INT32_T, MPI_INT64_T, MPI_UINT8_T, MPI_UINT16_T, MPI_UINT32_T,
            MPI_UINT64_T, MPI_AINT, MPI_OFFSET, MPI_COUNT, MPI_C_FLOAT_COMPLEX, MPI_C_DOUBLE_COMPLEX, MPI_FLOAT_INT,
            MPI_DOUBLE_INT, MPI_LONG_INT, MPI_SHORT_INT, MPI_2INT, structure(offsetof(struct pair, real), MPI_DOUBLE)};
        for (i = 0; i < sizeof plain / sizeof plain[0]; ++i) try_type(plain[i], "", host, hosts_size);
        MPI_Type_free(&plain[i - 1]);
    }
    {
        MPI_Datatype with_letter = structure(offsetof(struct letters, letter), MPI_WCHAR);
        struct {
            MPI_Datatype type;
            const char* name;
        } unlike[] = {{MPI_LONG_DOUBLE, "MPI_LONG_DOUBLE"},
                      {MPI_WCHAR, "MPI_WCHAR"},
                      {MPI_C_LONG_DOUBLE_COMPLEX, "MPI_C_LONG_DOUBLE_COMPLEX"},
                      {MPI_LONG_DOUBLE_INT, "MPI_LONG_DOUBLE_INT"},
                      {with_letter, "a datatype with MPI_WCHAR"}};
        for (i = 0; i < sizeof unlike / sizeof unlike[0]; ++i)
            try_type(unlike[i].type, unlike[i].name, host, hosts_size);
        MPI_Type_free(&with_letter);
    }
    judge(MPI_Allreduce(&one, &sum, 1, MPI_LONG_DOUBLE, MPI_SUM, MPI_COMM_WORLD), "MPI_LONG_DOUBLE");
    CHECK(MPI_Allreduce(&one, &sum, 1, MPI_LONG_DOUBLE, MPI_SUM, here) == MPI_SUCCESS && sum == hosts_size);
    real = rank + 0.5;
    CHECK(MPI_Allreduce(&real, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(total == size * size / 2.0);
    MPI_Comm_free(&here);
    MPI_Finalize();
    printf("rank %d: passed\n", rank);
    return 0;
}
