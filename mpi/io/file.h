// mpi/io/file.h: an MPI file: an open file of each member, a view, pointers, and who shares it.
// Idea: independent accesses are POSIX calls of this process alone (access.cc); collective ones
// first agree on what everybody wants and then either do the same, or exchange data so that a few
// members transfer large pieces (collective.cc). The shared pointer is a word in an RMA window at
// rank 0, so that it needs no file of its own and costs one atomic addition on one machine.
// Offsets of MPI count etypes; inside, positions count bytes of the view's stream (view.h).
// Pointers are guarded by a mutex, so that threads may share a handle.
#pragma once

#include "mpi/io/hints.h"
#include "mpi/io/posix.h"
#include "mpi/io/view.h"
#include "mpi/object/communicator.h"
#include "mpi/object/errhandler.h"
#include "mpi/p2p/engine.h"

#include <atomic>
#include <mutex>

namespace pomona {

class Window;

// One transfer between memory and a piece of the view's stream.
struct Transfer {
    bool write = false;
    Data memory;
    MPI_Offset position = 0;  // bytes of the stream
    MPI_Offset length = 0;
};

// What a split collective leaves between its begin and its end.
struct SplitAccess {
    enum class Kind {
        none,
        read_at_all,
        read_all,
        read_ordered,
        write_at_all,
        write_all,
        write_ordered
    };
    Kind kind = Kind::none;
    const void* buffer = nullptr;
    MPI_Count bytes = 0;
};

class File final : public Object {
public:
    // Collective: `comm` is the file's own, taken over. The result is the same at all members.
    static IoError open(Ref<Communicator> comm, const std::string& name, int amode,
                        const Info* given, File*& out);
    // Collective. The handle is of no use afterwards, whatever the result.
    IoError close();
    ~File() override;

    Communicator& comm() { return *comm_; }
    const std::string& name() const { return name_; }
    int amode() const { return amode_; }
    bool readable() const { return (amode_ & MPI_MODE_WRONLY) == 0; }
    bool writable() const { return (amode_ & MPI_MODE_RDONLY) == 0; }
    bool sequential() const { return (amode_ & MPI_MODE_SEQUENTIAL) != 0; }
    const View& view() const { return view_; }

    // Collective, except size().
    IoError set_view(MPI_Offset displacement, Datatype* etype, Datatype* filetype,
                     const std::string& datarep, const Info* given, const IoError& own_fault);
    IoError size(MPI_Offset& bytes) const;
    IoError set_size(MPI_Offset bytes);
    IoError preallocate(MPI_Offset bytes);
    IoError sync();
    IoError set_atomicity(bool atomic);
    bool atomic() const { return atomic_; }
    void set_info(const Info* given) { hints_.take(given); }
    Ref<Info> info() const { return hints_.told(comm_->size()); }

    // ---- pointers, in etypes
    MPI_Offset position();
    // Moves the individual pointer; the result is where it was.
    MPI_Offset advance(MPI_Offset etypes);
    IoError seek(MPI_Offset offset, int whence);
    IoError shared_position(MPI_Offset& etypes);
    IoError advance_shared(MPI_Offset etypes, MPI_Offset& before);
    IoError seek_shared(MPI_Offset offset, int whence);  // collective

    // ---- data; `bytes` tells how many bytes of the memory's type were transferred
    IoError transfer(Transfer access, MPI_Count& bytes);
    // Collective; a member whose arguments were wrong takes part with `own_fault`.
    IoError transfer_all(Transfer access, const IoError& own_fault, MPI_Count& bytes);
    // The same at the shared pointer, by rank; access.position is set here.
    IoError transfer_ordered(Transfer access, const IoError& own_fault, MPI_Count& bytes);

    Ref<Errhandler> errhandler;
    SplitAccess split;

private:
    File(Ref<Communicator> comm, std::string name, int amode);
    friend class TwoPhase;

    // file.cc
    IoError open_everywhere();
    IoError start_pointers();
    IoError agree(const IoError& mine);
    IoError same_everywhere(MPI_Offset value, const char* what);
    IoError at_root(const char* doing, int os_errno);
    IoError end_position(MPI_Offset& etypes) const;
    IoError target_of(MPI_Offset offset, int whence, MPI_Offset now, MPI_Offset& etypes) const;
    IoError shared_update(bool replace, MPI_Offset value, MPI_Offset& before);
    IoError io_failure(const char* doing, int os_errno) const;

    // collective.cc
    IoError transfer_bytes_all(const Transfer& access, const IoError& own_fault, MPI_Offset& done);

    // access.cc
    IoError transfer_bytes(const Transfer& access, MPI_Offset& done);
    IoError transfer_stream(const Transfer& access, MPI_Offset& done);
    IoError write_stream(MPI_Offset position, const std::byte* from, MPI_Offset length);
    IoError read_stream(MPI_Offset position, std::byte* to, MPI_Offset length, MPI_Offset& done);

    Ref<Communicator> comm_;
    std::string name_;
    int amode_;
    PosixFile posix_;
    View view_;
    Hints hints_;
    bool atomic_ = false;
    std::mutex atomic_access_;  // held during an access in atomic mode
    std::mutex mutex_;
    MPI_Offset pointer_ = 0;       // the individual one, in etypes; by mutex_
    Window* window_ = nullptr;     // holds the shared pointer at rank 0
    MPI_Offset shared_alone_ = 0;  // the shared pointer of a file with one member; by mutex_
};

}  // namespace pomona
