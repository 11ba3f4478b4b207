// transit.h: how an operation's tensors get to where MPI can use them, and back.
// Idea: flat CPU tensors are used where they lie, and nothing is allocated here. Others bring
// steps: what the work does when MPI is done (divide, copy to strided CPU tensors), or, for a
// device's tensors, stages of the work's Flow. Devices without side streams are read at once and
// written by a thread of the user's, in its stream's order.
#pragma once

#include "torch_glue/exact_sums.h"
#include "torch_glue/exchange.h"
#include "torch_glue/overlap.h"
#include "torch_glue/tensor.h"
#include "torch_glue/work.h"

#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace pomona::glue {

// A list of tensors as one MPI buffer with counts and displacements in bytes, without a copy:
// displacements count from the lowest address.
struct Slots {
    void* base = nullptr;
    std::vector<MPI_Count> counts;
    std::vector<MPI_Aint> offsets;
    std::vector<at::Tensor> host;
};

at::Tensor plain(const at::Tensor& t);  // contiguous, and what it says
MPI_Count bytes_of_all(const std::vector<at::Tensor>& tensors);
at::Tensor flat_room(const at::Tensor& t);  // itself if it is plain, else room for its values
at::Tensor empty_like_plain(const at::Tensor& t);  // room for its values, always other memory

class Transit {
public:
    explicit Transit(GlueWork& work) : work_(work) {}

    // Flat host memory with the tensor's values, when MPI is called: its own or a copy.
    at::Tensor readable(const at::Tensor& t);
    // Flat host memory of the tensor's size: its own or new.
    at::Tensor room(const at::Tensor& t);
    // Memory like the room `host` of `t`, but not the tensor's own.
    at::Tensor other_room(const at::Tensor& host, const at::Tensor& t);

    // When MPI is done, in this order:
    void divide(const at::Tensor& host, int64_t divisor);
    void copy(const at::Tensor& host, const at::Tensor& target);  // unless they are the same memory

    Slots readable(const std::vector<at::Tensor>& tensors);
    // Rooms that share no byte with each other, nor with what is `read` meanwhile, unless that is
    // all of tensor `own`.
    Slots room(const std::vector<at::Tensor>& tensors, const std::vector<at::Tensor>& read = {},
               int own = -1);
    // The same for two tensors of one device, when `from` has its result.
    void copy_after(const at::Tensor& from, const at::Tensor& target);
    void copies(const Slots& slots, const std::vector<at::Tensor>& targets);

    // Tensors whose reduction goes in pieces: `call` starts one piece, in place.
    using ReducePiece = std::function<int(void*, MPI_Count, MPI_Comm, MPI_Request*)>;
    void reduce_in_pieces(const at::Tensor& t, MPI_Count piece_bytes, int64_t divisor,
                          const ReducePiece& call);

    // Operations by devices that read each other's memory, on flat tensors of theirs; by `by_host`
    // where a rank's tensor is elsewhere. The work's only part. `then` adds what comes after it,
    // not after `by_host`. A sum in place:
    using Later = std::function<void(Transit&)>;
    void sum_by_peers(const std::shared_ptr<PeerRing>& ring, const at::Tensor& flat,
                      int64_t divisor, const Later& by_host, const Later& then);
    void gather_by_peers(const std::shared_ptr<PeerRing>& ring,
                         const std::vector<at::Tensor>& outputs, const at::Tensor& flat,
                         const Later& by_host, const Later& then);
    void scatter_sums_by_peers(const std::shared_ptr<PeerRing>& ring, const at::Tensor& output,
                               const std::vector<at::Tensor>& inputs, int64_t divisor,
                               const Later& by_host, const Later& then);
    void broadcast_by_peers(const std::shared_ptr<PeerRing>& ring, const at::Tensor& flat, int root,
                            const Later& by_host, const Later& then);
    // By the host too, where no rank has `told_from` bytes.
    void all_to_all_by_peers(const std::shared_ptr<PeerRing>& ring,
                             const std::vector<at::Tensor>& outputs,
                             const std::vector<at::Tensor>& flat, int64_t told_from,
                             const Later& by_host, const Later& then);

    // Sums as whole numbers, of float32, float64 and complex tensors. First, with all tensors of
    // the operation, which may have sums of other kinds beside them:
    void begin_exact_sums(const std::vector<at::Tensor>& tensors, int rank, int64_t piece_bytes);
    // `output`: undefined where this rank gets nothing. `room`: for the result before it is copied
    // there; undefined: that of the source.
    void sum_exactly(const at::Tensor& source, const at::Tensor& room, const at::Tensor& output,
                     ExactSum sum);

    void install();  // the last word, before launch()

private:
    void by_peers(const std::shared_ptr<PeerRing>& ring, Flow& flow, Exchange::Acts acts,
                  const Later& by_host, const Later& then);

    using Copies = std::vector<std::pair<at::Tensor, at::Tensor>>;
    static void copy_all(const Copies& copies);
    void pieces_on_host(const at::Tensor& host, MPI_Count count, const ReducePiece& call);
    void pieces_by_streams(const at::Tensor& t, MPI_Count count, int64_t divisor,
                           const ReducePiece& call);
    void store(const at::Tensor& target, const at::Tensor& from);

    GlueWork& work_;
    std::vector<std::pair<at::Tensor, int64_t>> divisions_;
    Copies host_copies_;
    Copies device_copies_;
    Flow* exact_flow_ = nullptr;
    int exact_rank_ = 0;
    int64_t exact_bytes_ = 0;
    std::vector<ExactSum> exact_sums_;
};

}  // namespace pomona::glue
