// mpi/runtime/life.cc: where a rank's life file stands.
#include "mpi/runtime/life.h"

#include "btl/shm/shm.h"
#include "pmix/wireup/origin.h"

namespace pomona {

Life life_of(const Process& process, int rank) {
    return LifeFile::look(life_path(process.job().directory, rank), incarnation_here());
}

}  // namespace pomona
