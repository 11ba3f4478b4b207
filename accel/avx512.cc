// accel/avx512.cc: the common loops for AVX-512 (F, BW, DQ, VL); the build gives the flags.
// Without them (another architecture) the form is empty and never chosen.
#include "accel/fill.h"

namespace pomona {

#if defined(__AVX512BW__)
void fill_avx512(KernelTable& table) { Filler{table, "avx512"}.enter_common(); }
#else
void fill_avx512(KernelTable&) {}
#endif

}  // namespace pomona
