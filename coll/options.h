// coll/options.h: knobs of an algorithm, and the text that sets them: "ring:segments=4".
#pragma once

#include "btl/base/result.h"

#include <string>
#include <string_view>

namespace pomona::coll {

struct Forest;

struct Options {
    int segments = 1;  // pieces of a block that overlap communication with reduction
    int radix = 2;     // children of a tree's node; messages in flight of a linear exchange
    const Forest* forest = nullptr;  // of the rows `forest`: their trees, which outlive this
    bool operator==(const Options&) const = default;
};

// An override as users write it: name[:option=value[,option=value]...]. "auto" or "" is none.
struct Choice {
    std::string algorithm;  // empty: choose
    Options options;
    bool segments_given = false, radix_given = false;
};
// The error's text is for people; `problem` gets it in full, with what would be allowed.
Result<Choice> parse_choice(std::string_view text, std::string& problem);
std::string choice_text(const Choice& choice);

}  // namespace pomona::coll
