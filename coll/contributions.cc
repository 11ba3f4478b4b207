// coll/contributions.cc: see contributions.h.
#include "coll/contributions.h"

#include "btl/base/format.h"
#include "btl/base/random.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

namespace pomona::coll {

namespace {

// A byte: its place in the input, and whose it is made of. Nobody: nothing was written there.
struct Cell {
    size_t place = 0;
    uint64_t who = 0;
    bool operator==(const Cell&) const = default;
};
using Cells = std::vector<Cell>;

size_t block_end(const Shape& shape, bool input) {
    Collective kind = shape.collective;
    bool blocks = input ? kind == Collective::reduce_scatter : kind == Collective::allgather;
    return shape.bytes() * (blocks ? static_cast<size_t>(shape.size) : 1);
}

std::string names_of(uint64_t who) {
    std::string text;
    for (int rank = 0; rank < 64; ++rank)
        if (who >> rank & 1) text += format("{}{}", text.empty() ? "" : ", ", rank);
    return text.empty() ? "nobody" : text;
}

enum class Order { oldest, newest, any };

class Execution {
public:
    Execution(std::span<const Schedule> schedules, std::span<const Shape> shapes, Order order,
              bool late, uint64_t seed)
        : schedules_(schedules), shapes_(shapes), order_(order), late_(late), random_(seed) {
        for (size_t r = 0; r < schedules.size(); ++r) fill(r);
    }

    std::string run() {
        for (size_t r = 0; r < schedules_.size(); ++r)
            for (StepId root : schedules_[r].roots()) ready_.push_back({r, root});
        while (!ready_.empty() && problem_.empty()) {
            size_t at = order_ == Order::oldest   ? 0
                        : order_ == Order::newest ? ready_.size() - 1
                                                  : random_.below(ready_.size());
            auto [rank, step] = ready_[at];
            ready_.erase(ready_.begin() + static_cast<ptrdiff_t>(at));
            start(rank, step);
        }
        for (size_t r = 0; r < schedules_.size() && problem_.empty(); ++r)
            if (left_[r])
                return format("Rank {} waits for ever, {} of its steps are not over", r, left_[r]);
        for (size_t r = 0; r < schedules_.size() && problem_.empty(); ++r) judge(r);
        return problem_;
    }

private:
    struct Place {
        size_t rank;
        StepId step;
    };
    using Key = std::tuple<size_t, size_t, int>;  // from, to, slot
    struct Message {
        bool sent = false, wanted = false;
        Place from{}, to{};
        Cells cells;
    };

    // The input is where MPI_IN_PLACE puts it.
    void fill(size_t r) {
        const Shape& shape = shapes_[r];
        size_t in = block_end(shape, true), out = block_end(shape, false);
        auto& buffers = memory_.emplace_back();
        auto& open = open_.emplace_back();
        for (const Step& step : schedules_[r].steps()) open.push_back(step.dependencies);
        left_.push_back(schedules_[r].steps().size());
        buffers[0].resize(shape.in_place ? 0 : in);
        buffers[1].resize(std::max(out, shape.in_place ? in : 0));
        buffers[2].resize(schedules_[r].scratch_bytes());
        uint64_t own = uint64_t{1} << r;
        bool gathers = shape.collective == Collective::allgather;
        Cells& input = buffers[shape.in_place || shape.collective == Collective::bcast];
        if (shape.collective == Collective::bcast && static_cast<int>(r) != shape.root) return;
        size_t first = gathers && shape.in_place ? r * shape.bytes() : 0;
        for (size_t i = 0; i < (gathers ? shape.bytes() : in); ++i) input[first + i] = {i, own};
    }

    std::span<Cell> region(size_t rank, Buffer buffer, size_t offset, size_t length) {
        Cells& cells = memory_[rank][static_cast<size_t>(buffer)];
        if (offset + length > cells.size() && problem_.empty())
            problem_ = format("Rank {} uses bytes {} to {} of a buffer of {}", rank, offset,
                              offset + length, cells.size());
        if (!problem_.empty()) return {};
        return {cells.data() + offset, length};
    }
    std::span<Cell> source(size_t rank, const Step& step) {
        return step.source == Buffer::none
                   ? std::span<Cell>()
                   : region(rank, step.source, step.source_offset, step.length);
    }
    std::span<Cell> target(size_t rank, const Step& step) {
        return step.target == Buffer::none
                   ? std::span<Cell>()
                   : region(rank, step.target, step.target_offset, step.length);
    }

    void start(size_t rank, StepId id) {
        const Step& step = schedules_[rank].steps()[id];
        auto peer = static_cast<size_t>(step.peer);
        switch (step.kind) {
        case StepKind::send: return meet({rank, peer, step.slot}, {rank, id}, true);
        case StepKind::recv: return meet({peer, rank, step.slot}, {rank, id}, false);
        case StepKind::copy: {
            auto from = source(rank, step), to = target(rank, step);
            if (problem_.empty()) std::copy(from.begin(), from.end(), to.begin());
            return over(rank, id);
        }
        case StepKind::reduce: add(rank, step); return over(rank, id);
        default: return over(rank, id);
        }
    }

    void meet(const Key& key, Place place, bool sends) {
        Message& message = messages_[key];
        (sends ? message.sent : message.wanted) = true;
        (sends ? message.from : message.to) = place;
        if (sends && !late_) {
            auto cells = source(place.rank, schedules_[place.rank].steps()[place.step]);
            message.cells.assign(cells.begin(), cells.end());
            over(place.rank, place.step);
        }
        if (!message.sent || !message.wanted || !problem_.empty()) return;
        if (late_) {
            auto cells =
                source(message.from.rank, schedules_[message.from.rank].steps()[message.from.step]);
            message.cells.assign(cells.begin(), cells.end());
            over(message.from.rank, message.from.step);
        }
        auto to = target(message.to.rank, schedules_[message.to.rank].steps()[message.to.step]);
        if (!problem_.empty()) return;
        if (to.size() != message.cells.size()) {
            problem_ = format("Rank {} sends {} bytes to rank {}, which expects {}",
                              message.from.rank, message.cells.size(), message.to.rank, to.size());
            return;
        }
        std::copy(message.cells.begin(), message.cells.end(), to.begin());
        over(message.to.rank, message.to.step);
    }

    void add(size_t rank, const Step& step) {
        auto left = source(rank, step), to = target(rank, step);
        auto right = region(rank, step.other, step.other_offset, step.length);
        for (size_t i = 0; i < step.length && problem_.empty(); ++i) {
            Cell x = left[i], y = right[i];
            if (!x.who || !y.who)
                problem_ = format("Rank {} adds a byte that nobody has written", rank);
            else if (x.place != y.place)
                problem_ =
                    format("Rank {} adds byte {} of the input to byte {}", rank, x.place, y.place);
            else if (x.who & y.who)
                problem_ = format("Rank {} adds what rank {} has given a second time, at byte {}",
                                  rank, names_of(x.who & y.who), x.place);
            else to[i] = {x.place, x.who | y.who};
        }
    }

    void over(size_t rank, StepId id) {
        --left_[rank];
        const Schedule& schedule = schedules_[rank];
        for (StepId next : schedule.successors(schedule.steps()[id]))
            if (--open_[rank][next] == 0) ready_.push_back({rank, next});
    }

    void judge(size_t r) {
        const Shape& shape = shapes_[r];
        auto rank = static_cast<size_t>(shape.rank);
        size_t m = shape.bytes();
        uint64_t all = shape.size == 64 ? ~uint64_t{0} : (uint64_t{1} << shape.size) - 1;
        if (shape.collective == Collective::reduce && shape.rank != shape.root) return;
        const Cells& result = memory_[r][1];
        for (size_t i = 0; i < block_end(shape, false) && problem_.empty(); ++i) {
            Cell due{i, all};
            if (shape.collective == Collective::bcast) due.who = uint64_t{1} << shape.root;
            if (shape.collective == Collective::allgather) due = {i % m, uint64_t{1} << i / m};
            if (shape.collective == Collective::reduce_scatter) due.place = rank * m + i;
            if (result[i] == due) continue;
            problem_ = format(
                "Byte {} of rank {}'s result is made of byte {} of {}, not of byte {} of {}", i, r,
                result[i].place, names_of(result[i].who), due.place, names_of(due.who));
        }
    }

    std::span<const Schedule> schedules_;
    std::span<const Shape> shapes_;
    Order order_;
    bool late_;  // messages are read when they are taken in
    Random random_;
    std::vector<std::array<Cells, 3>> memory_;  // input, result, scratch
    std::vector<std::vector<uint32_t>> open_;
    std::vector<size_t> left_;
    std::vector<Place> ready_;
    std::map<Key, Message> messages_;
    std::string problem_;
};

}  // namespace

bool follows_contributions(std::span<const Schedule> schedules, const Shape& shape) {
    for (const Schedule& schedule : schedules)
        for (const Step& step : schedule.steps())
            if (of_board(step.kind) || step.kind == StepKind::gate) return false;
    Collective kind = shape.collective;
    return shape.size <= 64 && !shape.irregular &&
           (kind == Collective::bcast || kind == Collective::reduce ||
            kind == Collective::allreduce || kind == Collective::allgather ||
            kind == Collective::reduce_scatter);
}

std::string check_contributions(std::span<const Schedule> schedules,
                                std::span<const Shape> shapes) {
    check(schedules.size() == shapes.size() && !shapes.empty(), schedules.size(), shapes.size());
    if (!follows_contributions(schedules, shapes[0])) return "Nobody can follow these schedules";
    uint64_t seed = 0;  // the same orders whenever it is asked
    for (bool late : {false, true})
        for (Order order : {Order::oldest, Order::newest, Order::any, Order::any}) {
            std::string problem = Execution(schedules, shapes, order, late, ++seed).run();
            if (!problem.empty()) return problem;
        }
    return "";
}

}  // namespace pomona::coll
