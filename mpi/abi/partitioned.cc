// mpi/abi/partitioned.cc: partitioned communication (MPI 5.0, section 4.2).
// Idea: a pair of requests has a context of its own, named by communicator, ranks, tag and how many
// such pairs there were, so nothing can be matched wrongly. The sender says once how it cuts the
// message (hello); afterwards each of its partitions is a message, sent when it is ready, and a
// partition of the receiver has arrived when all that overlap it have.
#include "mpi/abi/define.h"
#include "mpi/abi/p2p_arguments.h"
#include "mpi/object/contexts.h"
#include "mpi/runtime/process.h"

using namespace pomona;

namespace {

class PartitionedRequest final : public Request {
public:
    struct Options {
        Communicator* comm;
        Data data;  // of all partitions
        int partitions;
        int peer;  // or MPI_PROC_NULL
        int tag;
        bool is_send;
    };

    explicit PartitionedRequest(const Options& options)
        : Request(options.comm), is_send(options.is_send), partitions(options.partitions),
          data_(options.data), rank_(options.peer), tag_(options.tag) {
        persistent_ = inactive_ = true;
        done_.store(1, std::memory_order_relaxed);  // nobody else has seen it yet
        comm_->retain();
        const_cast<Datatype*>(data_.type)->retain();
        bytes_ = static_cast<size_t>(data_.count) * static_cast<size_t>(data_.type->size());
        hello_leg_.owner = this;
        hello_leg_.function = hello_over;
        if (rank_ == MPI_PROC_NULL) return;
        peer_ = comm_->peers[static_cast<size_t>(rank_)];
        name_context();
        if (!is_send) return;
        cut(static_cast<uint64_t>(partitions), bytes_);
        Engine::Hold hold(engine());
        retain();  // until the hello has left
        engine().send_step(*peer_, context_, 0, kHelloTag, hello_bytes(), hello_leg_);
    }
    // With the engine held.
    ~PartitionedRequest() override {
        if (peer_) engine().drop_context(context_);
        const_cast<Datatype*>(data_.type)->release();
        comm_->release();
    }

    int start() override {
        done_.store(0, std::memory_order_relaxed);  // the caller holds the engine
        inactive_ = false;
        outcome_ = {};
        outcome_.source = rank_;
        outcome_.tag = rank_ == MPI_PROC_NULL ? MPI_ANY_TAG : tag_;
        engine().hold_for_engine(*this);
        std::fill(over_.begin(), over_.end(), false);
        left_ = over_.size();
        if (!peer_ || (is_send && left_ == 0)) {
            engine().complete(*this);
        } else if (is_send) {
            ready_.assign(over_.size(), false);
        } else if (hello_known_) {
            receive_all();
        } else {
            engine().recv_step(*peer_, context_, 0, kHelloTag, hello_bytes(), hello_leg_);
        }
        return MPI_SUCCESS;
    }

    // False when it is ready already. Threads make partitions ready at the same time.
    bool make_ready(int partition) {
        if (!peer_) return true;
        Engine::Hold hold(engine());
        auto index = static_cast<size_t>(partition);
        if (ready_[index]) return false;
        ready_[index] = true;
        Bytes piece = this->piece(index);
        if (!staging_.empty()) data_.type->pack(data_.buffer, data_.count, offset_of(index), piece);
        engine().send_step(*peer_, context_, 0, kFirstTag + partition, piece, legs_[index]);
        return true;
    }
    // With the engine held.
    bool arrived(int partition) const {
        if (done() || !peer_) return true;
        if (!hello_known_) return false;
        for (size_t i = 0; i < over_.size(); ++i)
            if (!over_[i] && overlaps(i, static_cast<size_t>(partition))) return false;
        return true;
    }
    void describe(Waiting& out) const override {
        out.operation = is_send ? "MPI_Psend_init" : "MPI_Precv_init";
        out.communicator = name_for_people(*comm_);
        out.detail = message_text({is_send ? "to" : "from", rank_, tag_, bytes_});
        // A send waits for the program's own partitions, too.
        out.releases = is_send;
        if (peer_) out.await(peer_->rank, is_send ? Need::receive : Need::message);
    }
    // Whether the sender's piece reaches into the receiver's partition; where there are no bytes,
    // both sides share the empty message by their numbers.
    bool overlaps(size_t index, size_t partition) const {
        size_t each = bytes_ / static_cast<size_t>(partitions), piece = piece_bytes_;
        if (piece == 0) piece = static_cast<size_t>(partitions), each = over_.size();
        return index * piece < (partition + 1) * each && partition * each < (index + 1) * piece;
    }

    Engine& engine() const { return comm_->process.engine; }

    const bool is_send;
    const int partitions;

private:
    enum : int { kHelloTag = 0, kFirstTag = 1 };
    struct Leg : coll::Completion {
        PartitionedRequest* owner = nullptr;
        size_t index = 0;
    };
    struct Hello {
        uint64_t partitions = 0;
        uint64_t bytes = 0;
    };

    void recycle() override {
        Engine::Hold hold(engine());
        delete this;
    }

    // The k-th MPI_Psend_init of these ranks and this tag belongs to the k-th MPI_Precv_init.
    void name_context() {
        int from = is_send ? comm_->rank() : rank_, to = is_send ? rank_ : comm_->rank();
        uint64_t name = hash_text(comm_->context(), "partitioned");
        for (int each : {from, to, tag_}) name = combine(name, static_cast<uint64_t>(each));
        context_ = child_context(name, comm_->process.next_use(combine(name, is_send)));
    }

    Bytes hello_bytes() { return {reinterpret_cast<std::byte*>(&hello_), sizeof hello_}; }
    size_t offset_of(size_t index) const { return index * piece_bytes_; }
    // Where a piece lies: the user's memory or, for types with gaps, the staging.
    Bytes piece(size_t index) {
        std::byte* base = staging_.empty()
                              ? static_cast<std::byte*>(data_.buffer) + data_.type->true_lb()
                              : staging_.data();
        return {base + offset_of(index), piece_bytes_};
    }

    // How the message travels: `count` pieces of equal length.
    void cut(uint64_t count, uint64_t bytes) {
        hello_ = {count, bytes};
        piece_bytes_ = count ? bytes / count : 0;
        over_.assign(count, false);
        legs_.resize(count);
        for (size_t i = 0; i < count; ++i) {
            legs_[i].function = piece_over;
            legs_[i].owner = this;
            legs_[i].index = i;
        }
        left_ = count;
        if (!data_.type->contiguous(data_.count)) staging_.resize(bytes);
    }

    void receive_all() {
        if (left_ == 0) return engine().complete(*this);
        // One more, so that completions within the loop do not end the request under it.
        ++left_;
        for (size_t i = 0; i < over_.size(); ++i)
            engine().recv_step(*peer_, context_, 0, kFirstTag + static_cast<int>(i), piece(i),
                               legs_[i]);
        if (--left_ == 0) engine().complete(*this);
    }

    static void hello_over(coll::Completion* self, const Error* error) {
        PartitionedRequest& own = *static_cast<Leg*>(self)->owner;
        if (own.is_send) return own.engine().release_held(own);
        Hello& hello = own.hello_;
        if (error) {
            own.end(MPIX_ERR_PROC_FAILED, "The source has ended");
        } else if (hello.bytes > own.bytes_ || hello.partitions > INT32_MAX - kFirstTag) {
            own.end(MPI_ERR_TRUNCATE, "The message is longer than the receive buffer");
        } else {
            own.cut(hello.partitions, hello.bytes);
            own.hello_known_ = true;
            own.outcome_.bytes = static_cast<MPI_Count>(hello.bytes);
            own.receive_all();
        }
    }
    void end(int error, const char* reason) {
        outcome_.error = error;
        outcome_.reason = reason;
        engine().complete(*this);
    }

    static void piece_over(coll::Completion* self, const Error* error) {
        Leg& leg = *static_cast<Leg*>(self);
        PartitionedRequest& own = *leg.owner;
        if (error) {
            own.outcome_.error = MPIX_ERR_PROC_FAILED;
            own.outcome_.reason = "The other process has ended";
        } else if (!own.is_send) {
            own.outcome_.bytes = static_cast<MPI_Count>(own.hello_.bytes);
            if (!own.staging_.empty())
                own.data_.type->unpack(own.data_.buffer, own.data_.count, own.offset_of(leg.index),
                                       own.piece(leg.index));
        }
        own.over_[leg.index] = true;
        if (--own.left_ == 0) own.engine().complete(own);
    }

    Data data_;
    int rank_;
    int tag_;
    Peer* peer_ = nullptr;
    uint64_t context_ = 0;
    size_t bytes_ = 0;
    Hello hello_;
    Leg hello_leg_;
    bool hello_known_ = false;  // receiver
    size_t piece_bytes_ = 0;
    std::vector<Leg> legs_;
    std::vector<bool> over_, ready_;
    size_t left_ = 0;
    std::vector<std::byte> staging_;
};

int init(const char* function, PartitionedRequest::Options options, MPI_Count count, MPI_Info info,
         MPI_Request* request) {
    Communicator* comm = options.comm;
    if (options.partitions <= 0)
        return fail(function, comm, MPI_ERR_ARG,
                    format("partitions is {}; it must be positive", options.partitions));
    if (!resolve(info) && info != MPI_INFO_NULL)
        return fail(function, comm, MPI_ERR_INFO, "info is not a valid info object");
    if (!request) return fail(function, comm, MPI_ERR_ARG, "request is a null pointer");
    if (options.tag < 0)
        return fail(function, comm, MPI_ERR_TAG,
                    "tag must not be negative; wildcards are not allowed");
    if (options.peer < 0 && options.peer != MPI_PROC_NULL)
        return fail(function, comm, MPI_ERR_RANK, "the rank must not be a wildcard");
    if (__builtin_mul_overflow(count, static_cast<MPI_Count>(options.partitions),
                               &options.data.count))
        return fail(function, comm, MPI_ERR_COUNT, "count times partitions is too large");
    *request = handle_of<MPI_Request>(new PartitionedRequest(options));
    return MPI_SUCCESS;
}

PartitionedRequest* resolve_partitioned(MPI_Request handle) {
    return dynamic_cast<PartitionedRequest*>(resolve(handle));
}

int make_ready(const char* function, PartitionedRequest& request, int partition) {
    if (partition < 0 || partition >= request.partitions)
        return fail(function, request.comm(), MPI_ERR_ARG,
                    format("partition is {}; the request has {}", partition, request.partitions));
    if (request.inactive())
        return fail(function, request.comm(), MPI_ERR_REQUEST, "request has not been started");
    if (!request.make_ready(partition))
        return fail(function, request.comm(), MPI_ERR_ARG,
                    format("partition {} is ready already", partition));
    return MPI_SUCCESS;
}

}  // namespace

POMONA_MPI(int, Psend_init_c, (const void* buf, int partitions, MPI_Count count,
                               MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                               MPI_Info info, MPI_Request* request)) {
    SendArguments a;
    if (int error = a.check(__func__, buf, count, datatype, dest, tag, comm);
        error && error != kChecked)
        return error;
    return init(__func__, {a.comm, a.data, partitions, dest, tag, true}, count, info, request);
}

POMONA_MPI(int, Precv_init_c, (void* buf, int partitions, MPI_Count count, MPI_Datatype datatype,
                               int source, int tag, MPI_Comm comm, MPI_Info info,
                               MPI_Request* request)) {
    RecvArguments a;
    if (int error = a.check(__func__, buf, count, datatype, source, tag, comm);
        error && error != kChecked)
        return error;
    return init(__func__, {a.comm, a.data, partitions, source, tag, false}, count, info, request);
}

#define PARTITIONED_SEND()                                                                         \
    REQUIRE_RUNNING();                                                                             \
    PartitionedRequest* sending = resolve_partitioned(request);                                    \
    REQUIRE(sending && sending->is_send, nullptr, MPI_ERR_REQUEST,                                 \
            "request is not of MPI_Psend_init")

POMONA_MPI(int, Pready, (int partition, MPI_Request request)) {
    PARTITIONED_SEND();
    return make_ready(__func__, *sending, partition);
}

POMONA_MPI(int, Pready_range, (int partition_low, int partition_high, MPI_Request request)) {
    PARTITIONED_SEND();
    for (int each = partition_low; each <= partition_high; ++each)
        if (int error = make_ready(__func__, *sending, each)) return error;
    return MPI_SUCCESS;
}

POMONA_MPI(int, Pready_list, (int length, const int array_of_partitions[], MPI_Request request)) {
    PARTITIONED_SEND();
    REQUIRE(length >= 0, sending->comm(), MPI_ERR_ARG, "length is {}", length);
    REQUIRE(array_of_partitions || length == 0, sending->comm(), MPI_ERR_ARG,
            "array_of_partitions is a null pointer");
    for (int i = 0; i < length; ++i)
        if (int error = make_ready(__func__, *sending, array_of_partitions[i])) return error;
    return MPI_SUCCESS;
}

POMONA_MPI(int, Parrived, (MPI_Request request, int partition, int* flag)) {
    REQUIRE_RUNNING();
    REQUIRE(flag, nullptr, MPI_ERR_ARG, "flag is a null pointer");
    if (request == MPI_REQUEST_NULL) return *flag = 1, MPI_SUCCESS;
    PartitionedRequest* receiving = resolve_partitioned(request);
    REQUIRE(receiving && !receiving->is_send, nullptr, MPI_ERR_REQUEST,
            "request is not of MPI_Precv_init");
    REQUIRE(partition >= 0 && partition < receiving->partitions, receiving->comm(), MPI_ERR_ARG,
            "partition is {}; the request has {}", partition, receiving->partitions);
    if (!receiving->arrived(partition)) receiving->engine().test_turn(UnfinishedOne{*receiving});
    Engine::Hold hold(receiving->engine());
    *flag = receiving->arrived(partition);
    return MPI_SUCCESS;
}
