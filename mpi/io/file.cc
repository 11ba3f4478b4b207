// mpi/io/file.cc: opening and closing, views, sizes, pointers.
// Collective calls agree on the worst error, so that all members go on alike.
#include "mpi/io/file.h"

#include "btl/base/format.h"
#include "mpi/object/contexts.h"
#include "mpi/rma/window.h"
#include "mpi/runtime/collectives.h"
#include "mpi/runtime/process.h"

#include <algorithm>
#include <fcntl.h>
#include <unistd.h>

namespace pomona {

static const char kMemberGone[] = "a member of the file's communicator has ended";

File::File(Ref<Communicator> comm, std::string name, int amode)
    : Object(Kind::file), comm_(std::move(comm)), name_(std::move(name)), amode_(amode) {
    hints_.filename = name_;
}

File::~File() {
    Engine::Hold hold(comm_->process.engine);
    comm_ = {};
}

IoError File::io_failure(const char* doing, int os_errno) const {
    return os_errno ? io_error(doing, name_, os_errno) : IoError{};
}

// ---- agreement

// Everybody's error, or the first other member's.
IoError File::agree(const IoError& mine) {
    std::vector<int> all(static_cast<size_t>(comm_->size()));
    if (int error = run_allgather(*comm_, &mine.error, all.data(), sizeof mine.error))
        return {error, kMemberGone};
    if (mine) return mine;
    for (size_t rank = 0; rank < all.size(); ++rank)
        if (all[rank] != MPI_SUCCESS)
            return {all[rank], format("rank {} failed with \"{}\"", rank, name_)};
    return {};
}

IoError File::same_everywhere(MPI_Offset value, const char* what) {
    std::vector<MPI_Offset> all(static_cast<size_t>(comm_->size()));
    if (int error = run_allgather(*comm_, &value, all.data(), sizeof value))
        return {error, kMemberGone};
    for (size_t rank = 0; rank < all.size(); ++rank)
        if (all[rank] != all[0])
            return {MPI_ERR_NOT_SAME, format("{} must be the same on all ranks; rank 0 has {} and "
                                             "rank {} has {}",
                                             what, all[0], rank, all[rank])};
    return {};
}

// What rank 0 found out, for all.
IoError File::at_root(const char* doing, int os_errno) {
    if (int error = run_bcast(*comm_, &os_errno, sizeof os_errno, 0)) return {error, kMemberGone};
    return io_failure(doing, os_errno);
}

// ---- opening and closing

static int open_flags(int amode) {
    if (amode & MPI_MODE_RDONLY) return O_RDONLY;
    return amode & MPI_MODE_WRONLY ? O_WRONLY : O_RDWR;
}

// Rank 0 creates, so that MPI_MODE_EXCL means the whole job; then the others open what is there.
IoError File::open_everywhere() {
    bool root = comm_->rank() == 0;
    int failed = 0;
    if (root) {
        int flags = open_flags(amode_);
        if (amode_ & MPI_MODE_CREATE) flags |= O_CREAT;
        if (amode_ & MPI_MODE_EXCL) flags |= O_EXCL;
        failed = posix_.open(name_.c_str(), flags, hints_.permissions);
    }
    if (IoError error = at_root("Cannot open", failed)) return error;
    if (!root) failed = posix_.open(name_.c_str(), open_flags(amode_), 0);
    return comm_->size() == 1 ? IoError{} : agree(io_failure("Cannot open", failed));
}

IoError File::start_pointers() {
    MPI_Offset end = 0;
    if (amode_ & MPI_MODE_APPEND) {
        if (int failed = posix_.size(end)) return io_failure("Cannot get the size of", failed);
        // Rank 0's, as somebody else may be writing.
        if (int error = run_bcast(*comm_, &end, sizeof end, 0)) return {error, kMemberGone};
    }
    pointer_ = shared_alone_ = end;
    if (comm_->size() == 1) return {};
    uint64_t context = child_context(comm_->context(), ++comm_->children);
    Ref<Communicator> own;
    {
        Engine::Hold hold(comm_->process.engine);
        own = Ref(new Communicator(comm_->process, context, comm_->group, {}));
    }
    RmaError why;
    bool root = comm_->rank() == 0;
    window_ = Window::make(std::move(own),
                           {.flavor = MPI_WIN_FLAVOR_ALLOCATE,
                            .size = root ? static_cast<MPI_Aint>(sizeof end) : 0,
                            .unit = sizeof end},
                           why);
    if (!window_)
        return {why.error,
                format("Cannot make the shared pointer of \"{}\": {}", name_, why.reason)};
    if (RmaError error = window_->lock_all(MPI_MODE_NOCHECK)) return {error.error, error.reason};
    MPI_Offset before;
    if (root)
        if (IoError error = shared_update(true, end, before)) return error;
    return {run_barrier(*comm_), kMemberGone};
}

IoError File::open(Ref<Communicator> comm, const std::string& name, int amode, const Info* given,
                   File*& out) {
    Ref<File> made(new File(std::move(comm), name, amode));
    made->hints_.take(given);
    if (made->comm_->size() > 1)
        if (IoError error = made->same_everywhere(amode, "amode")) return error;
    if (IoError error = made->open_everywhere()) return error;
    if (IoError error = made->start_pointers()) return error;
    out = made.detach();
    return {};
}

// All data of this process are in the system when the others leave the barrier.
IoError File::close() {
    IoError result;
    if (window_) {
        window_->unlock_all();
        if (RmaError error = window_->free()) result = {error.error, error.reason};
        window_->release();
        window_ = nullptr;
    }
    int failed = posix_.close();
    if (comm_->size() > 1) {
        IoError agreed = agree(result ? result : io_failure("Cannot close", failed));
        if (agreed || !(amode_ & MPI_MODE_DELETE_ON_CLOSE)) return agreed;
    } else if (failed) {
        return io_failure("Cannot close", failed);
    }
    if (!(amode_ & MPI_MODE_DELETE_ON_CLOSE)) return result;
    failed = 0;
    if (comm_->rank() == 0 && unlink(name_.c_str()) != 0) failed = errno;
    return at_root("Cannot delete", failed);
}

// ---- views

IoError File::set_view(MPI_Offset displacement, Datatype* etype, Datatype* filetype,
                       const std::string& datarep, const Info* given, const IoError& own_fault) {
    IoError error = own_fault;
    View made;
    if (!error && displacement == MPI_DISPLACEMENT_CURRENT) {
        // Where the shared pointer is, in bytes, after everybody's last use of it.
        MPI_Offset shared = 0;
        if (!sequential())
            error = {MPI_ERR_DISP,
                     "MPI_DISPLACEMENT_CURRENT needs a file opened with MPI_MODE_SEQUENTIAL"};
        else if (int gone = comm_->size() > 1 ? run_barrier(*comm_) : MPI_SUCCESS)
            error = {gone, kMemberGone};
        else if (!(error = shared_position(shared)))
            displacement = view_.locate(shared * view_.etype_size());
    } else if (!error && sequential()) {
        error = {
            MPI_ERR_UNSUPPORTED_OPERATION,
            "the file was opened with MPI_MODE_SEQUENTIAL: disp must be MPI_DISPLACEMENT_CURRENT"};
    }
    if (!error) error = View::make(displacement, *etype, *filetype, datarep, writable(), made);
    if (comm_->size() > 1) {
        struct Told {
            int64_t error, etype_size, datarep;
        };
        Told mine{error.error, made.etype_size(), static_cast<int64_t>(hash_text(0, datarep) >> 1)};
        std::vector<Told> all(static_cast<size_t>(comm_->size()));
        if (int gone = run_allgather(*comm_, &mine, all.data(), sizeof mine))
            return {gone, kMemberGone};
        for (size_t rank = 0; rank < all.size() && !error; ++rank) {
            if (all[rank].error)
                error = {static_cast<int>(all[rank].error),
                         format("rank {} cannot set its view of \"{}\"", rank, name_)};
        }
        for (const Told& each : all)
            if (!error && (each.etype_size != all[0].etype_size || each.datarep != all[0].datarep))
                error = {MPI_ERR_NOT_SAME,
                         "the etype's extent and datarep must be the same on all ranks"};
    }
    if (error) return error;
    {
        std::lock_guard guard(mutex_);
        view_ = std::move(made);
        pointer_ = shared_alone_ = 0;
        hints_.take(given);
    }
    if (!window_) return {};
    // Everybody is here, so nobody uses the shared pointer; nobody leaves before it is reset.
    MPI_Offset before;
    if (comm_->rank() == 0) error = shared_update(true, 0, before);
    return agree(error);
}

// ---- sizes

IoError File::size(MPI_Offset& bytes) const {
    return io_failure("Cannot get the size of", posix_.size(bytes));
}

IoError File::set_size(MPI_Offset bytes) {
    if (IoError error = same_everywhere(bytes, "size")) return error;
    return at_root("Cannot set the size of", comm_->rank() == 0 ? posix_.truncate(bytes) : 0);
}

IoError File::preallocate(MPI_Offset bytes) {
    if (IoError error = same_everywhere(bytes, "size")) return error;
    return at_root("Cannot preallocate", comm_->rank() == 0 ? posix_.preallocate(bytes) : 0);
}

IoError File::sync() {
    return agree(writable() ? io_failure("Cannot synchronise", posix_.sync()) : IoError{});
}

// Tried at once, so that a file system without locks is found here and not in an access.
IoError File::set_atomicity(bool atomic) {
    if (IoError error = same_everywhere(atomic, "flag")) return error;
    IoError mine;
    if (atomic) {
        int failed = posix_.lock(0, 1, writable());
        mine = io_failure("Cannot lock", failed);
        if (!failed) posix_.unlock(0, 1);
    }
    mine = agree(mine);
    if (!mine) atomic_ = atomic;
    return mine;
}

// ---- pointers

MPI_Offset File::position() {
    std::lock_guard guard(mutex_);
    return pointer_;
}

MPI_Offset File::advance(MPI_Offset etypes) {
    std::lock_guard guard(mutex_);
    MPI_Offset before = pointer_;
    pointer_ += etypes;
    return before;
}

// The first etype of the view that is not wholly before the end of the file.
IoError File::end_position(MPI_Offset& etypes) const {
    MPI_Offset bytes = 0;
    if (IoError error = size(bytes)) return error;
    MPI_Offset stream = view_.filetype_size() == 0 ? 0 : view_.first_at(bytes);
    etypes = (stream + view_.etype_size() - 1) / view_.etype_size();
    return {};
}

IoError File::target_of(MPI_Offset offset, int whence, MPI_Offset now, MPI_Offset& etypes) const {
    MPI_Offset base = whence == MPI_SEEK_CUR ? now : 0;
    if (whence == MPI_SEEK_END)
        if (IoError error = end_position(base)) return error;
    if (__builtin_add_overflow(base, offset, &etypes) || etypes < 0)
        return {MPI_ERR_ARG,
                format("offset {} from {} leads before the beginning of the view or too "
                       "far",
                       offset, base)};
    return {};
}

IoError File::seek(MPI_Offset offset, int whence) {
    std::lock_guard guard(mutex_);
    MPI_Offset target;
    if (IoError error = target_of(offset, whence, pointer_, target)) return error;
    pointer_ = target;
    return {};
}

// Adds to the shared pointer, or replaces it; tells what it was.
IoError File::shared_update(bool replace, MPI_Offset value, MPI_Offset& before) {
    if (!window_) {
        std::lock_guard guard(mutex_);
        before = shared_alone_;
        shared_alone_ = replace ? value : before + value;
        return {};
    }
    auto& word = Datatype::of(MPI_INT64_T);
    RmaAccess access;
    access.kind = RmaKind::get_accumulate;
    access.op = replace ? ReduceOp::replace : ReduceOp::sum;
    access.origin = {&value, 1, &word};
    access.result = {&before, 1, &word};
    access.count = 1;
    access.type = &word;
    RmaError error = window_->access(access);
    if (!error) error = window_->flush(0, false);
    if (!error) return {};
    return {error.error,
            format("Cannot reach the shared pointer of \"{}\": {}", name_, error.reason)};
}

IoError File::shared_position(MPI_Offset& etypes) { return shared_update(false, 0, etypes); }

IoError File::advance_shared(MPI_Offset etypes, MPI_Offset& before) {
    return shared_update(false, etypes, before);
}

IoError File::seek_shared(MPI_Offset offset, int whence) {
    if (comm_->size() > 1) {
        if (IoError error = same_everywhere(offset, "offset")) return error;
        if (IoError error = same_everywhere(whence, "whence")) return error;
    }
    IoError error;
    if (comm_->rank() == 0) {
        MPI_Offset now = 0, target = 0;
        error = shared_position(now);
        if (!error) error = target_of(offset, whence, now, target);
        if (!error) error = shared_update(true, target, now);
    }
    return comm_->size() > 1 ? agree(error) : error;
}

}  // namespace pomona
