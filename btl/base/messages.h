// btl/base/messages.h: what the library says when something is wrong and somebody can mend it; the
// one table is messages.def, from which a part of the page docs/messages.md comes
// (pmix/launch/messages.h has mpirun's).
#pragma once

namespace pomona::messages {

#define GROUP(title)
#define MESSAGE(id, text, more) inline constexpr char id[] = text;
#include "btl/base/messages.def"
#undef GROUP
#undef MESSAGE

}  // namespace pomona::messages
