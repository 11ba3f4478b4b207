// btl/base/comma_list.h: whether a parameter's list of words, separated by commas, has a word.
#pragma once

#include <string>

namespace pomona {

inline bool lists(const std::string& words, const std::string& word) {
    return ("," + words + ",").find("," + word + ",") != std::string::npos;
}

}  // namespace pomona
