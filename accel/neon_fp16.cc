// accel/neon_fp16.cc: half precision with Armv8.2's own arithmetic; the build gives the flags.
// Without them (another architecture) the form is empty and never chosen.
#include "accel/fill.h"

namespace pomona {

#if defined(__ARM_FEATURE_FP16_VECTOR_ARITHMETIC)
void fill_neon_fp16(KernelTable& table) { Filler{table, "neon_fp16"}.enter_float16(); }
#else
void fill_neon_fp16(KernelTable&) {}
#endif

}  // namespace pomona
