// mpi/tools/json_text.h: JSON that people write by hand: where it is wrong, and keys that nobody
// reads.
#pragma once

#include <nlohmann/json.hpp>

#include <span>
#include <string>
#include <string_view>

namespace pomona {

// The value of a text; `problem` gets the place of what is no JSON ("line 3, column 5"), and the
// value is discarded then.
nlohmann::json parse_json(const std::string& text, std::string& problem);

// The sentence for a key of `object` that is nearly one of `known`; "": there is none. Others are
// left alone, since what pomona prints has more than is read.
std::string mistaken_key(const nlohmann::json& object, std::span<const std::string_view> known);

}  // namespace pomona
