// transit_peers.cc: which parts of tensors an operation by peers' memory (exchange.h) moves and
// sums.
#include <algorithm>
#include <optional>
#include <utility>

#include "torch_glue/exchange.h"
#include "torch_glue/transit.h"

namespace pomona::glue {
namespace {

bool usable(const at::Tensor& t) {
    return !t.device().is_cpu() && memory_sharing(t.device().type()) != nullptr &&
           Device::of(t.device().type()).passage(t) == Passage::Streams;
}

// The same bits in a dtype that devices add: torch computes little with unsigned integers.
at::Tensor summable(const at::Tensor& t) {
    switch (t.scalar_type()) {
    case at::kUInt16: return t.view(at::kShort);
    case at::kUInt32: return t.view(at::kInt);
    case at::kUInt64: return t.view(at::kLong);
    default: return t;
    }
}

// Part `rank` of `count` elements.
struct Part {
    int64_t first, count;
};
Part part_of(int64_t count, int rank, int size) {
    const int64_t each = (count + size - 1) / size;
    const int64_t first = std::min(each * rank, count);
    return {first, std::min(each, count - first)};
}

// What the operations have in common: tensors of all ranks in pieces of at most `count` elements.
struct Peers {
    Flow* flow;
    std::shared_ptr<PeerRing> ring;
    int64_t count;

    at::Tensor piece(const at::Tensor& all, int64_t number) const {
        const int64_t first = std::min(number * count, all.numel());
        return all.narrow(0, first, std::min(count, all.numel() - first));
    }
    // Of `like`'s dtype and size, `first` elements behind the beginning of the slot.
    at::Tensor slot(int rank, uint64_t ticket, int64_t first, const at::Tensor& like) const {
        return ring->part(rank, ticket, first * like.element_size(), like.numel(),
                          like.scalar_type());
    }
    void write_slot(uint64_t ticket, int64_t first, const at::Tensor& from) const {
        if (from.numel() > 0) slot(ring->rank(), ticket, first, from).copy_(from, true);
    }
    void hold(const at::Tensor& target) const {
        flow->device().hold(target, flow->device().up(flow->where()));
    }
    int64_t pieces(int64_t elements) const {
        return std::max<int64_t>((elements + count - 1) / count, 1);
    }
    int other(int i) const { return (ring->rank() + i) % ring->size(); }
};

// A rank's own part, which no other rank has to give it. On the stream of the copies to the slot.
void copy_own(at::Tensor to, const at::Tensor& from) {
    if (to.numel() > 0 && to.data_ptr() != from.data_ptr()) to.copy_(from, /*non_blocking=*/true);
}

// One all_reduce: `all` is flat, the same size on all ranks.
struct PeerSum : Peers {
    at::Tensor all;
    int64_t divisor;

    void write(int64_t number, uint64_t ticket) const { write_slot(ticket, 0, piece(all, number)); }
    void divide(at::Tensor target) const {
        if (divisor > 1) target.div_(divisor);
    }
    // Of two ranks each sums all of it: a + b is b + a.
    void read_and_sum(int64_t number, uint64_t ticket) const {
        at::Tensor target = piece(all, number);
        hold(target);
        target.add_(slot(other(1), ticket, 0, target));
        divide(target);
    }
    void sum_part(int64_t number, uint64_t ticket) const {
        const at::Tensor whole = piece(all, number);
        const Part part = part_of(whole.numel(), ring->rank(), ring->size());
        if (part.count == 0) return;
        const at::Tensor like = whole.narrow(0, part.first, part.count);
        at::Tensor target = slot(ring->rank(), ticket, part.first, like);
        for (int i = 1; i < ring->size(); ++i)
            target.add_(slot(other(i), ticket, part.first, like));
    }
    void gather(int64_t number, uint64_t ticket) const {
        at::Tensor target = piece(all, number);
        hold(target);
        for (int i = 0; i < ring->size(); ++i) {
            const Part part = part_of(target.numel(), other(i), ring->size());
            if (part.count == 0) continue;
            at::Tensor there = target.narrow(0, part.first, part.count);
            there.copy_(slot(other(i), ticket, part.first, there), true);
        }
        divide(target);
    }
};

// One all_gather: `to` has a tensor for each rank.
struct PeerGather : Peers {
    at::Tensor from;
    std::vector<at::Tensor> to;

    void write(int64_t number, uint64_t ticket) const {
        write_slot(ticket, 0, piece(from, number));
        copy_own(piece(to[static_cast<size_t>(ring->rank())], number), piece(from, number));
    }
    void read(int64_t number, uint64_t ticket) const {
        for (int i = 1; i < ring->size(); ++i) {
            at::Tensor target = piece(to[static_cast<size_t>(other(i))], number);
            if (target.numel() == 0) continue;
            hold(target);
            target.copy_(slot(other(i), ticket, 0, target), true);
        }
    }
};

// One reduce_scatter: `from` has a tensor for each rank, which adds up its own in `to`, beginning
// with what it has itself.
struct PeerScatter : Peers {
    std::vector<at::Tensor> from;
    at::Tensor to;
    int64_t divisor;

    void write(int64_t number, uint64_t ticket) const {
        for (int i = 1; i < ring->size(); ++i)
            write_slot(ticket, other(i) * count,
                       piece(from[static_cast<size_t>(other(i))], number));
        copy_own(piece(to, number), piece(from[static_cast<size_t>(ring->rank())], number));
    }
    void read(int64_t number, uint64_t ticket) const {
        at::Tensor target = piece(to, number);
        if (target.numel() == 0) return;
        hold(target);
        for (int i = 1; i < ring->size(); ++i)
            target.add_(slot(other(i), ticket, ring->rank() * count, target));
        if (divisor > 1) target.div_(divisor);
    }
};

struct PeerBroadcast : Peers {
    at::Tensor all;
    int root;

    void write(int64_t number, uint64_t ticket) const {
        if (ring->rank() == root) write_slot(ticket, 0, piece(all, number));
    }
    void read(int64_t number, uint64_t ticket) const {
        if (ring->rank() == root) return;
        at::Tensor target = piece(all, number);
        hold(target);
        target.copy_(slot(root, ticket, 0, target), true);
    }
};

// One all_to_all: tensors for each rank, of any sizes.
struct PeerAllToAll : Peers {
    std::vector<at::Tensor> from, to;

    void write(int64_t number, uint64_t ticket) const {
        for (int i = 1; i < ring->size(); ++i)
            write_slot(ticket, other(i) * count,
                       piece(from[static_cast<size_t>(other(i))], number));
        const auto own = static_cast<size_t>(ring->rank());
        copy_own(piece(to[own], number), piece(from[own], number));
    }
    void read(int64_t number, uint64_t ticket) const {
        for (int i = 1; i < ring->size(); ++i) {
            at::Tensor target = piece(to[static_cast<size_t>(other(i))], number);
            if (target.numel() == 0) continue;
            hold(target);
            target.copy_(slot(other(i), ticket, ring->rank() * count, target), true);
        }
    }
};

// Parts of slots begin where wide loads do, whatever the dtype.
int64_t part_elements(const PeerRing& ring, int64_t element_size) {
    constexpr int64_t kAligned = 64;
    const int64_t most = ring.slot_bytes() / element_size / ring.size();
    return most > kAligned ? most / kAligned * kAligned : most;
}

std::vector<at::Tensor> as_bytes(const std::vector<at::Tensor>& tensors) {
    std::vector<at::Tensor> views;
    views.reserve(tensors.size());
    for (const at::Tensor& t : tensors) views.push_back(t.view({-1}).view(at::kByte));
    return views;
}

int64_t longest(const std::vector<at::Tensor>& tensors) {
    int64_t most = 0;
    for (const at::Tensor& t : tensors) most = std::max(most, t.numel());
    return most;
}

// The one device of the tensors, if others can read what is there.
bool usable(const std::vector<at::Tensor>& tensors) {
    return std::all_of(tensors.begin(), tensors.end(), [&](const at::Tensor& t) {
        return t.device() == tensors.front().device() && usable(t);
    });
}

// Whose stream orders the operation: a tensor may be on the CPU beside others that are not.
c10::Device device_of(const std::vector<at::Tensor>& tensors) {
    for (const at::Tensor& t : tensors) {
        if (!t.device().is_cpu()) return t.device();
    }
    return tensors.front().device();
}

std::vector<at::Tensor> joined(std::vector<at::Tensor> tensors, const at::Tensor& one) {
    tensors.push_back(one);
    return tensors;
}

// Calls `member` of the operation for a piece.
template <class Operation> Exchange::Act act(const std::shared_ptr<const Operation>& operation,
                                             void (Operation::*member)(int64_t, uint64_t) const) {
    return [operation, member](int64_t piece, uint64_t ticket) {
        (operation.get()->*member)(piece, ticket);
    };
}

template <class Operation> Exchange::Acts acts_of(const std::shared_ptr<const Operation>& operation,
                                                  int64_t elements, int64_t bytes, bool usable) {
    Exchange::Acts acts;
    acts.pieces = operation->pieces(elements);
    acts.bytes = bytes;
    acts.usable = usable;
    acts.write = act(operation, &Operation::write);
    if constexpr (requires { &Operation::read; }) acts.read = act(operation, &Operation::read);
    return acts;
}

}  // namespace

MPI_Count bytes_of_all(const std::vector<at::Tensor>& tensors) {
    MPI_Count sum = 0;
    for (const at::Tensor& t : tensors) sum += bytes_of(t);
    return sum;
}

at::Tensor flat_room(const at::Tensor& t) {
    if (t.is_contiguous() && !t.is_conj() && !t.is_neg()) return t;
    return empty_like_plain(t);
}

at::Tensor empty_like_plain(const at::Tensor& t) {
    return at::empty(t.sizes(), t.options().memory_format(std::nullopt));
}

void Transit::by_peers(const std::shared_ptr<PeerRing>& ring, Flow& flow, Exchange::Acts acts,
                       const Later& by_host, const Later& then) {
    const auto add = [work = &work_](const Later& stages) {
        return [work, stages] {
            Transit transit(*work);
            stages(transit);
        };
    };
    acts.by_host = add(by_host);
    acts.then = add(then);
    Exchange::plan(flow, ring, std::move(acts));
}

void Transit::sum_by_peers(const std::shared_ptr<PeerRing>& ring, const at::Tensor& flat,
                           int64_t divisor, const Later& by_host, const Later& then) {
    Flow& flow = work_.flow(flat.device());
    const at::Tensor all = summable(flat.view({-1}));
    const auto sum = std::make_shared<const PeerSum>(
        PeerSum{{&flow, ring, ring->slot_bytes() / all.element_size()}, all, divisor});
    Exchange::Acts acts = acts_of(sum, all.numel(), bytes_of(flat), usable(flat));
    const bool parts = ring->size() > 2;
    if (parts) acts.sum = act(sum, &PeerSum::sum_part);
    acts.read = act(sum, parts ? &PeerSum::gather : &PeerSum::read_and_sum);
    by_peers(ring, flow, std::move(acts), by_host, then);
}

void Transit::gather_by_peers(const std::shared_ptr<PeerRing>& ring,
                              const std::vector<at::Tensor>& outputs, const at::Tensor& flat,
                              const Later& by_host, const Later& then) {
    Flow& flow = work_.flow(device_of(joined(outputs, flat)));
    const std::vector<at::Tensor> to = as_bytes(outputs);
    // What the others have yet to read must not be where their parts are written.
    const auto own = static_cast<size_t>(ring->rank());
    bool apart = true;
    for (size_t i = 0; i < to.size(); ++i) apart &= i == own || !overlaps(to[i], flat);
    const at::Tensor from = as_bytes({apart ? flat : flat.clone()}).front();
    const auto gather =
        std::make_shared<const PeerGather>(PeerGather{{&flow, ring, ring->slot_bytes()}, from, to});
    by_peers(ring, flow, acts_of(gather, longest(to), bytes_of_all(to), usable(joined(to, from))),
             by_host, then);
}

void Transit::scatter_sums_by_peers(const std::shared_ptr<PeerRing>& ring, const at::Tensor& output,
                                    const std::vector<at::Tensor>& inputs, int64_t divisor,
                                    const Later& by_host, const Later& then) {
    // In the place of this rank's own part it may be, nowhere else in what others have yet to read.
    at::Tensor room = output;
    const auto own = static_cast<size_t>(ring->rank());
    for (size_t i = 0; i < inputs.size(); ++i) {
        if (i == own && inputs[i].data_ptr() == output.data_ptr()) continue;
        if (overlaps(inputs[i], output)) room = at::empty_like(output);
    }
    std::vector<at::Tensor> from;
    for (const at::Tensor& t : inputs) from.push_back(summable(t.view({-1})));
    const at::Tensor to = summable(room.view({-1}));
    Flow& flow = work_.flow(device_of(joined(from, to)));
    const auto scatter = std::make_shared<const PeerScatter>(
        PeerScatter{{&flow, ring, part_elements(*ring, to.element_size())}, from, to, divisor});
    by_peers(ring, flow,
             acts_of(scatter, longest(from), bytes_of_all(from), usable(joined(from, to))), by_host,
             [room, output, then](Transit& way) {
                 if (!room.is_same(output)) way.copy_after(room, output);
                 then(way);
             });
}

void Transit::broadcast_by_peers(const std::shared_ptr<PeerRing>& ring, const at::Tensor& flat,
                                 int root, const Later& by_host, const Later& then) {
    Flow& flow = work_.flow(flat.device());
    const at::Tensor all = as_bytes({flat}).front();
    const auto broadcast = std::make_shared<const PeerBroadcast>(
        PeerBroadcast{{&flow, ring, ring->slot_bytes()}, all, root});
    by_peers(ring, flow, acts_of(broadcast, all.numel(), bytes_of(all), usable(all)), by_host,
             then);
}

void Transit::all_to_all_by_peers(const std::shared_ptr<PeerRing>& ring,
                                  const std::vector<at::Tensor>& outputs,
                                  const std::vector<at::Tensor>& flat, int64_t told_from,
                                  const Later& by_host, const Later& then) {
    std::vector<at::Tensor> all = flat;
    all.insert(all.end(), outputs.begin(), outputs.end());
    Flow& flow = work_.flow(device_of(all));
    std::vector<at::Tensor> from = as_bytes(flat);
    const std::vector<at::Tensor> to = as_bytes(outputs);
    for (at::Tensor& t : from) {
        const bool apart = std::none_of(
            to.begin(), to.end(), [&t](const at::Tensor& other) { return overlaps(t, other); });
        if (!apart) t = t.clone();
    }
    const int64_t elements = std::max(longest(from), longest(to));
    const int64_t bytes = std::max(bytes_of_all(from), bytes_of_all(to));
    const bool can = usable(all);
    const auto exchange = std::make_shared<const PeerAllToAll>(
        PeerAllToAll{{&flow, ring, part_elements(*ring, 1)}, std::move(from), to});
    Exchange::Acts acts = acts_of(exchange, elements, bytes, can);
    acts.told_from = told_from;
    by_peers(ring, flow, std::move(acts), by_host, then);
}

}  // namespace pomona::glue
