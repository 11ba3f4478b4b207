// btl/base/counters.cc: the table of counters.
#include "btl/base/counters.h"

namespace pomona {

const std::vector<CounterInfo>& counter_table() {
    static const std::vector<CounterInfo> table = {
#define COUNTER(name, text) {#name, text, &Counters::name},
#include "btl/base/counters.def"
#undef COUNTER
    };
    return table;
}

}  // namespace pomona
