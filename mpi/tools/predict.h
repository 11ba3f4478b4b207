// mpi/tools/predict.h: `pomona predict`: what a training step will take, and what would shorten it.
// Idea: a step is a list of events: computing, the start of a collective, the wait for it. It comes
// from a recording (pomona.predict.Recorder) or from the sizes of a model's parameters. Replayed on
// a network, each collective lasts what coll/price says of the algorithm that the library would
// choose.
#pragma once

#include "coll/price.h"
#include "mpi/tools/job_choices.h"
#include "mpi/tools/network_file.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace pomona {

struct StepEvent {
    enum class Kind { compute, start, wait } kind = Kind::compute;
    double seconds = 0;   // of computing, on a host of speed 1
    bool update = false;  // of it: done once a step, however many batches it has
    coll::Collective collective = coll::Collective::allreduce;
    size_t bytes = 0;  // of the whole vector
    int number = 0;    // of the collective, from 0
};

// A parameter's or, of FSDP2, a group's gradients are ready after this part of the backward pass.
struct StepModel {
    std::string kind = "ddp";  // or fsdp2
    std::vector<StepEvent> events;
    std::vector<double> parameters;  // bytes of each, in the model's order; may be empty
    double bucket_bytes = 25 << 20;
    double element = 4;  // bytes of a gradient's
    int collectives() const;
};

// What a step is made of when nothing was recorded.
struct StepSizes {
    std::string kind = "ddp";
    std::vector<double> parameters;                // elements
    double element = 4;                            // bytes
    double forward = 0, backward = 0, update = 0;  // seconds, on a host of speed 1
    double bucket_bytes = 25 << 20;
    bool prefetch = false;  // FSDP2 gathers while it computes, as it does on devices with streams
};
StepModel model_of(const StepSizes& sizes);
// The same step with other buckets; nothing for models without parameters and of FSDP2.
std::optional<StepModel> with_buckets(const StepModel& model, double bucket_bytes);

// A file of the recorder, or {"parameters": [...]}, which fills `sizes`. `problem` gets a sentence.
std::optional<StepModel> parse_model(const std::string& text, StepSizes& sizes,
                                     std::string& problem);
// "25e6", "100x1e6,2e6": elements of each parameter.
std::optional<std::vector<double>> parse_parameters(const std::string& text, std::string& problem);

enum class Packing { none, fp16, int8 };

using SizedCollective = std::pair<coll::Collective, size_t>;

// Is told what is reckoned at this moment, before each price.
using Progress = std::function<void(const std::string& what)>;

// The time of a collective on one network; prices are kept. Among many ranks a price takes long;
// there a size between two whose prices are known, and are not far apart, gets what lies between
// these.
class CollectiveTimes {
public:
    CollectiveTimes(NetworkFile network, const JobChoices& choices, Progress progress = {},
                    std::string what = {});
    int priced() const { return priced_; }
    // Of sizes that will be asked for: prices some, so that all others lie between two.
    void prepare(std::vector<SizedCollective> all);
    const NetworkChoices& choices() const { return choices_; }
    const NetworkFile& network() const { return network_; }
    double seconds(coll::Collective collective, size_t bytes);
    // "ring", with its options, as the library would choose.
    std::string algorithm(coll::Collective collective, size_t bytes);

private:
    using SizedIterator = std::vector<SizedCollective>::const_iterator;
    double price(coll::Collective collective, size_t bytes);
    void price_between(SizedIterator first, SizedIterator last);

    NetworkFile network_;
    NetworkChoices choices_;
    Progress progress_;
    std::string what_;
    std::map<std::pair<int, size_t>, double> found_, exact_;  // by collective and bytes: seconds
    int priced_ = 0;
};

struct StepTime {
    double seconds = 0;
    double computing = 0;      // of the slowest host, without any communication
    double communicating = 0;  // all collectives
    struct Bar {
        std::string what;
        double begin, end;
        bool computing;
    };
    std::vector<Bar> bars;  // of the slowest host, for the plot
    double exposed() const { return seconds - computing; }
    // The share of the communication that computing hides.
    double hidden() const {
        return communicating > 0 ? 1 - std::min(1.0, exposed() / communicating) : 1;
    }
};

struct StepOptions {
    int batches = 1;  // accumulated; the last one communicates, of FSDP2 all gather
    Packing packing = Packing::none;
    bool uneven = false;  // each host's batch by its speed
};
StepTime step_time(const StepModel& model, CollectiveTimes& times, const StepOptions& options = {});

struct Lever {
    std::string name, note;
    double seconds = 0;     // of the step as it then is
    double throughput = 1;  // samples a second, of those without it
};
struct Prediction {
    StepTime step;
    std::vector<Lever> levers;
    struct Row {
        coll::Collective collective;
        size_t bytes;
        int count;
        double seconds;  // each
        std::string algorithm;
    };
    std::vector<Row> collectives;
    // What algorithms were chosen by: "" where nothing is said or kept.
    std::string sources;
    std::vector<std::string> told;  // why something that is kept does not serve
};
Prediction predict(const StepModel& model, const NetworkFile& network, const JobChoices& choices,
                   double cable_gigabits, const Progress& progress = {});

std::string prediction_text(const StepModel& model, const NetworkFile& network,
                            const Prediction& prediction);
std::string prediction_json(const StepModel& model, const NetworkFile& network,
                            const Prediction& prediction);

struct PredictOptions {
    std::string network, hosts, ssh;  // a file, or hosts to be measured
    std::string model;                // a file: recorded, or sizes
    std::string parameters;
    StepSizes sizes;
    double compute_ms = 0, update_ms = 0, bucket_mib = 25, cable_gigabits = 0;
    bool half = false;  // parameters of 2 bytes
    bool fsdp2 = false;
    bool json = false;
    std::string plot, python = "python3", save_network;
};
int predict_command(const PredictOptions& options, const JobChoices& choices);

}  // namespace pomona
