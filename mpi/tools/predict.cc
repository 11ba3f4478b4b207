// mpi/tools/predict.cc: `pomona predict`: reads what it is given, prints, and has the plot made.
#include "mpi/tools/predict.h"

#include "btl/base/format.h"
#include "btl/base/named_file.h"
#include "mpi/tools/links.h"
#include "mpi/tools/predict_plot.h"
#include "mpi/tools/report.h"
#include "pmix/launch/ask.h"
#include "pmix/launch/hosts.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include <unistd.h>

namespace pomona {

namespace {

using nlohmann::json;

int complain(const std::string& text) {
    pomona::complain("predict", text);
    return 2;
}

std::string milliseconds(double seconds) { return format("{:.1f}", seconds * 1e3); }

// The hosts of --host, measured as `pomona links` does.
bool probe(const PredictOptions& options, NetworkFile& network, std::string& problem) {
    LinksOptions linking;
    linking.hosts = options.hosts, linking.ssh = options.ssh;
    std::vector<LinkMemory> before;
    LinkReport report = measure_links(linking, before);
    if (!report.failure.empty()) {
        problem = "the links could not be measured:\n" + report.failure;
        return false;
    }
    auto parsed = parse_network(link_report_json(report, {}, ""), problem);
    if (!parsed) return false;
    network = *parsed;
    // a:2,b means two ranks on a.
    HostList named = parse_host_option(options.hosts);
    for (size_t host = 0; host < std::min(named.hosts.size(), network.hosts.size()); ++host)
        network.hosts[host].ranks = std::clamp(named.hosts[host].slots, 1, 4096);
    return true;
}

bool get_network(const PredictOptions& options, NetworkFile& network, std::string& problem) {
    if (options.network.empty() == options.hosts.empty()) {
        problem = "give the cluster by --network FILE, or hosts to be measured by --host a,b";
        return false;
    }
    if (options.network.empty()) return probe(options, network, problem);
    std::string text;
    if (std::string why = read_named_file(options.network, text); !why.empty()) {
        problem = format("{} {}", options.network, why);
        return false;
    }
    auto parsed = parse_network(text, problem);
    if (!parsed) problem = format("{}: {}", options.network, problem);
    else network = *parsed;
    return parsed.has_value();
}

bool get_model(const PredictOptions& options, StepModel& model, std::string& problem) {
    StepSizes sizes = options.sizes;
    sizes.kind = options.fsdp2 ? "fsdp2" : "ddp";
    sizes.element = options.half ? 2 : 4;
    sizes.bucket_bytes = options.bucket_mib * (1 << 20);
    // A backward pass takes about twice the forward one.
    sizes.forward = options.compute_ms * 1e-3 / 3, sizes.backward = 2 * sizes.forward;
    sizes.update = options.update_ms * 1e-3;
    if (options.model.empty() == options.parameters.empty()) {
        problem =
            "give the model by --model FILE, or the elements of its parameters by "
            "--parameters 12x7.1e6,38e6";
        return false;
    }
    if (!options.parameters.empty()) {
        auto parameters = parse_parameters(options.parameters, problem);
        if (!parameters) return false;
        sizes.parameters = *parameters;
        return model = model_of(sizes), true;
    }
    std::string text;
    if (std::string why = read_named_file(options.model, text); !why.empty()) {
        problem = format("{} {}", options.model, why);
        return false;
    }
    auto parsed = parse_model(text, sizes, problem);
    if (!parsed) problem = format("{}: {}", options.model, problem);
    else model = *parsed;
    return parsed.has_value();
}

// What is reckoned at the moment, for who waits: on a terminal a line that changes, from the second
// second on; else a line after 10 s, and one a minute from then on.
class Course {
public:
    void tell(const std::string& what) {
        ++prices_;
        double now = seconds();
        if (now < next_) return;
        std::string text =
            format("pomona predict: {} prices, {:.0f} s so far: {}", prices_, now, what);
        if (terminal_) std::fprintf(stderr, "\r%s\033[K", text.c_str());
        else std::fprintf(stderr, "%s\n", text.c_str());
        std::fflush(stderr);
        shown_ = true;
        next_ = now + (terminal_ ? 0.2 : 60);
    }
    void end() {
        if (shown_ && terminal_) std::fputs("\r\033[K", stderr);
    }

private:
    double seconds() const {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    }
    std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
    bool terminal_ = isatty(STDERR_FILENO) != 0, shown_ = false;
    double next_ = terminal_ ? 2 : 10;
    int prices_ = 0;
};

// A python runs the script with the prediction on its standard input.
int plot(const PredictOptions& options, const std::string& text) {
    std::string command = format("{} -c {} {}", shell_quoted(options.python),
                                 shell_quoted(kPredictPlot), shell_quoted(options.plot));
    if (tell(command, text)) return 0;
    return complain(
        format("--plot: {} could not draw {}. It needs matplotlib: {} -m pip install "
               "matplotlib, or name another by --python",
               options.python, options.plot, options.python));
}

}  // namespace

std::string prediction_text(const StepModel& model, const NetworkFile& network,
                            const Prediction& prediction) {
    const StepTime& step = prediction.step;
    std::string out = format(
        "{} on {} ranks of {} hosts: a step takes {} ms: {} computing, {} of {} ms "
        "communication not hidden ({:.0f} % hidden)\n",
        model.kind == "ddp" ? "DistributedDataParallel" : "FSDP2", network.ranks(),
        network.hosts.size(), milliseconds(step.seconds), milliseconds(step.computing),
        milliseconds(step.exposed()), milliseconds(step.communicating), 100 * step.hidden());
    if (step.computing <= 0)
        out += "No computing time was given (--compute), so nothing can hide communication.\n";
    for (const auto& row : prediction.collectives)
        out += format("  {:>3} x {:<14} of {:>9.3f} MB  {:>9} ms each, {}\n", row.count,
                      coll::collective_name(row.collective), static_cast<double>(row.bytes) / 1e6,
                      milliseconds(row.seconds), row.algorithm);
    if (!prediction.sources.empty()) out += format("Chosen by {}.\n", prediction.sources);
    double lines = lines_gigabits(link_map(network, {}));
    if (network.together_gigabits > 0 && network.together_gigabits < lines)
        out += format(
            "All hosts together carry {:.3g} Gb/s of the {:.3g} of their lines: what they share, a "
            "switch or cores, may be the limit, which no cable moves.\n",
            network.together_gigabits, lines);
    out += "What would change it:                step ms  samples/s\n";
    for (const Lever& lever : prediction.levers)
        out += format("  {:<30} {:>12}  {:>7.2f} x  {}\n", lever.name, milliseconds(lever.seconds),
                      lever.throughput, lever.note);
    return out;
}

std::string prediction_json(const StepModel& model, const NetworkFile& network,
                            const Prediction& prediction) {
    const StepTime& step = prediction.step;
    json collectives = json::array(), levers = json::array(), bars = json::array();
    for (const auto& row : prediction.collectives)
        collectives.push_back({{"collective", coll::collective_name(row.collective)},
                               {"bytes", row.bytes},
                               {"count", row.count},
                               {"seconds", row.seconds},
                               {"algorithm", row.algorithm}});
    for (const Lever& lever : prediction.levers)
        levers.push_back({{"lever", lever.name},
                          {"note", lever.note},
                          {"step_s", lever.seconds},
                          {"samples_ratio", lever.throughput}});
    for (const StepTime::Bar& bar : step.bars)
        bars.push_back({{"what", bar.what},
                        {"begin_s", bar.begin},
                        {"end_s", bar.end},
                        {"computing", bar.computing}});
    json all{{"kind", model.kind},
             {"hosts", network.hosts.size()},
             {"ranks", network.ranks()},
             {"step_s", step.seconds},
             {"computing_s", step.computing},
             {"communication_s", step.communicating},
             {"exposed_s", step.exposed()},
             {"hidden", step.hidden()},
             {"chosen_by", prediction.sources},
             {"collectives", collectives},
             {"levers", levers},
             {"timeline", bars}};
    return all.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

int predict_command(const PredictOptions& options, const JobChoices& choices) {
    NetworkFile network;
    StepModel model;
    std::string problem;
    if (!get_model(options, model, problem) || !get_network(options, network, problem))
        return complain(problem);
    if (!options.save_network.empty()) {
        std::ofstream file(options.save_network);
        file << network_text(network);
        if (!file.flush()) return complain(format("{} cannot be written", options.save_network));
    }
    Course course;
    Prediction prediction = predict(model, network, choices, options.cable_gigabits,
                                    [&](const std::string& what) { course.tell(what); });
    course.end();
    for (const std::string& each : prediction.told)
        std::fprintf(stderr, "pomona predict: %s\n", each.c_str());
    std::string as_json = prediction_json(model, network, prediction);
    if (options.json) print_report(as_json);
    else std::fputs(prediction_text(model, network, prediction).c_str(), stdout);
    std::fflush(stdout);
    return options.plot.empty() ? 0 : plot(options, as_json);
}

}  // namespace pomona
