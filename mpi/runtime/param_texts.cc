// mpi/runtime/param_texts.cc: see param_texts.h.
#include "mpi/runtime/param_texts.h"

#include "btl/base/comma_list.h"
#include "btl/base/log.h"
#include "btl/tcp/interfaces.h"

#include <sstream>
#include <vector>

namespace pomona {

void use_start_texts(const Params& params, const Refuse& refuse) {
    std::string unknown = set_log_levels(params.log);
    if (!unknown.empty()) refuse("log", format("\"{}\" is neither a level nor a scope", unknown));
    // The built-in value names each that there is.
    const std::string all = Params{}.transports;
    std::istringstream words(params.transports);
    for (std::string word; std::getline(words, word, ',');)
        if (!lists(all, word))
            refuse("transports",
                   format("\"{}\" is no transport; expected are some of {}, separated by commas",
                          word, all));
}

void check_texts(const Params& params, const Refuse& refuse) {
    use_start_texts(params, refuse);
    // Their sentences begin with the parameter's name.
    auto told = [&](const char* parameter, const std::string& mistake) {
        if (!mistake.empty()) refuse(parameter, mistake.substr(mistake.find(": ") + 2));
    };
    tcp::InterfaceFilter filter;
    told("if_include", filter.parse(params.if_include, ""));
    told("if_exclude", filter.parse("", params.if_exclude));
    std::vector<tcp::InterfaceKind> kinds;
    told("encrypt", tcp::parse_encrypt(params.encrypt, kinds));
}

}  // namespace pomona
