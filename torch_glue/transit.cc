// transit.cc: see transit.h.
#include "torch_glue/transit.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>

#include <c10/core/impl/VirtualGuardImpl.h>

#include "torch_glue/device.h"

namespace pomona::glue {

at::Tensor plain(const at::Tensor& t) { return t.resolve_conj().resolve_neg().contiguous(); }

namespace {

// The tensor's memory as one of the CPU's; keeps it.
at::Tensor seen_by_host(const at::Tensor& t) {
    return at::from_blob(
        Device::of(t.device().type()).host_pointer(t), t.sizes(), [t](void*) {},
        at::TensorOptions().dtype(t.scalar_type()).device(at::kCPU));
}

at::Tensor shaped(const at::Tensor& bytes, const at::Tensor& like) {
    return bytes.view(like.scalar_type()).view(like.sizes());
}

at::Tensor empty_on_host(const at::Tensor& t) {
    return at::empty(t.sizes(), t.options().device(at::kCPU).memory_format(std::nullopt));
}

Passage passage_of(const at::Tensor& t) { return Device::of(t.device().type()).passage(t); }

Slots slots_of(std::vector<at::Tensor> host) {
    Slots slots;
    slots.host = std::move(host);
    uintptr_t lowest = UINTPTR_MAX;
    for (const at::Tensor& t : slots.host) {
        if (t.numel() > 0) lowest = std::min(lowest, reinterpret_cast<uintptr_t>(t.data_ptr()));
    }
    static char nowhere[64];
    slots.base = lowest == UINTPTR_MAX ? nowhere : reinterpret_cast<void*>(lowest);
    for (const at::Tensor& t : slots.host) {
        const auto address = reinterpret_cast<uintptr_t>(t.data_ptr());
        slots.counts.push_back(bytes_of(t));
        slots.offsets.push_back(t.numel() > 0 ? static_cast<MPI_Aint>(address - lowest) : 0);
    }
    return slots;
}

}  // namespace

at::Tensor Transit::readable(const at::Tensor& t) {
    if (is_flat_on_host(t)) return t;
    if (t.device().is_cpu()) return plain(t);
    switch (passage_of(t)) {
    case Passage::Direct: work_.flow(t.device()).stage().direct = true; return seen_by_host(t);
    case Passage::Copies: return plain(t).to(at::kCPU);
    case Passage::Streams: break;
    }
    const at::Tensor flat = plain(t);
    Flow& flow = work_.flow(t.device());
    const at::Tensor host = shaped(flow.room(bytes_of(flat)), flat);
    flow.stage().loads.push_back(
        [host, flat]() mutable { host.copy_(flat, /*non_blocking=*/true); });
    return host;
}

at::Tensor Transit::room(const at::Tensor& t) {
    if (is_flat_on_host(t)) return t;
    if (t.device().is_cpu()) return empty_on_host(t);
    switch (passage_of(t)) {
    case Passage::Direct: work_.flow(t.device()).stage().direct = true; return seen_by_host(t);
    case Passage::Copies: return empty_on_host(t);
    case Passage::Streams: break;
    }
    return shaped(work_.flow(t.device()).room(bytes_of(t)), t);
}

at::Tensor Transit::other_room(const at::Tensor& host, const at::Tensor& t) {
    if (!t.device().is_cpu() && passage_of(t) == Passage::Streams) return host;
    return at::empty_like(host);
}

void Transit::divide(const at::Tensor& host, int64_t divisor) {
    if (!work_.has_flow()) {
        divisions_.push_back({host, divisor});
        return;
    }
    work_.flow_stage().unpacks.push_back([host, divisor] { glue::divide(host, divisor); });
}

void Transit::store(const at::Tensor& target, const at::Tensor& from) {
    work_.flow_stage().stores.push_back([target, from, this_flow = &work_.flow(target.device())] {
        const c10::Stream up =
            c10::impl::VirtualGuardImpl(target.device().type()).getStream(target.device());
        this_flow->device().hold(target, up);
        if (!from.device().is_cpu()) this_flow->device().hold(from, up);
        if (!this_flow->device().copy_up(target, from, up))
            at::Tensor(target).copy_(from, /*non_blocking=*/true);
    });
}

void Transit::copy(const at::Tensor& host, const at::Tensor& target) {
    if (host.is_same(target)) return;
    if (target.device().is_cpu()) {
        if (work_.has_flow())
            work_.flow_stage().unpacks.push_back([host, target] { copy_all({{host, target}}); });
        else host_copies_.push_back({host, target});
        return;
    }
    switch (passage_of(target)) {
    case Passage::Direct:
        if (const at::Tensor seen = seen_by_host(target); seen.data_ptr() != host.data_ptr())
            work_.flow_stage().unpacks.push_back([host, seen] { copy_all({{host, seen}}); });
        return;
    case Passage::Copies: device_copies_.push_back({host, target}); return;
    case Passage::Streams: store(target, host.view_as(target)); return;
    }
}

void Transit::copy_after(const at::Tensor& from, const at::Tensor& target) {
    const bool by_user = !target.device().is_cpu() && passage_of(target) == Passage::Copies;
    if (!exact_sums_.empty() && !by_user) {  // when the last of them has its result
        auto& after = exact_sums_.back().after;
        after = [work = &work_, from, target, before = std::move(after)] {
            if (before) before();
            Transit(*work).copy_after(from, target);
        };
        return;
    }
    if (!from.device().is_cpu() && passage_of(from) == Passage::Streams) store(target, from);
    else if (!from.device().is_cpu() && passage_of(from) == Passage::Direct)
        copy(seen_by_host(from), target);
    else if (from.device().is_cpu()) copy(from, target);
    else device_copies_.push_back({from, target});
}

Slots Transit::readable(const std::vector<at::Tensor>& tensors) {
    std::vector<at::Tensor> host;
    host.reserve(tensors.size());
    for (const at::Tensor& t : tensors) host.push_back(readable(t));
    return slots_of(std::move(host));
}

Slots Transit::room(const std::vector<at::Tensor>& tensors, const std::vector<at::Tensor>& read,
                    int own) {
    std::vector<at::Tensor> host;
    host.reserve(tensors.size());
    for (const at::Tensor& t : tensors) host.push_back(room(t));
    const auto disturbs = [&](const at::Tensor& t) { return overlaps_others(t, host, own); };
    if (any_overlap(host) || std::any_of(read.begin(), read.end(), disturbs)) {
        for (size_t i = 0; i < host.size(); ++i) host[i] = other_room(host[i], tensors[i]);
    }
    return slots_of(std::move(host));
}

void Transit::copies(const Slots& slots, const std::vector<at::Tensor>& targets) {
    for (size_t i = 0; i < targets.size(); ++i) copy(slots.host[i], targets[i]);
}

// ---- pieces -----------------------------------------------------------------------------------

// All ranks of the group cut alike, wherever their tensors lie.
void Transit::reduce_in_pieces(const at::Tensor& t, MPI_Count piece_bytes, int64_t divisor,
                               const ReducePiece& call) {
    const MPI_Count whole = std::max<MPI_Count>(t.numel(), 1);
    const MPI_Count count =
        piece_bytes == 0 ? whole : std::max<MPI_Count>(piece_bytes / t.element_size(), 1);
    if (!t.device().is_cpu() && passage_of(t) == Passage::Streams && whole > count) {
        pieces_by_streams(t, count, divisor, call);
        return;
    }
    const at::Tensor host = readable(t);
    pieces_on_host(host, count, call);
    if (divisor > 1) divide(host, divisor);
    copy(host, t);
}

void Transit::pieces_on_host(const at::Tensor& host, MPI_Count count, const ReducePiece& call) {
    work_.keep(host);
    MPI_Count first = 0;
    do {
        char* start = static_cast<char*>(address_of(host)) + first * host.element_size();
        const MPI_Count length = std::min<MPI_Count>(count, host.numel() - first);
        work_.post([call, start, length](MPI_Comm comm, MPI_Request* request) {
            return call(start, length, comm, request);
        });
        first += count;
    } while (first < host.numel());
}

void Transit::pieces_by_streams(const at::Tensor& t, MPI_Count count, int64_t divisor,
                                const ReducePiece& call) {
    const at::Tensor flat = plain(t);
    const at::Tensor all = flat.view({-1});
    Flow& flow = work_.flow(t.device());
    const bool on_device = at::isFloatingType(t.scalar_type());  // division
    for (MPI_Count first = 0; first < all.numel(); first += count) {
        const MPI_Count length = std::min<MPI_Count>(count, all.numel() - first);
        const at::Tensor piece = all.narrow(0, first, length);
        Stage& stage = flow.new_stage();
        const at::Tensor host = shaped(flow.slot(bytes_of(piece)), piece);
        stage.loads.push_back([host, piece]() mutable { host.copy_(piece, true); });
        stage.calls.push_back([call, host, length](MPI_Comm comm, MPI_Request* request) {
            return call(host.data_ptr(), length, comm, request);
        });
        if (divisor > 1 && !on_device) divide(host, divisor);
        store(piece, host);
        if (divisor > 1 && on_device)
            stage.stores.push_back([piece, divisor] { at::Tensor(piece).div_(divisor); });
    }
    if (!flat.is_same(t)) store(t, flat);
}

// ---- sums as whole numbers --------------------------------------------------------------------

void Transit::begin_exact_sums(const std::vector<at::Tensor>& tensors, int rank,
                               int64_t piece_bytes) {
    c10::Device where(c10::DeviceType::CPU);
    for (const at::Tensor& t : tensors) {
        if (!t.device().is_cpu() && passage_of(t) != Passage::Copies) where = t.device();
    }
    exact_flow_ = &work_.flow(where);
    exact_rank_ = rank;
    exact_bytes_ = piece_bytes;
}

void Transit::sum_exactly(const at::Tensor& source, const at::Tensor& room_like,
                          const at::Tensor& output, ExactSum sum) {
    sum.source = readable(source);
    at::Tensor target = sum.source;
    if (room_like.defined()) {
        target = room(room_like);
        if (overlaps(target, sum.source)) target = other_room(target, room_like);
    }
    work_.keep(sum.source);
    work_.keep(target);
    if (output.defined()) {
        sum.target = target;
        // What a thread of the user's copies must be known before the operation begins; the rest
        // is a part of the last stage, which is made when its turn comes.
        if (!output.device().is_cpu() && passage_of(output) == Passage::Copies)
            copy(target, output);
        else sum.after = [work = &work_, target, output] { Transit(*work).copy(target, output); };
    }
    exact_sums_.push_back(std::move(sum));
}

// -----------------------------------------------------------------------------------------------

// First to the target's dtype: torch, which copies float32 to float16 in a way of its own, forgets
// there that the target is negated.
void Transit::copy_all(const Copies& copies) {
    for (const auto& [host, target] : copies) {
        const bool apart = target.is_neg() && host.scalar_type() != target.scalar_type();
        const at::Tensor from = apart ? host.to(target.scalar_type()) : host;
        at::Tensor(target).copy_(from.view_as(target));
    }
}

void Transit::install() {
    if (!exact_sums_.empty())
        ExactSums::plan(*exact_flow_, exact_rank_, exact_bytes_, std::move(exact_sums_));
    if (!divisions_.empty() || !host_copies_.empty()) {
        work_.set_unpack([divisions = std::move(divisions_), copies = std::move(host_copies_)] {
            for (const auto& [host, divisor] : divisions) glue::divide(host, divisor);
            copy_all(copies);
        });
    }
    if (!device_copies_.empty())
        work_.set_deliver([copies = std::move(device_copies_)] { copy_all(copies); });
}

}  // namespace pomona::glue
