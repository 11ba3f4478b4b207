/* Goal: MPI_Comm_spawn and MPI_Comm_spawn_multiple: the new processes' world, their parent,
 * messages and collectives across, merging, spawning again from the children, errors. Method: the
 * program spawns itself; what a child is to do is its first argument.
 */
#include "check.h"

static char self[4096];

/* Both sides: a message from every process to every process of the other group, then
 * collectives. */
static void talk(MPI_Comm inter, int high) {
    enum { n = 20000 };
    static int out[n], in[n];
    MPI_Comm all, again;
    int mine, theirs, rank, size, i, sum = 0, one = 1;
    CHECK_OK(MPI_Comm_rank(inter, &mine));
    CHECK_OK(MPI_Comm_remote_size(inter, &theirs));
    for (i = 0; i < n; ++i) out[i] = i + mine;
    for (i = 0; i < theirs; ++i) {
        CHECK_OK(
            MPI_Sendrecv(out, n, MPI_INT, i, mine, in, n, MPI_INT, i, i, inter, MPI_STATUS_IGNORE));
        CHECK_EQ(i, in[0]);
        CHECK_EQ(n - 1 + i, in[n - 1]);
    }
    CHECK_OK(MPI_Barrier(inter));
    CHECK_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, inter));
    CHECK_EQ(theirs, sum);
    CHECK_OK(MPI_Intercomm_merge(inter, high, &all));
    CHECK_OK(MPI_Comm_rank(all, &rank));
    CHECK_OK(MPI_Comm_size(all, &size));
    CHECK_OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, all));
    CHECK_EQ(size * (size - 1) / 2, sum);
    CHECK_OK(MPI_Comm_split(all, rank % 2, -rank, &again));
    CHECK_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, again));
    CHECK_EQ((size + 1 - rank % 2) / 2, sum);
    CHECK_OK(MPI_Comm_free(&again));
    CHECK_OK(MPI_Comm_free(&all));
}

static void child(const char* what, MPI_Comm parent) {
    int size, number = -1;
    MPI_Comm none;
    CHECK_OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    if (strcmp(what, "bridge") == 0) {
        MPI_Comm bridge, wide;
        CHECK_OK(MPI_Intercomm_merge(parent, 1, &bridge));
        CHECK_OK(MPI_Intercomm_create(MPI_COMM_WORLD, 0, bridge, 0, 5, &wide));
        talk(wide, 1);
        CHECK_OK(MPI_Comm_disconnect(&wide));
        CHECK_OK(MPI_Comm_free(&bridge));
    } else if (strcmp(what, "app") == 0) {
        int *app, flag;
        CHECK_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &app, &flag));
        CHECK(flag);
        number = *app;
        CHECK_OK(MPI_Gather(&number, 1, MPI_INT, NULL, 0, MPI_INT, 0, parent));
    } else {
        talk(parent, 1);
    }
    if (strcmp(what, "grand") == 0) {
        char* arguments[] = {"talk", NULL};
        MPI_Comm inter;
        CHECK_OK(MPI_Comm_spawn(self, arguments, 1, MPI_INFO_NULL, size - 1, MPI_COMM_WORLD, &inter,
                                MPI_ERRCODES_IGNORE));
        talk(inter, 0);
        CHECK_OK(MPI_Comm_disconnect(&inter));
    }
    CHECK_OK(MPI_Comm_disconnect(&parent));
    CHECK(parent == MPI_COMM_NULL);
    CHECK_OK(MPI_Comm_get_parent(&none));
    CHECK(none == MPI_COMM_NULL);
}

static void spawn(MPI_Comm comm, char* what, int count, int root) {
    char* arguments[2] = {what, NULL};
    int codes[8], i, remote;
    MPI_Comm inter;
    context("%d processes that %s", count, what);
    for (i = 0; i < 8; ++i) codes[i] = -1;
    CHECK_OK(MPI_Comm_spawn(self, arguments, count, MPI_INFO_NULL, root, comm, &inter, codes));
    CHECK_OK(MPI_Comm_remote_size(inter, &remote));
    CHECK_EQ(count, remote);
    for (i = 0; i < count; ++i) CHECK_EQ(MPI_SUCCESS, codes[i]);
    talk(inter, 0);
    CHECK_OK(MPI_Comm_disconnect(&inter));
}

static void multiple(void) {
    char *one[] = {"app", NULL}, *two[] = {"app", NULL}, *commands[2];
    char** arguments[2];
    int counts[2] = {1, 2}, codes[3], numbers[3] = {-1, -1, -1};
    MPI_Info infos[2] = {MPI_INFO_NULL, MPI_INFO_NULL};
    MPI_Comm inter;
    context("two programs");
    commands[0] = commands[1] = self;
    /* The second by its name alone, looked for in a folder that the info names. */
    if (strrchr(self, '/')) {
        static char folder[4096];
        snprintf(folder, sizeof folder, "/nowhere:%.*s", (int)(strrchr(self, '/') - self), self);
        commands[1] = strrchr(self, '/') + 1;
        CHECK_OK(MPI_Info_create(&infos[1]));
        CHECK_OK(MPI_Info_set(infos[1], "path", folder));
    }
    arguments[0] = one, arguments[1] = two;
    CHECK_OK(MPI_Comm_spawn_multiple(2, commands, arguments, counts, infos, 0, MPI_COMM_WORLD,
                                     &inter, codes));
    CHECK_EQ(MPI_SUCCESS, codes[2]);
    if (infos[1] != MPI_INFO_NULL) CHECK_OK(MPI_Info_free(&infos[1]));
    CHECK_OK(MPI_Gather(NULL, 0, MPI_INT, numbers, 1, MPI_INT,
                        check_rank == 0 ? MPI_ROOT : MPI_PROC_NULL, inter));
    if (check_rank == 0) {
        CHECK_EQ(0, numbers[0]);
        CHECK_EQ(1, numbers[1]);
        CHECK_EQ(1, numbers[2]);
    }
    CHECK_OK(MPI_Comm_disconnect(&inter));
}

/* Those who had no part in the spawn are reached as well: over a bridge of one process on each
 * side. */
static void bystanders(void) {
    char* arguments[] = {"bridge", NULL};
    MPI_Comm inter, bridge = MPI_COMM_NULL, wide;
    context("spawned by one");
    if (check_rank == 0) {
        CHECK_OK(MPI_Comm_spawn(self, arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter,
                                MPI_ERRCODES_IGNORE));
        CHECK_OK(MPI_Intercomm_merge(inter, 0, &bridge));
    }
    CHECK_OK(MPI_Intercomm_create(MPI_COMM_WORLD, 0, bridge, 1, 5, &wide));
    talk(wide, 0);
    CHECK_OK(MPI_Comm_disconnect(&wide));
    if (check_rank != 0) return;
    CHECK_OK(MPI_Comm_free(&bridge));
    CHECK_OK(MPI_Comm_disconnect(&inter));
}

static void errors(void) {
    MPI_Comm inter = MPI_COMM_WORLD;
    MPI_Info nowhere;
    int codes[2] = {0, 0};
    context("errors");
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    CHECK_CLASS(MPI_ERR_SPAWN, MPI_Comm_spawn("/no/such/program", MPI_ARGV_NULL, 2, MPI_INFO_NULL,
                                              0, MPI_COMM_WORLD, &inter, codes));
    CHECK_EQ(MPI_ERR_SPAWN, class_of(codes[1]));
    CHECK(inter == MPI_COMM_NULL);
    CHECK_OK(MPI_Info_create(&nowhere));
    CHECK_OK(MPI_Info_set(nowhere, "wdir", "/no/such/folder"));
    CHECK_CLASS(MPI_ERR_SPAWN, MPI_Comm_spawn(self, MPI_ARGV_NULL, 2, nowhere, 0, MPI_COMM_WORLD,
                                              &inter, codes));
    CHECK_OK(MPI_Info_free(&nowhere));
    CHECK_CLASS(MPI_ERR_ROOT, MPI_Comm_spawn(self, MPI_ARGV_NULL, 1, MPI_INFO_NULL, check_size,
                                             MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
    CHECK_CLASS(MPI_ERR_ARG, MPI_Comm_spawn(self, MPI_ARGV_NULL, -1, MPI_INFO_NULL, 0,
                                            MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
}

int main(int argc, char** argv) {
    MPI_Comm parent;
    start(&argc, &argv);
    snprintf(self, sizeof self, "%s", argv[0]);
    CHECK_OK(MPI_Comm_get_parent(&parent));
    if (parent != MPI_COMM_NULL) {
        child(argc > 1 ? argv[1] : "", parent);
        MPI_Finalize();
        return check_failures != 0;
    }
    spawn(MPI_COMM_WORLD, "talk", 1, 0);
    spawn(MPI_COMM_WORLD, "talk", 3, check_size - 1);
    spawn(MPI_COMM_WORLD, "grand", 2, 0);
    multiple();
    bystanders();
    errors();
    return finish();
}
