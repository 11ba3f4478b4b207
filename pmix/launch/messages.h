// pmix/launch/messages.h: what mpirun says when something is wrong and somebody can mend it; the
// one table is messages.def. The page docs/messages.md comes from it and from the library's
// btl/base/messages.def.
#pragma once

#include <string>

namespace pomona {

namespace messages {
#define GROUP(title)
#define MESSAGE(id, text, more) inline constexpr char id[] = text;
#define REASON(printed, text)
#include "pmix/launch/messages.def"
#undef GROUP
#undef MESSAGE
#undef REASON
}  // namespace messages

std::string messages_markdown();

}  // namespace pomona
