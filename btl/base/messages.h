// btl/base/messages.h: what mpirun and the library say when something is wrong and somebody can
// mend it; the one table is messages.def. (The torch glue has its part by torch_glue/messages.h.)
#pragma once

namespace pomona::messages {

#define MESSAGE(id, text, more) inline constexpr char id[] = text;
#include "btl/base/messages.def"

}  // namespace pomona::messages
