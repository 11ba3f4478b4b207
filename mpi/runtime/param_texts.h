// mpi/runtime/param_texts.h: parameters that are texts of a form of their own, which set_param()
// takes as they are: what is wrong with each, before something is started that reads it.
#pragma once

#include "mpi/runtime/policy.h"

namespace pomona {

// A rank's at its start: of log and transports, where what is wrong is ignored. The log's levels
// hold from then on.
void use_start_texts(const Params& params, const Refuse& refuse);
// Also of those for which a rank that needs them would not start: if_include, if_exclude, encrypt.
// Names of interfaces are not looked for: another host may have them, and one host needs none.
void check_texts(const Params& params, const Refuse& refuse);

}  // namespace pomona
