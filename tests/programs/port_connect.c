/* Goal: ports, published names and sockets: two halves of the world meet by accept and connect, and
 * by MPI_Comm_join; wrong ports and names are told. Method: the even ranks serve, the odd ones
 * call; with one process only what is local is done.
 */
#include "check.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static void meet(MPI_Comm half, int server, int round) {
    char port[MPI_MAX_PORT_NAME] = "", name[64];
    MPI_Comm inter;
    int mine, theirs, i, got, sum = 0;
    context("meeting %d", round);
    snprintf(name, sizeof name, "tests/meeting %d", round);
    CHECK_OK(MPI_Comm_rank(half, &mine));
    if (server && mine == 0) {
        CHECK_OK(MPI_Open_port(MPI_INFO_NULL, port));
        CHECK_OK(MPI_Publish_name(name, MPI_INFO_NULL, port));
        CHECK_CLASS(MPI_ERR_SERVICE, MPI_Publish_name(name, MPI_INFO_NULL, port));
    }
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD)); /* published */
    if (server) {
        CHECK_OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &inter));
    } else {
        if (mine == 0) CHECK_OK(MPI_Lookup_name(name, MPI_INFO_NULL, port));
        CHECK_OK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &inter));
    }
    CHECK_OK(MPI_Comm_remote_size(inter, &theirs));
    for (i = 0; i < theirs; ++i) {
        int word = check_rank * 100 + i;
        CHECK_OK(MPI_Sendrecv(&word, 1, MPI_INT, i, 3, &got, 1, MPI_INT, i, 3, inter, MPI_STATUS_IGNORE));
        CHECK_EQ((2 * i + server) * 100 + mine, got);
    }
    CHECK_OK(MPI_Allreduce(&check_rank, &sum, 1, MPI_INT, MPI_SUM, inter));
    CHECK_EQ(server ? theirs * theirs : theirs * (theirs - 1), sum);
    CHECK_OK(MPI_Comm_disconnect(&inter));
    if (server && mine == 0) {
        CHECK_OK(MPI_Unpublish_name(name, MPI_INFO_NULL, port));
        CHECK_OK(MPI_Close_port(port));
    }
}

/* Ranks 0 and 1 over a Unix socket whose name follows from the job's. */
static void join(void) {
    struct sockaddr_un address;
    int fd = -1, listener, got = -1, remote = 0;
    MPI_Comm inter;
    context("join");
    memset(&address, 0, sizeof address);
    address.sun_family = AF_UNIX;
    snprintf(address.sun_path, sizeof address.sun_path, "port_connect.%d.sock", (int)getpid());
    CHECK_OK(MPI_Bcast(address.sun_path, sizeof address.sun_path, MPI_CHAR, 0, MPI_COMM_WORLD));
    if (check_rank == 0) {
        listener = socket(AF_UNIX, SOCK_STREAM, 0);
        CHECK_EQ(0, bind(listener, (struct sockaddr*)&address, sizeof address));
        CHECK_EQ(0, listen(listener, 1));
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
        fd = accept(listener, NULL, NULL);
        close(listener);
        unlink(address.sun_path);
    } else {
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
        if (check_rank != 1) return;
        fd = socket(AF_UNIX, SOCK_STREAM, 0);
        CHECK_EQ(0, connect(fd, (struct sockaddr*)&address, sizeof address));
    }
    CHECK(fd >= 0);
    CHECK_OK(MPI_Comm_join(fd, &inter));
    CHECK(inter != MPI_COMM_NULL);
    CHECK_OK(MPI_Comm_remote_size(inter, &remote));
    CHECK_EQ(1, remote);
    CHECK_OK(MPI_Sendrecv(&check_rank, 1, MPI_INT, 0, 0, &got, 1, MPI_INT, 0, 0, inter, MPI_STATUS_IGNORE));
    CHECK_EQ(1 - check_rank, got);
    CHECK_OK(MPI_Comm_disconnect(&inter));
    close(fd);
}

/* A port where nobody accepts, and one that is closed while somebody waits there. */
static void nobody(void) {
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm inter = MPI_COMM_WORLD;
    context("nobody accepts");
    CHECK_OK(MPI_Open_port(MPI_INFO_NULL, port));
    CHECK_CLASS(MPI_ERR_PORT, MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter));
    CHECK(inter == MPI_COMM_NULL);
    CHECK_OK(MPI_Close_port(port));
    if (check_size < 2) return;
    context("closed while somebody waits");
    if (check_rank == 0) {
        CHECK_OK(MPI_Open_port(MPI_INFO_NULL, port));
        CHECK_OK(MPI_Send(port, sizeof port, MPI_CHAR, 1, 9, MPI_COMM_WORLD));
        sleep(1);
        CHECK_OK(MPI_Close_port(port));
    } else if (check_rank == 1) {
        CHECK_OK(MPI_Recv(port, sizeof port, MPI_CHAR, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_CLASS(MPI_ERR_PORT, MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter));
        CHECK(inter == MPI_COMM_NULL);
    }
}

int main(int argc, char** argv) {
    char port[MPI_MAX_PORT_NAME], other[MPI_MAX_PORT_NAME];
    MPI_Comm half, inter = MPI_COMM_WORLD;
    setenv("POMONA_PORT_TIMEOUT_S", "2", 1);
    start(&argc, &argv);
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    context("local");
    CHECK_OK(MPI_Open_port(MPI_INFO_NULL, port));
    CHECK_OK(MPI_Open_port(MPI_INFO_NULL, other));
    CHECK(strcmp(port, other) != 0);
    CHECK_OK(MPI_Close_port(port));
    CHECK_OK(MPI_Close_port(other));
    CHECK_CLASS(MPI_ERR_PORT, MPI_Close_port(port));
    CHECK_CLASS(MPI_ERR_NAME, MPI_Lookup_name("tests/nobody", MPI_INFO_NULL, other));
    CHECK_CLASS(MPI_ERR_SERVICE, MPI_Unpublish_name("tests/nobody", MPI_INFO_NULL, port));
    CHECK_CLASS(MPI_ERR_PORT, MPI_Comm_connect("nowhere", MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter));
    CHECK(inter == MPI_COMM_NULL);
    if (check_size % 2 == 0) {
        int round;
        CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, 0, &half));
        for (round = 0; round < 3; ++round) meet(half, check_rank % 2 == 0, round);
        CHECK_OK(MPI_Comm_free(&half));
        join();
    }
    nobody();
    return finish();
}
