// mpi/io/external.h: views in the data representation "external32" (MPI 5.0, section 14.5).
// Idea: a filetype's form in the file is the same constructor calls on basic types of the
// standard's sizes, as the standard describes it; data are converted in memory, around a transfer
// of bytes.
#pragma once

#include "mpi/io/file.h"

namespace pomona {

// The type as it lies in such a file. Displacements in bytes stay what the user said they are.
Datatype::Made external_form(Datatype& type);

// A transfer of converted data. Made before it and finished after it.
class ExternalTransfer {
public:
    // `access` moves the bytes then.
    explicit ExternalTransfer(Transfer& access);
    // After a read: converts what has arrived. `bytes` become bytes of the user's type.
    void finish(MPI_Count& bytes);

private:
    Data user_;
    bool write_;
    size_t element_;
    std::vector<std::byte> buffer_;
};

}  // namespace pomona
