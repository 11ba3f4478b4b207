// accel/avx512_fp16.cc: half precision with AVX512_FP16's arithmetic; the build gives
// the flags.
// Without them (another architecture) the form is empty and never chosen.
#include "accel/fill.h"

namespace pomona {

#if defined(__AVX512FP16__)
void fill_avx512_fp16(KernelTable& table) { Filler{table, "avx512_fp16"}.enter_float16(); }
#else
void fill_avx512_fp16(KernelTable&) {}
#endif

}  // namespace pomona
