// btl/base/params_handed.h: what a launcher found in its configuration file, for all its processes.
// Idea: the file is read once, when the job starts. Processes find its lines, and where they stood,
// in a file of the job's directory that POMONA_JOB_PARAMETERS names; read_params takes them from
// there. Variables are inherited as ever and win, so that a process may be given its own.
#pragma once

#include "btl/base/bytes.h"
#include "btl/base/params.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace pomona {

inline constexpr const char* kHandedVariable = "POMONA_JOB_PARAMETERS";

struct HandedParams {
    struct Entry {
        std::string name, value, origin;
    };
    // POMONA_CONFIG of the launcher: a process that is given another file reads that.
    std::string config;
    std::vector<Entry> lines;  // of the configuration file
    // Variables whose value the launcher itself took from somewhere else: --set, a measurement.
    std::vector<Entry> inherited;
    // NAME=VALUE of the environment that the launcher has complained of already.
    std::vector<std::string> told;

    // Of a variable that is set in the environment of the processes.
    void inherit(std::string_view name, std::string_view value, std::string_view origin);
    // The origin of this value, if the variable still has it.
    const std::string* origin_of(std::string_view name, std::string_view value) const;

    std::vector<std::byte> bytes() const;
    static std::optional<HandedParams> parse(ConstBytes bytes);
};

// As read_params, and fills `handed`, whose inherited variables the caller adds. Takes nothing that
// was handed over to this process itself.
Params read_params_to_hand(const char* const* environment, HandedParams& handed,
                           const std::function<void(const std::string&)>& complain);

}  // namespace pomona
