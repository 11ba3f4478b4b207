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
#include <new>
#include <numeric>

#include <sys/mman.h>

extern char** environ;

namespace pomona {

namespace {

using coll::Collective;

constexpr int kRoundsTrial = 3, kRoundsMin = 8, kRoundsMost = 40;
constexpr double kCaseNs = 60e6;  // of all rounds of a case
// Of one candidate before it is the next one's turn: its memory comes back into the caches first.
constexpr double kBatchNs = 500e3;
constexpr double kCallsLeast = 2, kCallsMost = 64;
constexpr double kHopeless = 1.6;  // times the quickest candidate's least

// Memory that begins at a page and is nobody else's, as a program's large buffers are. Which pages
// of the machine it gets decides how much of it stays in caches.
class Pages {
public:
    explicit Pages(size_t bytes)
        : bytes_(std::max(bytes, size_t{1})),
          data_(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
        if (data_ == MAP_FAILED) throw std::bad_alloc();
        std::memset(data_, 0, bytes_);
    }
    ~Pages() { munmap(data_, bytes_); }
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;
    void* data() const { return data_; }

private:
    size_t bytes_;
    void* data_;
};

class Timer {
public:
    explicit Timer(const Mpi& mpi) : mpi_(mpi) {
        mpi_.Comm_rank(MPI_COMM_WORLD, &rank_);
        mpi_.Comm_size(MPI_COMM_WORLD, &ranks_);
    }

    ChoiceTimes time(const ChoiceCase& each) {
        std::vector<Candidate> candidates;
        for (const coll::Choice& choice : each.candidates)
            candidates.push_back({communicator(each.collective, choice)});
        renew(each);
        for (Candidate& one : candidates) {
            call(each, one.comm);  // boards, memory
            time_calls(each, one.comm, 1, true, one.fresh);
            double once = std::max(one.fresh[0], 1.0);
            one.calls = static_cast<int>(std::clamp(kBatchNs / once, kCallsLeast, kCallsMost));
            one.fresh.clear();
        }
        double spent = 0;
        for (int round = 0; round < kRoundsMost && (round < kRoundsMin || spent < kCaseNs);
             ++round) {
            renew(each);
            for (size_t i = 0; i < candidates.size(); ++i) {
                Candidate& one = candidates[(i + static_cast<size_t>(round)) % candidates.size()];
                if (one.hopeless) continue;
                call(each, one.comm);  // this candidate's memory comes back into the caches
                spent += time_calls(each, one.comm, one.calls, false, one.same);
                spent += time_calls(each, one.comm, (one.calls + 1) / 2, true, one.fresh);
            }
            if (round + 1 == kRoundsTrial) give_up_hopeless(candidates);
        }
        ChoiceTimes out{each.collective, each.bytes, {}};
        for (size_t i = 0; i < candidates.size(); ++i) {
            mpi_.Comm_free(&candidates[i].comm);
            out.times.push_back(
                {each.candidates[i], time_of(candidates[i].same), time_of(candidates[i].fresh)});
        }
        return out;
    }

private:
    struct Candidate {
        MPI_Comm comm;
        int calls = 1;  // in a round
        bool hopeless = false;
        std::vector<double> same{}, fresh{};  // nanoseconds of each call
    };

    static CallTime time_of(std::vector<double>& samples) {
        std::sort(samples.begin(), samples.end());
        size_t count = samples.size();
        return {samples[count / 4], samples[count / 2], samples[3 * count / 4], samples[0]};
    }

    // What the rest of the time is not spent on: what is far behind with either kind of data. All
    // ranks have the same samples.
    static void give_up_hopeless(std::vector<Candidate>& candidates) {
        for (auto samples : {&Candidate::same, &Candidate::fresh}) {
            auto least = [samples](const Candidate& one) {
                return *std::min_element((one.*samples).begin(), (one.*samples).end());
            };
            double quickest = least(candidates[0]);
            for (const Candidate& one : candidates) quickest = std::min(quickest, least(one));
            for (size_t i = 1; i < candidates.size(); ++i)
                if (least(candidates[i]) > kHopeless * quickest) candidates[i].hopeless = true;
        }
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

    // Puts the nanoseconds of so many calls, of the rank that took the longest, behind `samples`:
    // the same at all ranks. Returns their sum. All begin together, so that no root runs ahead.
    // Data that was just written costs algorithms unlike amounts, since a copy of what others'
    // caches hold takes longer.
    double time_calls(const ChoiceCase& each, MPI_Comm comm, int calls, bool fresh,
                      std::vector<double>& samples) {
        std::vector<double> mine, longest(static_cast<size_t>(calls));
        for (int i = 0; i < calls; ++i) {
            if (fresh) write(each);
            mpi_.Barrier(MPI_COMM_WORLD);
            Nanoseconds start = clock_.now();
            call(each, comm);
            mine.push_back(static_cast<double>(clock_.now() - start));
        }
        mpi_.Allreduce(mine.data(), longest.data(), calls, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        samples.insert(samples.end(), longest.begin(), longest.end());
        return std::accumulate(longest.begin(), longest.end(), 0.0);
    }

    // Bytes of what a rank gives, and of what it gets.
    size_t given(const ChoiceCase& each) const {
        bool many = each.collective == Collective::alltoall ||
                    each.collective == Collective::reduce_scatter;
        return many ? each.bytes * static_cast<size_t>(ranks_) : each.bytes;
    }
    size_t gotten(const ChoiceCase& each) const {
        bool many =
            each.collective == Collective::alltoall || each.collective == Collective::allgather;
        return many ? each.bytes * static_cast<size_t>(ranks_) : each.bytes;
    }

    // Other pages: where they lie makes all candidates quicker or slower for as long as they stay.
    void renew(const ChoiceCase& each) {
        here_.reset(), there_.reset();
        here_ = std::make_unique<Pages>(given(each));
        there_ = std::make_unique<Pages>(gotten(each));
    }

    void write(const ChoiceCase& each) {
        bool of_root = each.collective == Collective::bcast;
        if (of_root && rank_ != 0) return;
        std::memset(of_root ? there_->data() : here_->data(), static_cast<int>(++written_ % 4),
                    of_root ? each.bytes : given(each));
    }

    void call(const ChoiceCase& each, MPI_Comm comm) {
        int count = static_cast<int>(each.bytes / sizeof(float));
        void *here = here_->data(), *there = there_->data();
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
    std::unique_ptr<Pages> here_, there_;
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
    Timer timer(mpi);
    std::vector<ChoiceTimes> all;
    for (const ChoiceCase& each : choice_cases(world)) all.push_back(timer.time(each));
    for (const ChoiceCase& each : cases_between(world, all)) all.push_back(timer.time(each));
    sort_by_size(all);
    for (ChoiceTimes& times : all) {
        while (&times.best() != &times.times[0]) {
            const ChoiceTime& best = times.best();
            ChoiceTimes again =
                timer.time({times.collective, times.bytes, {times.times[0].choice, best.choice}});
            if (wins_again(times, best, again)) break;
            times.times[static_cast<size_t>(&best - times.times.data())].lost = true;
        }
        if (rank == 0) std::fputs(choice_times_text(times).c_str(), stdout);
    }
    if (rank == 0) std::fputs("end\n", stdout);
    std::fflush(stdout);
    return mpi.Finalize() == MPI_SUCCESS ? 0 : 1;
}

}  // namespace pomona
