// mpi/tools/tune_choices_rank.cc: the ranks that time algorithms in turns (tune_choices.h), through
// MPI calls alone.
#include "mpi/tools/tune_choices.h"

#include "btl/base/clock.h"
#include "btl/base/format.h"
#include "btl/base/params.h"
#include "mpi/tools/mpi_library.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>

extern char** environ;

namespace pomona {

namespace {

using coll::Collective;

constexpr int kRoundsTrial = 3, kRoundsMin = 8, kRoundsMost = 40;
constexpr double kCaseNs = 60e6;  // of all rounds of a case
// Of one candidate before it is the next one's turn: its memory comes back into the caches first.
constexpr double kBatchNs = 500e3;
constexpr double kPairsMost = 32;
constexpr double kHopeless = 1.6;  // times the quickest candidate's least

class Timer {
public:
    Timer(const Mpi& mpi, size_t room) : mpi_(mpi), here_(new char[room]), there_(new char[room]) {
        std::memset(here_.get(), 0, room);
        std::memset(there_.get(), 0, room);
        mpi_.Comm_rank(MPI_COMM_WORLD, &rank_);
        mpi_.Comm_size(MPI_COMM_WORLD, &ranks_);
    }

    ChoiceTimes time(const ChoiceCase& each) {
        std::vector<Candidate> candidates;
        for (const coll::Choice& choice : each.candidates)
            candidates.push_back({communicator(each.collective, choice)});
        for (Candidate& one : candidates) {
            batch(each, one.comm, 1);  // boards, memory
            double once = std::max(batch(each, one.comm, 1)[0], 1.0);
            one.pairs = static_cast<int>(std::clamp(kBatchNs / once / 2, 1.0, kPairsMost));
        }
        double spent = 0;
        for (int round = 0; round < kRoundsMost && (round < kRoundsMin || spent < kCaseNs);
             ++round) {
            for (size_t i = 0; i < candidates.size(); ++i) {
                Candidate& one = candidates[(i + static_cast<size_t>(round)) % candidates.size()];
                if (one.hopeless) continue;
                for (double took : batch(each, one.comm, one.pairs)) {
                    one.samples.push_back(took);
                    spent += 2 * took;
                }
            }
            if (round + 1 == kRoundsTrial) give_up_hopeless(candidates);
        }
        ChoiceTimes out{each.collective, each.bytes, {}};
        for (size_t i = 0; i < candidates.size(); ++i) {
            std::vector<double>& samples = candidates[i].samples;
            mpi_.Comm_free(&candidates[i].comm);
            std::sort(samples.begin(), samples.end());
            out.times.push_back({each.candidates[i], samples.front(), samples[samples.size() / 2]});
        }
        return out;
    }

private:
    struct Candidate {
        MPI_Comm comm;
        int pairs = 1;  // of calls, in a batch
        bool hopeless = false;
        std::vector<double> samples{};
    };

    // What the rest of the time is not spent on. All ranks have the same samples.
    static void give_up_hopeless(std::vector<Candidate>& candidates) {
        auto least = [](const Candidate& one) {
            return *std::min_element(one.samples.begin(), one.samples.end());
        };
        double quickest = least(candidates[0]);
        for (const Candidate& one : candidates) quickest = std::min(quickest, least(one));
        for (size_t i = 1; i < candidates.size(); ++i)
            candidates[i].hopeless = least(candidates[i]) > kHopeless * quickest;
    }

    MPI_Comm communicator(Collective collective, const coll::Choice& choice) {
        MPI_Info info = MPI_INFO_NULL;
        MPI_Comm made = MPI_COMM_NULL;
        std::string rule =
            pomona::format("{}: {}", collective_name(collective), choice_text(choice));
        mpi_.Info_create(&info);
        mpi_.Info_set(info, "pomona_choices", rule.c_str());
        mpi_.Comm_dup_with_info(MPI_COMM_WORLD, info, &made);
        mpi_.Info_free(&info);
        mpi_.Barrier(made);  // makes its board, which a bcast does not
        return made;
    }

    // Nanoseconds of a call, for each pair of calls their mean, each of the rank that took the
    // longest: the same at all ranks. All begin together, so that no root runs ahead. One call of a
    // pair has new data, as programs do: that costs algorithms unlike amounts, since a copy of what
    // others' caches hold takes longer. The middle of single calls would lie between the two sorts,
    // wherever chance puts it.
    std::vector<double> batch(const ChoiceCase& each, MPI_Comm comm, int pairs) {
        std::vector<double> mine, longest(static_cast<size_t>(2 * pairs));
        for (int i = 0; i < 2 * pairs; ++i) {
            if (i % 2 == 0) write(each);
            mpi_.Barrier(MPI_COMM_WORLD);
            Nanoseconds start = clock_.now();
            call(each, comm);
            mine.push_back(static_cast<double>(clock_.now() - start));
        }
        mpi_.Allreduce(mine.data(), longest.data(), 2 * pairs, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        std::vector<double> means;
        for (size_t i = 0; i < longest.size(); i += 2)
            means.push_back((longest[i] + longest[i + 1]) / 2);
        return means;
    }

    void write(const ChoiceCase& each) {
        size_t bytes = each.bytes;
        if (each.collective == Collective::alltoall ||
            each.collective == Collective::reduce_scatter)
            bytes *= static_cast<size_t>(ranks_);
        bool of_root = each.collective == Collective::bcast;
        if (of_root && rank_ != 0) return;
        std::memset(of_root ? there_.get() : here_.get(), static_cast<int>(++written_ % 4), bytes);
    }

    void call(const ChoiceCase& each, MPI_Comm comm) {
        int count = static_cast<int>(each.bytes / sizeof(float));
        void *here = here_.get(), *there = there_.get();
        switch (each.collective) {
        case Collective::allreduce:
            mpi_.Allreduce(here, there, count, MPI_FLOAT, MPI_SUM, comm);
            break;
        case Collective::bcast: mpi_.Bcast(there, count, MPI_FLOAT, 0, comm); break;
        case Collective::reduce:
            mpi_.Reduce(here, there, count, MPI_FLOAT, MPI_SUM, 0, comm);
            break;
        case Collective::allgather:
            mpi_.Allgather(here, count, MPI_FLOAT, there, count, MPI_FLOAT, comm);
            break;
        case Collective::alltoall:
            mpi_.Alltoall(here, count, MPI_FLOAT, there, count, MPI_FLOAT, comm);
            break;
        case Collective::reduce_scatter:
            mpi_.Reduce_scatter_block(here, there, count, MPI_FLOAT, MPI_SUM, comm);
            break;
        default: mpi_.Barrier(comm);
        }
    }

    const Mpi& mpi_;
    RealClock clock_;
    std::unique_ptr<char[]> here_, there_;
    int rank_ = 0, ranks_ = 1;
    unsigned written_ = 0;
};

}  // namespace

int tune_choices_rank(int machines) {
    Mpi mpi;
    if (!mpi.open("pomona tune")) return 1;
    ChoiceWorld world{.machines = std::max(machines, 1)};
    int rank = 0;
    mpi.Init(nullptr, nullptr);
    mpi.Comm_rank(MPI_COMM_WORLD, &rank);
    mpi.Comm_size(MPI_COMM_WORLD, &world.ranks);
    Params params = read_params(environ, [](const std::string&) {});
    std::string problem;
    if (auto links = coll::parse_links(params.links, problem); links.ok()) world.links = *links;
    auto cases = choice_cases(world);
    size_t room = 0;
    for (const ChoiceCase& each : cases)
        room = std::max(room, each.bytes * static_cast<size_t>(world.ranks));
    Timer timer(mpi, room);
    std::vector<ChoiceTimes> all;
    for (const ChoiceCase& each : cases) all.push_back(timer.time(each));
    // What disturbed the machine for a while may have made a winner: it has to win once more,
    // later.
    for (ChoiceTimes& times : all) {
        while (&times.best() != &times.times[0]) {
            const ChoiceTime& best = times.best();
            ChoiceTimes again =
                timer.time({times.collective, times.bytes, {times.times[0].choice, best.choice}});
            if (&again.best() != &again.times[0]) break;
            times.times.erase(times.times.begin() + (&best - times.times.data()));
        }
        if (rank == 0) std::fputs(choice_times_text(times).c_str(), stdout);
    }
    if (rank == 0) std::fputs("end\n", stdout);
    std::fflush(stdout);
    return mpi.Finalize() == MPI_SUCCESS ? 0 : 1;
}

}  // namespace pomona
