// accel/neon_bf16.cc: bfloat16 rounded by Arm's BFCVT; the build gives the flags.
// Without them (another architecture) the form is empty and never chosen.
#include "accel/fill.h"

namespace pomona {

#if defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
void fill_neon_bf16(KernelTable& table) { Filler{table, "neon_bf16"}.enter_bfloat16(); }
#else
void fill_neon_bf16(KernelTable&) {}
#endif

}  // namespace pomona
