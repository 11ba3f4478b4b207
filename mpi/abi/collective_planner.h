// mpi/abi/collective_planner.h: the checks and decoding that the collective calls share
// (collective_plan.cc, neighbor_plan.cc). What a schedule works on: bytes for data movement
// (element = 1), elements of the type for reductions.
#pragma once

#include "mpi/abi/collective_plan.h"
#include "mpi/abi/p2p_arguments.h"
#include "mpi/runtime/unlike.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace pomona {

using coll::Collective;

// Decoding of one call.
struct Planner {
    const char* f;
    CollectivePlan& plan;
    coll::Shape& shape = plan.shape;
    Communicator* comm = nullptr;

    int begin(MPI_Comm handle, Collective collective) {
        if (int error = enter(f)) return error;
        comm = resolve(handle);
        if (!comm) return fail(f, nullptr, MPI_ERR_COMM, "comm is not a valid communicator");
        if (comm->revoked) return fail_revoked(f, comm);
        plan.comm = comm;
        shape.collective = collective;
        shape.rank = comm->rank();
        shape.size = comm->size();
        if (__builtin_expect(comm->process.checker != nullptr, 0)) begin_check();
        return MPI_SUCCESS;
    }

    bool inter() const { return comm->is_inter(); }
    // Ranks that blocks are numbered by.
    int partners() const { return comm->remote_size(); }

    // Of programs that are checked.
    [[gnu::cold, gnu::noinline]] void begin_check() {
        plan.check = std::make_unique<CollectiveCall>(mpi_name(f));
    }
    [[gnu::cold, gnu::noinline]] void note_operation() {
        plan.check->operation =
            plan.operation->predefined() ? plan.operation->name() : "a user's operation";
    }
    [[gnu::cold, gnu::noinline]] void note_memory(const Memory& memory) {
        plan.check->memory.push_back(memory);
    }
    // The memory that the call uses.
    void note(const void* address, MPI_Count elements, const Datatype& type, bool written) {
        if (__builtin_expect(plan.check != nullptr, 0))
            note_memory({address, elements, &type, written});
    }

    int root(int rank) {
        shape.root = rank;
        if (plan.check) plan.check->root = rank;
        bool right = rank >= 0 && rank < comm->remote_size();
        if (inter()) right = right || rank == MPI_ROOT || rank == MPI_PROC_NULL;
        if (right) return MPI_SUCCESS;
        return fail(f, comm, MPI_ERR_ROOT,
                    format("root is {}; the communicator has ranks 0 to {}", rank,
                           comm->remote_size() - 1));
    }
    // Does this process have the root's side of the data?
    bool is_root() const { return inter() ? shape.root == MPI_ROOT : shape.root == comm->rank(); }
    bool is_leaf() const { return inter() ? shape.root >= 0 : true; }
    // MPI_PROC_NULL: none of the other arguments is significant.
    bool takes_part() const { return is_root() || is_leaf(); }

    int type(MPI_Datatype handle, const char* name, Datatype*& out) {
        out = resolve(handle);
        if (!out) return fail(f, comm, MPI_ERR_TYPE, format("{} is not a valid datatype", name));
        if (!out->committed)
            return fail(f, comm, MPI_ERR_TYPE,
                        format("{} is not committed; call MPI_Type_commit", name));
        if (__builtin_expect(!out->plain, 0)) {
            std::string why = unlike_format(*comm, *out);
            if (!why.empty()) return fail(f, comm, MPI_ERR_TYPE, why);
        }
        return MPI_SUCCESS;
    }
    int count(MPI_Count value, const char* name) {
        if (value >= 0) return MPI_SUCCESS;
        return fail(f, comm, MPI_ERR_COUNT,
                    format("{} is {}; it must not be negative", name, value));
    }
    // So many elements, for each of so many members.
    int fits(MPI_Count elements, MPI_Count times, const Datatype& type, const char* name) {
        if (__builtin_expect(elements <= Datatype::kCountPlain && type.plain, 1))
            return MPI_SUCCESS;
        return fits_closely(elements, times, type, name);
    }
    [[gnu::cold, gnu::noinline]] int fits_closely(MPI_Count elements, MPI_Count times,
                                                  const Datatype& type, const char* name) {
        if (elements <= type.count_most() / std::max<MPI_Count>(times, 1)) return MPI_SUCCESS;
        return fail(f, comm, MPI_ERR_COUNT, too_many_text(name, elements, type, times));
    }
    int buffer(const void* address, MPI_Count elements, const Datatype& type, const char* name) {
        if (int e = fits(elements, 1, type, name)) return e;
        return memory(address, elements, type, name);
    }
    // Of elements that fit.
    int memory(const void* address, MPI_Count elements, const Datatype& type, const char* name) {
        if (address == MPI_IN_PLACE)
            return fail(f, comm, MPI_ERR_BUFFER,
                        format("{} is MPI_IN_PLACE, which is not allowed here", name));
        if (address || elements == 0 || type.size() == 0 || !type.predefined()) return MPI_SUCCESS;
        return fail(f, comm, MPI_ERR_BUFFER,
                    format("{} is a null pointer, with a count of {}", name, elements));
    }
    int distinct(const void* send, const void* recv, MPI_Count elements) {
        if (send != recv || elements == 0 || !send) return MPI_SUCCESS;
        return fail(f, comm, MPI_ERR_BUFFER,
                    "sendbuf and recvbuf are the same; use MPI_IN_PLACE for that");
    }
    // The own block is in both buffers: at `offset` in the one that has everybody's blocks.
    int apart(const void* own, const void* all, size_t offset, size_t bytes) {
        bool staged = plan.input_staging || plan.result_staging;
        if (bytes == 0 || staged || inter() || !own || !all) return MPI_SUCCESS;
        return distinct(own, static_cast<const std::byte*>(all) + offset, 1);
    }
    int result_apart() {
        if (inter()) return MPI_SUCCESS;  // the blocks are the other group's
        coll::Block own = shape.result_block(comm->rank());
        return apart(plan.input, plan.result, own.offset, own.length);
    }
    int input_apart() {
        if (inter()) return MPI_SUCCESS;
        coll::Block own = shape.input_block(comm->rank());
        return apart(plan.result, plan.input, own.offset, own.length);
    }
    int no_in_place(const void* send) {
        if (send != MPI_IN_PLACE || !inter()) return MPI_SUCCESS;
        return fail(f, comm, MPI_ERR_BUFFER, "intercommunicators do not take MPI_IN_PLACE");
    }

    // ---- one buffer of one type

    void bind_input(const void* address, MPI_Count elements, Datatype& type) {
        note(address, elements, type, false);
        auto bytes = static_cast<size_t>(elements * type.size());
        if (type.contiguous(elements) || bytes == 0) {
            plan.input = static_cast<const std::byte*>(address) + type.true_lb();
            return;
        }
        plan.input_staging = bytes;
        plan.input_pieces.push_back({const_cast<void*>(address), elements, &type, 0});
    }
    void bind_result(void* address, MPI_Count elements, Datatype& type) {
        note(address, elements, type, true);
        auto bytes = static_cast<size_t>(elements * type.size());
        if (type.contiguous(elements) || bytes == 0) {
            plan.result = static_cast<std::byte*>(address) + type.true_lb();
            return;
        }
        plan.result_staging = bytes;
        plan.result_pieces.push_back({address, elements, &type, 0});
    }
    // `times`: so many blocks of them.
    [[gnu::always_inline]] int send_side(const SendSide& side, MPI_Count times,
                                         Datatype*& decoded) {
        if (int e = count(side.count, "sendcount")) return e;
        if (int e = type(side.type, "sendtype", decoded)) return e;
        if (int e = fits(side.count, times, *decoded, "sendcount")) return e;
        if (int e = memory(side.buffer, side.count * times, *decoded, "sendbuf")) return e;
        bind_input(side.buffer, side.count * times, *decoded);
        shape.count = static_cast<size_t>(side.count * decoded->size());
        return MPI_SUCCESS;
    }
    int recv_side(const RecvSide& side, MPI_Count times, Datatype*& decoded) {
        if (int e = count(side.count, "recvcount")) return e;
        if (int e = type(side.type, "recvtype", decoded)) return e;
        if (int e = fits(side.count, times, *decoded, "recvcount")) return e;
        if (int e = memory(side.buffer, side.count, *decoded, "recvbuf")) return e;
        bind_result(side.buffer, side.count * times, *decoded);
        shape.count = static_cast<size_t>(side.count * decoded->size());
        return MPI_SUCCESS;
    }

    // ---- blocks

    struct Decoded {
        MPI_Count count;
        MPI_Aint offset;  // bytes from the buffer to element 0
        Datatype* type;
    };
    int decode_blocks(Counts_c counts, Displs_c displs, MPI_Datatype type_handle,
                      const MPI_Datatype* types, const char* side, int number,
                      std::vector<Decoded>& out) {
        if (number > 0 && (!counts || !displs || (!types && type_handle == MPI_DATATYPE_NULL)))
            return fail(f, comm, MPI_ERR_ARG,
                        format("{}counts, displs or types is a null pointer", side));
        Datatype* common = nullptr;
        if (!types && number > 0)
            if (int e = type(type_handle, side[0] == 's' ? "sendtype" : "recvtype", common))
                return e;
        for (int i = 0; i < number; ++i) {
            Datatype* each = common;
            if (counts[i] < 0)
                return fail(f, comm, MPI_ERR_COUNT,
                            format("{}counts[{}] is {}", side, i, counts[i]));
            if (types)
                if (int e = type(types[i], side[0] == 's' ? "sendtypes" : "recvtypes", each))
                    return e;
            if (int e =
                    fits(counts[i], number, *each, side[0] == 's' ? "sendcounts" : "recvcounts"))
                return e;
            MPI_Aint offset;
            if (__builtin_mul_overflow(displs[i], types ? 1 : each->extent(), &offset) ||
                offset > kOffsetMost || offset < -kOffsetMost)
                return fail(f, comm, MPI_ERR_ARG,
                            format("{}displs[{}] is {}: no memory is {} of {} bytes away", side, i,
                                   displs[i], displs[i], types ? 1 : each->extent()));
            out.push_back({counts[i], offset, each});
        }
        return MPI_SUCCESS;
    }
    // No address is further from another; sums and differences of offsets cannot overflow.
    static constexpr MPI_Aint kOffsetMost = PTRDIFF_MAX / 4;

    // Where the blocks lie for the schedule: in place when all are contiguous, else packed.
    // Returns whether they are packed; `base` is where offsets count from otherwise.
    bool lay_out(const std::vector<Decoded>& blocks, std::vector<coll::Block>& out, MPI_Aint& base,
                 std::vector<StagedPiece>& pieces, size_t& staging, void* buffer) {
        bool direct = true;
        base = PTRDIFF_MAX;
        for (const Decoded& each : blocks) {
            if (each.count * each.type->size() == 0) continue;
            direct = direct && each.type->contiguous(each.count);
            base = std::min(base, static_cast<MPI_Aint>(each.offset + each.type->true_lb()));
        }
        if (base == PTRDIFF_MAX) base = 0;
        size_t packed = 0;
        for (const Decoded& each : blocks) {
            auto bytes = static_cast<size_t>(each.count * each.type->size());
            size_t place = direct && bytes
                               ? static_cast<size_t>(each.offset + each.type->true_lb() - base)
                               : packed;
            out.push_back({direct && !bytes ? 0 : place, bytes});
            if (!direct && bytes)
                pieces.push_back(
                    {static_cast<std::byte*>(buffer) + each.offset, each.count, each.type, packed});
            packed += bytes;
        }
        if (!direct) staging = packed;
        return !direct;
    }
    int check_blocks(const void* address, const std::vector<Decoded>& blocks, const char* name) {
        for (const Decoded& each : blocks) {
            // A null buffer is MPI_BOTTOM where the displacement is an address, not in page 0.
            if (!address && each.offset >= 4096) continue;
            if (int e = buffer(address, each.count, *each.type, name)) return e;
        }
        return MPI_SUCCESS;
    }
    int send_blocks(const SendBlocks& side, int number) {
        std::vector<Decoded> blocks;
        if (int e = decode_blocks(side.counts, side.displs, side.type, side.types, "send", number,
                                  blocks))
            return e;
        if (int e = check_blocks(side.buffer, blocks, "sendbuf")) return e;
        for (const Decoded& each : blocks) {
            if (plan.check) plan.check->send(*each.type, each.count);
        }
        return bind_send_blocks(side.buffer, blocks);
    }
    int bind_send_blocks(const void* address, const std::vector<Decoded>& blocks) {
        MPI_Aint base;
        for (const Decoded& each : blocks)
            note(static_cast<const std::byte*>(address) + each.offset, each.count, *each.type,
                 false);
        if (!lay_out(blocks, plan.input_blocks, base, plan.input_pieces, plan.input_staging,
                     const_cast<void*>(address)))
            plan.input = static_cast<const std::byte*>(address) + base;
        shape.input_blocks = plan.input_blocks;
        return MPI_SUCCESS;
    }
    int recv_blocks(const RecvBlocks& side, int number) {
        std::vector<Decoded> blocks;
        if (int e = decode_blocks(side.counts, side.displs, side.type, side.types, "recv", number,
                                  blocks))
            return e;
        if (int e = check_blocks(side.buffer, blocks, "recvbuf")) return e;
        for (const Decoded& each : blocks) {
            if (plan.check) plan.check->receive(*each.type, each.count);
        }
        return bind_recv_blocks(side.buffer, blocks);
    }
    int bind_recv_blocks(void* address, const std::vector<Decoded>& blocks) {
        MPI_Aint base;
        for (const Decoded& each : blocks)
            note(static_cast<std::byte*>(address) + each.offset, each.count, *each.type, true);
        if (!lay_out(blocks, plan.result_blocks, base, plan.result_pieces, plan.result_staging,
                     address))
            plan.result = static_cast<std::byte*>(address) + base;
        shape.result_blocks = plan.result_blocks;
        return MPI_SUCCESS;
    }
    // The result's memory is the input too.
    void in_place_from_result() {
        plan.input_pieces = plan.result_pieces;
        plan.input = plan.result;
        plan.one_buffer = true;
        shape.in_place = true;
    }
    void in_place_from_input() {
        plan.result = const_cast<void*>(plan.input);
        plan.one_buffer = true;
        shape.in_place = true;
    }

    // ---- reductions

    int operation(MPI_Op handle, Datatype& type) {
        plan.operation = resolve(handle);
        if (!plan.operation) return fail(f, comm, MPI_ERR_OP, "op is not a valid operation");
        if (__builtin_expect(plan.operation->only_one_sided(), 0))
            return fail(f, comm, MPI_ERR_OP,
                        plan.operation->name() +
                            std::string(" is for one-sided accesses only (MPI_Accumulate and the "
                                        "like)"));
        if (__builtin_expect(plan.check != nullptr, 0)) note_operation();
        plan.kernel = plan.operation->kernel(type);
        if (!plan.kernel)
            if (Status allowed = plan.operation->check(type); !allowed.ok())
                return fail(f, comm, MPI_ERR_OP, allowed.error().what);
        plan.type = &type;
        shape.commutative = plan.operation->commutative();
        bool gaps = !type.contiguous() && !type.predefined();
        plan.packed = gaps && type.true_extent() > type.extent();
        plan.raw = gaps && !plan.packed;
        bool alone = type.contiguous() || plan.packed;
        shape.element = static_cast<size_t>(alone ? type.size() : type.extent());
        return MPI_SUCCESS;
    }
    // Binds the two sides of a reduction: counts in elements; either buffer may be null (not used).
    void bind_reduction(const void* send, MPI_Count send_count, void* recv, MPI_Count recv_count,
                        bool in_place) {
        Datatype& type = *plan.type;
        if (send && !in_place) note(send, send_count, type, false);
        if (recv) note(recv, in_place ? send_count : recv_count, type, true);
        if (!plan.raw && !plan.packed) {
            ptrdiff_t shift = type.contiguous() ? type.true_lb() : 0;
            if (send) plan.input = static_cast<const std::byte*>(send) + shift;
            if (recv) plan.result = static_cast<std::byte*>(recv) + shift;
            if (in_place) {
                plan.input = plan.result;
                shape.in_place = true;
            }
            return;
        }
        const void* from = in_place ? recv : send;
        if (from && send_count > 0) {
            plan.input_staging = static_cast<size_t>(send_count) * shape.element;
            plan.input_pieces.push_back({const_cast<void*>(from), send_count, &type, 0});
        }
        if (recv && recv_count > 0) {
            plan.result_staging = static_cast<size_t>(recv_count) * shape.element;
            plan.result_pieces.push_back({recv, recv_count, &type, 0});
        }
    }
};

#define PLAN(collective)                                                                           \
    Planner p{f, plan};                                                                            \
    if (int e = p.begin(comm, collective)) return e

#define STEP(expression)                                                                           \
    if (int e = p.expression) return e

}  // namespace pomona
