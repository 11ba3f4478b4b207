// transit_peers.cc: which parts of tensors an operation by peers' memory (exchange.h) moves and sums.
#include <algorithm>
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

// One all_reduce: `all` is flat, the same size on all ranks.
struct PeerSum {
    Flow* flow;
    std::shared_ptr<PeerRing> ring;
    at::Tensor all;
    int64_t count, divisor;

    at::Tensor piece(int64_t number) const {
        return all.narrow(0, number * count, std::min(count, all.numel() - number * count));
    }
    at::Tensor slot(int rank, uint64_t ticket, Part part) const {
        return ring->part(rank, ticket, part.first * all.element_size(), part.count,
                          all.scalar_type());
    }
    void write(int64_t number, uint64_t ticket) const {
        const at::Tensor from = piece(number);
        slot(ring->rank(), ticket, {0, from.numel()}).copy_(from, /*non_blocking=*/true);
    }
    void hold(const at::Tensor& target) const {
        flow->device().hold(target, flow->device().up(flow->where()));
    }
    void divide(at::Tensor target) const {
        if (divisor > 1) target.div_(divisor);
    }
    // Of two ranks each sums all of it: a + b is b + a.
    void read_and_sum(int64_t number, uint64_t ticket) const {
        at::Tensor target = piece(number);
        hold(target);
        target.add_(slot(1 - ring->rank(), ticket, {0, target.numel()}));
        divide(target);
    }
    void sum_part(int64_t number, uint64_t ticket) const {
        const int size = ring->size(), self = ring->rank();
        const Part part = part_of(piece(number).numel(), self, size);
        if (part.count == 0) return;
        at::Tensor target = slot(self, ticket, part);
        for (int i = 1; i < size; ++i) target.add_(slot((self + i) % size, ticket, part));
    }
    void gather(int64_t number, uint64_t ticket) const {
        at::Tensor target = piece(number);
        hold(target);
        for (int i = 0; i < ring->size(); ++i) {
            const int rank = (ring->rank() + i) % ring->size();
            const Part part = part_of(target.numel(), rank, ring->size());
            if (part.count == 0) continue;
            target.narrow(0, part.first, part.count).copy_(slot(rank, ticket, part), true);
        }
        divide(target);
    }
};

}  // namespace

void Transit::sum_by_peers(const std::shared_ptr<PeerRing>& ring, const at::Tensor& flat,
                           int64_t divisor, const Later& by_host, const Later& then) {
    Flow& flow = work_.flow(flat.device());
    const at::Tensor all = summable(flat.view({-1}));
    const PeerSum sum{&flow, ring, all, ring->slot_bytes() / all.element_size(), divisor};
    const auto act = [sum](auto member) {
        return [sum, member](int64_t piece, uint64_t ticket) { (sum.*member)(piece, ticket); };
    };
    Exchange::Acts acts;
    acts.pieces = (all.numel() + sum.count - 1) / sum.count;
    acts.usable = usable(flat);
    acts.write = act(&PeerSum::write);
    const bool parts = ring->size() > 2;
    if (parts) acts.sum = act(&PeerSum::sum_part);
    acts.read = act(parts ? &PeerSum::gather : &PeerSum::read_and_sum);
    const auto add = [work = &work_](Later stages) {
        return [work, stages = std::move(stages)] {
            Transit transit(*work);
            stages(transit);
        };
    };
    acts.by_host = add([by_host, then](Transit& transit) {
        by_host(transit);
        then(transit);
    });
    acts.then = add(then);
    Exchange::plan(flow, ring, std::move(acts));
}

}  // namespace pomona::glue
