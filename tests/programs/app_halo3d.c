/* Goal: the communication of hydrodynamics codes (LULESH): up to 26 neighbours, faces, edges and
 * corners posted non-blocking with separate buffers, completed by Waitall, a global minimum for the
 * time step. Method: each message tells who sent it for which side.
 */
#include "check.h"

enum { edge = 10, steps = 15 };

int main(int argc, char** argv) {
    int dims[3] = {0, 0, 0}, me[3], step, dx, dy, dz, k, i, count, sizes[26], peers[26], tags[26];
    double *out[26], *in[26], dt, least;
    MPI_Request r[52];
    start(&argc, &argv);
    CHECK_OK(MPI_Dims_create(check_size, 3, dims));
    me[0] = check_rank / (dims[1] * dims[2]);
    me[1] = check_rank / dims[2] % dims[1];
    me[2] = check_rank % dims[2];
    for (count = 0, dx = -1; dx <= 1; ++dx) {
        for (dy = -1; dy <= 1; ++dy) {
            for (dz = -1; dz <= 1; ++dz) {
                int x = me[0] + dx, y = me[1] + dy, z = me[2] + dz;
                int zeros = !dx + !dy + !dz;
                if (zeros == 3 || x < 0 || y < 0 || z < 0) continue;
                if (x >= dims[0] || y >= dims[1] || z >= dims[2]) continue;
                peers[count] = (x * dims[1] + y) * dims[2] + z;
                tags[count] = (dx + 1) * 9 + (dy + 1) * 3 + dz + 1;
                sizes[count] = zeros == 2 ? edge * edge : zeros == 1 ? edge : 1;
                out[count] = malloc(sizeof(double) * (size_t)sizes[count]);
                in[count] = malloc(sizeof(double) * (size_t)sizes[count]);
                ++count;
            }
        }
    }
    for (step = 0; step < steps; ++step) {
        for (k = 0; k < count; ++k) {
            /* The peer names this side with the mirrored tag. */
            CHECK_OK(MPI_Irecv(in[k], sizes[k], MPI_DOUBLE, peers[k], 26 - tags[k], MPI_COMM_WORLD,
                               &r[k]));
        }
        for (k = 0; k < count; ++k) {
            for (i = 0; i < sizes[k]; ++i) out[k][i] = step * 1e6 + check_rank * 1e3 + tags[k] + i * 0.001;
            CHECK_OK(MPI_Isend(out[k], sizes[k], MPI_DOUBLE, peers[k], tags[k], MPI_COMM_WORLD,
                               &r[count + k]));
        }
        CHECK_OK(MPI_Waitall(2 * count, r, MPI_STATUSES_IGNORE));
        for (k = 0; k < count; ++k) {
            for (i = 0; i < sizes[k]; ++i) {
                if (in[k][i] != step * 1e6 + peers[k] * 1e3 + (26 - tags[k]) + i * 0.001) break;
            }
            CHECK_EQ(sizes[k], i);
        }
        dt = 1.0 / (1 + (check_rank + step) % check_size);
        CHECK_OK(MPI_Allreduce(&dt, &least, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD));
        CHECK_NEAR(1.0 / check_size, least, 0);
    }
    for (k = 0; k < count; ++k) free(out[k]), free(in[k]);
    return finish();
}
