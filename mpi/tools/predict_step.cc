// mpi/tools/predict_step.cc: a step replayed on a network, and what each lever would give.
#include "mpi/tools/predict.h"

#include "btl/base/format.h"
#include "coll/select.h"

#include <algorithm>

namespace pomona {

using coll::Collective;

namespace {

constexpr size_t kElement = 4;  // bytes, of what is summed
// Of more ranks sizes within kNear of each other are not priced one by one: on the way from one to
// the other the time is about a line.
constexpr int kPricedEachMost = 64;
constexpr double kNear = 1.5;
constexpr double kInt8Block = 256;  // pomona.hooks.Int8: values that share a scale of 4 bytes

}  // namespace

CollectiveTimes::CollectiveTimes(NetworkFile network, const JobChoices& choices, Progress progress,
                                 std::string what)
    : network_(std::move(network)), choices_(network_, choices), progress_(std::move(progress)),
      what_(std::move(what)) {}

double CollectiveTimes::price(Collective collective, size_t bytes) {
    if (progress_) progress_(what_);
    coll::Shape shape = choices_.shape(collective, bytes, kElement);
    coll::Plan plan = choices_.plan(shape);
    std::string problem;
    auto price = coll::price(*plan.algorithm, shape, plan.options, choices_.priced(), problem);
    check(price.ok(), network_.ranks(), static_cast<int>(collective));
    ++priced_;
    return price->ns * 1e-9;
}

void CollectiveTimes::prepare(std::vector<SizedCollective> all) {
    if (network_.ranks() <= kPricedEachMost) return;
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    for (auto first = all.begin(); first != all.end();) {
        auto last = std::find_if(first, all.end(), [&](const SizedCollective& each) {
            return each.first != first->first;
        });
        seconds(first->first, first->second);
        seconds(first->first, (last - 1)->second);
        price_between(first, last - 1);
        first = last;
    }
}

// Of sizes in order, whose ends have prices: some in the middle, until neighbours are near.
void CollectiveTimes::price_between(SizedIterator first, SizedIterator last) {
    auto low = static_cast<double>(first->second), high = static_cast<double>(last->second);
    if (last - first < 2 || high <= kNear * low) return;
    auto middle = std::find_if(first + 1, last - 1, [&](const SizedCollective& each) {
        return static_cast<double>(each.second) * static_cast<double>(each.second) >= low * high;
    });
    seconds(middle->first, middle->second);
    price_between(first, middle);
    price_between(middle, last);
}

double CollectiveTimes::seconds(Collective collective, size_t bytes) {
    if (network_.ranks() <= 1 || bytes == 0) return 0;
    const std::pair key{static_cast<int>(collective), bytes};
    auto [at, made] = found_.try_emplace(key);
    if (!made) return at->second;
    auto above = exact_.lower_bound(key), below = above;
    bool between = network_.ranks() > kPricedEachMost && above != exact_.end() &&
                   above != exact_.begin() && above->first.first == key.first &&
                   (--below)->first.first == key.first;
    auto low = static_cast<double>(between ? below->first.second : 0),
         high = static_cast<double>(between ? above->first.second : 0);
    if (between && high <= kNear * low)
        return at->second = below->second + (above->second - below->second) *
                                                (static_cast<double>(bytes) - low) / (high - low);
    return at->second = exact_[key] = price(collective, bytes);
}

std::string CollectiveTimes::algorithm(Collective collective, size_t bytes) {
    if (network_.ranks() <= 1 || bytes == 0) return "none";
    coll::Plan plan = choices_.plan(choices_.shape(collective, bytes, kElement));
    std::string name = plan.algorithm->name;
    if (plan.algorithm->uses_segments && plan.options.segments > 1)
        name += format(":segments={}", plan.options.segments);
    return name;
}

namespace {

// What a collective of the step is made of. DistributedDataParallel's hooks (pomona.hooks) send
// each rank's share to all, and the packed averages back; FSDP2's mixed precision only makes its
// collectives shorter.
std::vector<SizedCollective> parts_of(const StepModel& model, const StepEvent& event,
                                      Packing packing) {
    double of = packing == Packing::fp16   ? 2 / model.element
                : packing == Packing::int8 ? (kInt8Block + 4) / kInt8Block / model.element
                                           : 1;
    auto packed = static_cast<size_t>(static_cast<double>(event.bytes) * of);
    if (packing == Packing::none || model.kind != "ddp" ||
        event.collective != Collective::allreduce)
        return {{event.collective, packed}};
    return {{Collective::alltoall, packed}, {Collective::allgather, packed}};
}

// How much longer each host computes.
std::vector<double> computing_times(const NetworkFile& network, bool uneven) {
    std::vector<double> out;
    double speeds = 0;
    for (const NetworkHost& each : network.hosts) speeds += each.speed * each.ranks;
    for (const NetworkHost& each : network.hosts)
        out.push_back(uneven ? network.ranks() / speeds : 1 / each.speed);
    return out;
}

// One batch. Hosts' clocks go on from where they are.
class Replay {
public:
    Replay(const StepModel& model, CollectiveTimes& times, const StepOptions& options)
        : model_(model), times_(times), options_(options),
          slower_(computing_times(times.network(), options.uneven)), now_(slower_.size(), 0.0) {
        slowest_ =
            static_cast<size_t>(std::max_element(slower_.begin(), slower_.end()) - slower_.begin());
    }

    // `last`: of the step; others do not reduce gradients, and update nothing.
    void batch(bool last) {
        std::vector<double> over;  // by number of the collective
        for (const StepEvent& event : model_.events) {
            if (event.kind == StepEvent::Kind::compute) {
                if (last || !event.update) compute(event.seconds, event.update);
            } else if (event.kind == StepEvent::Kind::start) {
                over.push_back(last || event.collective == Collective::allgather ? start(event)
                                                                                 : 0);
            } else {
                for (double& now : now_)
                    now = std::max(now, over[static_cast<size_t>(event.number)]);
            }
        }
    }

    StepTime result() const {
        StepTime out = out_;
        out.seconds = *std::max_element(now_.begin(), now_.end());
        return out;
    }

private:
    void compute(double seconds, bool update) {
        for (size_t host = 0; host < now_.size(); ++host) {
            // An update takes as long whatever the batch; only the host's speed counts.
            double slower = update ? 1 / times_.network().hosts[host].speed : slower_[host];
            double begin = now_[host];
            now_[host] += seconds * slower;
            if (host != slowest_) continue;
            out_.computing += seconds * slower;
            out_.bars.push_back({update ? "update" : "compute", begin, now_[host], true});
        }
    }
    // Collectives of one group follow each other; each begins when the last host has come.
    double start(const StepEvent& event) {
        double seconds = 0;
        for (const auto& [collective, bytes] : parts_of(model_, event, options_.packing))
            seconds += times_.seconds(collective, bytes);
        double begin = std::max(line_free_, *std::max_element(now_.begin(), now_.end()));
        out_.communicating += seconds;
        out_.bars.push_back(
            {coll::collective_name(event.collective), begin, begin + seconds, false});
        return line_free_ = begin + seconds;
    }

    const StepModel& model_;
    CollectiveTimes& times_;
    StepOptions options_;
    std::vector<double> slower_, now_;
    size_t slowest_ = 0;
    double line_free_ = 0;
    StepTime out_;
};

double samples(const NetworkFile& network, const StepTime& step, int batches = 1) {
    return step.seconds > 0 ? network.ranks() * batches / step.seconds : 0;
}

}  // namespace

StepTime step_time(const StepModel& model, CollectiveTimes& times, const StepOptions& options) {
    std::vector<SizedCollective> all;
    for (const StepEvent& event : model.events)
        if (event.kind == StepEvent::Kind::start)
            for (const SizedCollective& part : parts_of(model, event, options.packing))
                all.push_back(part);
    times.prepare(std::move(all));
    Replay replay(model, times, options);
    for (int batch = 1; batch <= options.batches; ++batch) replay.batch(batch == options.batches);
    return replay.result();
}

namespace {

class Levers {
public:
    Levers(const StepModel& model, CollectiveTimes& times, const JobChoices& choices,
           const Progress& progress, const StepTime& step)
        : model_(model), times_(times), choices_(choices), progress_(progress),
          base_(samples(times.network(), step)) {}

    void accumulation() {
        for (int batches : {2, 4, 8})
            add(format("accumulate {} batches", batches), "their sum is one larger batch", model_,
                times_, {.batches = batches});
    }
    void buckets() {
        for (double mib : {1.0, 5.0, 25.0, 100.0}) {
            auto model = with_buckets(model_, mib * (1 << 20));
            if (model && mib * (1 << 20) != model_.bucket_bytes)
                add(format("buckets of {:g} MiB", mib),
                    format("{} instead of {}", model->collectives(), model_.collectives()), *model,
                    times_);
        }
    }
    // What has short elements already gets no shorter ones offered.
    void packing() {
        bool shorter = model_.element > 2;
        if (model_.kind == "fsdp2") {
            if (shorter)
                add("fp16 instead of fp32", "MixedPrecisionPolicy; changes results", model_, times_,
                    {.packing = Packing::fp16});
            return;
        }
        const char* note = "changes results; packing itself is not counted";
        if (shorter) add("compression Fp16", note, model_, times_, {.packing = Packing::fp16});
        add("compression Int8", note, model_, times_, {.packing = Packing::int8});
    }
    void cables(double gigabits) {
        if (times_.network().hosts.size() < 2) return;
        CollectiveTimes two(with_lines(times_.network(), 2), choices_, progress_, "a second cable");
        add("a second cable", "beside each, as quick as that", model_, two);
        if (gigabits <= 0) return;
        CollectiveTimes other(with_rate(times_.network(), gigabits), choices_, progress_,
                              "other cables");
        add(format("cables of {:g} Gb/s", gigabits), "in place of all", model_, other);
    }
    void uneven_batches() {
        const auto& hosts = times_.network().hosts;
        auto unlike = [&](const NetworkHost& each) { return each.speed != hosts[0].speed; };
        if (std::any_of(hosts.begin(), hosts.end(), unlike))
            add("batches by speed", "quicker hosts take larger ones", model_, times_,
                {.uneven = true});
    }
    void hosts() {
        const NetworkFile& network = times_.network();
        if (network.hosts.size() < 2) return;
        CollectiveTimes more(with_another_host(network), choices_, progress_, "one host more");
        add("one host more", "like the last", model_, more);
        CollectiveTimes less(without_a_host(network), choices_, progress_, "one host less");
        add("one host less", "without the slowest", model_, less);
    }
    std::vector<Lever> out;

private:
    void add(std::string name, std::string note, const StepModel& model, CollectiveTimes& times,
             const StepOptions& options = {}) {
        StepTime step = step_time(model, times, options);
        double ratio = base_ > 0 ? samples(times.network(), step, options.batches) / base_ : 1;
        out.push_back({std::move(name), std::move(note), step.seconds, ratio});
    }

    const StepModel& model_;
    CollectiveTimes& times_;
    const JobChoices& choices_;
    const Progress& progress_;
    double base_;
};

}  // namespace

Prediction predict(const StepModel& model, const NetworkFile& network, const JobChoices& choices,
                   double cable_gigabits, const Progress& progress) {
    CollectiveTimes times(network, choices, progress, "the step");
    Prediction out;
    out.sources = times.choices().sources();
    out.told = times.choices().told();
    out.step = step_time(model, times);
    for (const StepEvent& event : model.events) {
        if (event.kind != StepEvent::Kind::start) continue;
        auto at =
            std::find_if(out.collectives.begin(), out.collectives.end(), [&](const auto& row) {
                return row.collective == event.collective && row.bytes == event.bytes;
            });
        if (at != out.collectives.end()) ++at->count;
        else
            out.collectives.push_back({event.collective, event.bytes, 1,
                                       times.seconds(event.collective, event.bytes),
                                       times.algorithm(event.collective, event.bytes)});
    }
    Levers levers(model, times, choices, progress, out.step);
    levers.accumulation();
    levers.buckets();
    levers.packing();
    levers.cables(cable_gigabits);
    levers.uneven_batches();
    levers.hosts();
    out.levers = std::move(levers.out);
    return out;
}

}  // namespace pomona
