// mpi/tools/predict_model.cc: a training step as events: from a recording, or from sizes.
#include "mpi/tools/predict.h"

#include "btl/base/format.h"
#include "mpi/tools/json_text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace pomona {

namespace {

using nlohmann::json;
using coll::Collective;
constexpr size_t kParametersMost = 100000;
constexpr double kElementsMost = 1e15;
constexpr double kFirstBucketBytes =
    1 << 20;  // torch.distributed's own (_DEFAULT_FIRST_BUCKET_BYTES)

StepEvent computing(double seconds, bool update = false) {
    return {StepEvent::Kind::compute, seconds, update, Collective::allreduce, 0, 0};
}
StepEvent starting(Collective collective, double bytes, int number) {
    return {StepEvent::Kind::start, 0, false, collective, static_cast<size_t>(bytes), number};
}
StepEvent waiting(int number) {
    return {StepEvent::Kind::wait, 0, false, Collective::allreduce, 0, number};
}

// DistributedDataParallel's: from the last parameter on; a bucket is closed when it has its bytes.
std::vector<double> bucket_sizes(const std::vector<double>& parameters, double most) {
    std::vector<double> out;
    double open = 0;
    for (size_t i = parameters.size(); i-- > 0;) {
        open += parameters[i];
        if (open < (out.empty() ? std::min(kFirstBucketBytes, most) : most)) continue;
        out.push_back(open), open = 0;
    }
    if (open > 0) out.push_back(open);
    return out;
}

double sum(const std::vector<double>& values) {
    double out = 0;
    for (double each : values) out += each;
    return out;
}

StepModel ddp_of(const StepSizes& sizes, const std::vector<double>& bytes) {
    StepModel model{"ddp", {computing(sizes.forward)}, bytes, sizes.bucket_bytes};
    double whole = sum(bytes);
    int number = 0;
    for (double bucket : bucket_sizes(bytes, sizes.bucket_bytes)) {
        model.events.push_back(computing(sizes.backward * bucket / whole));
        model.events.push_back(starting(Collective::allreduce, bucket, number++));
    }
    for (int i = 0; i < number; ++i) model.events.push_back(waiting(i));
    model.events.push_back(computing(sizes.update, true));
    return model;
}

// One group a parameter given. Without streams each collective is waited for where it starts; with
// them the next group is gathered while one computes. The first group, the root's, stays gathered.
StepModel fsdp2_of(const StepSizes& sizes, const std::vector<double>& bytes) {
    StepModel model{"fsdp2", {}, bytes, 0};
    auto& events = model.events;
    double whole = sum(bytes);
    auto groups = static_cast<int>(bytes.size());
    int number = 0;
    std::vector<int> gathered(bytes.size(), -1), reduced;
    auto gather = [&](int group) {
        auto at = static_cast<size_t>(group);
        if (group < 0 || group >= groups || gathered[at] >= 0) return;
        events.push_back(starting(Collective::allgather, bytes[at], number));
        gathered[at] = number++;
    };
    auto pass = [&](int group, int next, double seconds) {
        auto at = static_cast<size_t>(group);
        gather(group);
        events.push_back(waiting(gathered[at]));
        if (sizes.prefetch) gather(next);
        events.push_back(computing(seconds * bytes[at] / whole));
    };
    for (int group = 0; group < groups; ++group) {
        pass(group, group + 1, sizes.forward);
        if (group > 0) gathered[static_cast<size_t>(group)] = -1;
    }
    for (int group = groups; group-- > 0;) {
        pass(group, group - 1, sizes.backward);
        events.push_back(
            starting(Collective::reduce_scatter, bytes[static_cast<size_t>(group)], number));
        if (sizes.prefetch) reduced.push_back(number++);
        else events.push_back(waiting(number++));
    }
    for (int each : reduced) events.push_back(waiting(each));
    events.push_back(computing(sizes.update, true));
    return model;
}

std::optional<Collective> collective_of(const std::string& name) {
    if (name == "all_reduce") return Collective::allreduce;
    if (name == "all_gather") return Collective::allgather;
    if (name == "reduce_scatter") return Collective::reduce_scatter;
    if (name == "broadcast") return Collective::bcast;
    return std::nullopt;
}

bool seconds_of(const json& value, double& out) {
    if (!value.is_number()) return false;
    out = value.get<double>();
    return std::isfinite(out) && out >= 0 && out < 1e6;
}

bool read_event(const json& value, StepModel& model, std::vector<bool>& waited,
                std::string& problem) {
    std::string where = format("events[{}]", model.events.size());
    if (value.is_object() && value.contains("compute_s")) {
        json update = value.value("update", json(false));
        StepEvent event = computing(0, update == json(true));
        if (update.is_boolean() && seconds_of(value.at("compute_s"), event.seconds))
            return model.events.push_back(event), true;
    } else if (value.is_object() && value.contains("start")) {
        const json& name = value.at("start");
        auto collective = collective_of(name.is_string() ? name.get<std::string>() : "");
        double bytes = 0;
        if (collective && seconds_of(value.value("megabytes", json()), bytes)) {
            model.events.push_back(
                starting(*collective, bytes * 1e6 + 0.5, static_cast<int>(waited.size())));
            return waited.push_back(false), true;
        }
    } else if (value.is_object() && value.contains("wait")) {
        const json& number = value.at("wait");
        if (number.is_number_unsigned() && number.get<size_t>() < waited.size()) {
            waited[number.get<size_t>()] = true;
            return model.events.push_back(waiting(number.get<int>())), true;
        }
    }
    problem = where +
              " is none of {\"compute_s\": 0.1}, {\"start\": \"all_reduce\", \"megabytes\": 4.2} "
              "(also all_gather, reduce_scatter, broadcast) and {\"wait\": 0}, the number of a "
              "collective that was started before";
    return false;
}

bool read_parameters(const json& value, std::vector<double>& out, std::string& problem) {
    bool good = value.is_array() && !value.empty() && value.size() <= kParametersMost;
    for (size_t i = 0; good && i < value.size(); ++i) {
        good = value.at(i).is_number() && value.at(i).get<double>() > 0;
        if (good) out.push_back(value.at(i).get<double>());
    }
    if (good && sum(out) < kElementsMost) return true;
    problem =
        "\"parameters\" is a list of numbers above 0: the elements of each, 100000 of them and "
        "1e15 elements at most";
    return false;
}

}  // namespace

int StepModel::collectives() const {
    return static_cast<int>(std::count_if(events.begin(), events.end(), [](const StepEvent& each) {
        return each.kind == StepEvent::Kind::start;
    }));
}

StepModel model_of(const StepSizes& sizes) {
    std::vector<double> bytes;
    for (double each : sizes.parameters) bytes.push_back(each * sizes.element);
    StepModel model = sizes.kind == "fsdp2" ? fsdp2_of(sizes, bytes) : ddp_of(sizes, bytes);
    model.element = sizes.element;
    return model;
}

std::optional<StepModel> with_buckets(const StepModel& model, double bucket_bytes) {
    if (model.kind != "ddp" || model.parameters.empty()) return std::nullopt;
    // When how many of the gradients are ready: points between which it goes evenly.
    std::vector<std::pair<double, double>> ready{{0, 0}};
    StepModel out{model.kind, {}, model.parameters, bucket_bytes};
    std::vector<StepEvent> after;
    double passed = 0, bytes = 0;
    auto first = std::find_if(model.events.begin(), model.events.end(), [](const StepEvent& each) {
        return each.kind == StepEvent::Kind::start;
    });
    if (first == model.events.begin() || first == model.events.end()) return std::nullopt;
    // What was computed before the first bucket: in front of the backward pass, and the bucket's
    // part of it.
    double before = 0;
    for (auto at = model.events.begin(); at != first; ++at) before += at->seconds;
    for (auto at = first; at != model.events.end(); ++at) {
        if (at->kind == StepEvent::Kind::compute &&
            ready.size() <= static_cast<size_t>(model.collectives()))
            passed += at->seconds;
        else if (at->kind == StepEvent::Kind::compute) after.push_back(*at);
        if (at->kind != StepEvent::Kind::start) continue;
        if (at->collective != Collective::allreduce) return std::nullopt;
        bytes += static_cast<double>(at->bytes);
        ready.emplace_back(bytes, passed);
    }
    // The first bucket took as long for its bytes as the others did, as far as there was time.
    double own =
        std::min(before, bytes > ready[1].first ? passed * ready[1].first / (bytes - ready[1].first)
                                                : before / 2);
    for (size_t i = 1; i < ready.size(); ++i) ready[i].second += own;
    out.events.push_back(computing(before - own));
    double done = 0, now = 0;
    int number = 0;
    double scale = bytes / sum(model.parameters);  // what was recorded may have other elements
    for (double bucket : bucket_sizes(model.parameters, bucket_bytes)) {
        done = std::min(bytes, done + bucket * scale);
        auto next = std::lower_bound(ready.begin() + 1, ready.end() - 1, std::pair{done, 0.0});
        auto last = next - 1;
        double part =
            next->first > last->first ? (done - last->first) / (next->first - last->first) : 1;
        double then = last->second + std::min(1.0, part) * (next->second - last->second);
        out.events.push_back(computing(std::max(0.0, then - now)));
        out.events.push_back(starting(Collective::allreduce, bucket * scale, number++));
        now = std::max(now, then);
    }
    for (int i = 0; i < number; ++i) out.events.push_back(waiting(i));
    out.events.insert(out.events.end(), after.begin(), after.end());
    return out;
}

std::optional<StepModel> parse_model(const std::string& text, StepSizes& sizes,
                                     std::string& problem) {
    json value = parse_json(text, problem);
    if (value.is_discarded()) return std::nullopt;
    if (!value.is_object() || (!value.contains("events") && !value.contains("parameters"))) {
        problem =
            "It is no JSON object with \"events\" (as pomona.predict.Recorder writes) or "
            "\"parameters\" (a list of elements)";
        return std::nullopt;
    }
    std::vector<double> parameters;
    if (value.contains("parameters") &&
        !read_parameters(value.at("parameters"), parameters, problem))
        return std::nullopt;
    std::string kind = value.contains("kind") && value.at("kind").is_string()
                           ? value.at("kind").get<std::string>()
                           : sizes.kind;
    if (kind != "ddp" && kind != "fsdp2") {
        problem = format("\"kind\" is ddp or fsdp2, not {}", kind);
        return std::nullopt;
    }
    if (value.contains("element_bytes") && value.at("element_bytes").is_number())
        sizes.element = std::clamp(value.at("element_bytes").get<double>(), 1.0, 16.0);
    sizes.kind = kind, sizes.parameters = parameters;
    if (!value.contains("events")) return model_of(sizes);
    StepModel model{kind, {}, {}, sizes.bucket_bytes, sizes.element};
    for (double each : parameters) model.parameters.push_back(each * sizes.element);
    if (!value.at("events").is_array()) {
        problem = "\"events\" is a list";
        return std::nullopt;
    }
    if (value.at("events").empty()) {
        problem = "\"events\" is an empty list, and a step has some";
        return std::nullopt;
    }
    std::vector<bool> waited;
    for (const json& each : value.at("events"))
        if (!read_event(each, model, waited, problem)) return std::nullopt;
    for (size_t i = 0; i < waited.size(); ++i)  // nobody has waited: the step does at its end
        if (!waited[i]) model.events.push_back(waiting(static_cast<int>(i)));
    return model;
}

std::optional<std::vector<double>> parse_parameters(const std::string& text, std::string& problem) {
    std::vector<double> out;
    std::string rest = text;
    double all = 0;
    for (bool more = true; more;) {
        size_t comma = rest.find(',');
        more = comma != rest.npos;
        std::string item = rest.substr(0, comma);
        rest = more ? rest.substr(comma + 1) : "";
        double times = 1;
        if (size_t x = item.find('x'); x != item.npos) {
            json count = json::parse(item.substr(0, x), nullptr, false);
            times = count.is_number_unsigned() ? count.get<double>() : 0;
            item = item.substr(x + 1);
        }
        json elements = json::parse(item, nullptr, false);
        double each = elements.is_number() ? elements.get<double>() : 0;
        all += each * times;
        bool few = times >= 1 && static_cast<double>(out.size()) + times <= kParametersMost;
        if (!(each > 0 && all < kElementsMost && few)) {
            problem = format(
                "--parameters {}: write the elements of each, as in 25e6 or "
                "12x7.1e6,38e6 (12 of 7.1 million); {} parameters at most, and 1e15 elements",
                text, kParametersMost);
            return std::nullopt;
        }
        out.insert(out.end(), static_cast<size_t>(times), each);
    }
    return out;
}

}  // namespace pomona
