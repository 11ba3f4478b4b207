// pmix/launch/messages_page.h: the page docs/messages.md, made from btl/base/messages.def.
#pragma once

#include <string>

namespace pomona {

std::string messages_markdown();

}  // namespace pomona
