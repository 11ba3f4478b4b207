// btl/base/params.h: the tunables of params.def as a plain struct, and their table.
// Idea: read once at start (environment, then a configuration file's defaults); later code reads
// fields, never getenv. An unknown POMONA_ variable is reported with the nearest known name.
#pragma once

#include "btl/base/result.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace pomona {

namespace param_types {
using Size = uint64_t;
using Count = uint64_t;
using Flag = bool;
using Text = std::string;
}  // namespace param_types

struct Params {
#define PARAM(name, type, standard, scope, text) param_types::type name = standard;
#include "btl/base/params.def"
#undef PARAM

    // Where each parameter that is not built in was set: "POMONA_BCAST",
    // "/home/me/.config/pomona.conf:3".
    std::map<std::string, std::string, std::less<>> sources;
    std::string source(std::string_view name) const {
        auto found = sources.find(name);
        return found == sources.end() ? "built-in" : found->second;
    }
};

enum class ParamType { Size, Count, Flag, Text };
// `same`: all ranks that meet must have the same value.
enum class ParamScope { own, same };

struct ParamInfo {
    const char* name;  // eager_max
    ParamType type;
    const char* standard;  // the default, as written in params.def
    ParamScope scope;
    const char* text;
};
const std::vector<ParamInfo>& param_table();

// The variable's name in the environment: POMONA_EAGER_MAX.
std::string param_variable(std::string_view name);

// The value of one parameter as text, and setting it from text ("64K", "yes").
std::string get_param(const Params& params, std::string_view name);
Status set_param(Params& params, std::string_view name, std::string_view value);

// Defaults, then the file named by POMONA_CONFIG (or ~/.config/pomona.conf: NAME=VALUE lines),
// then POMONA_* variables. What could not be used is told through `complain`, one line each.
// Where a launcher handed over what it found (params_handed.h), that serves instead of the file.
Params read_params(const char* const* environment,
                   const std::function<void(const std::string&)>& complain);

// The known parameter (or word of `words`) nearest to `name` by edit distance; "" when none is
// near.
std::string nearest_name(std::string_view name, const std::vector<std::string>& words);

}  // namespace pomona
