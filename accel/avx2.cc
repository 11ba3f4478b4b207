// accel/avx2.cc: the common loops for AVX2 with F16C; the build gives the flags.
// Without them (another architecture) the form is empty and never chosen.
#include "accel/fill.h"

namespace pomona {

#if defined(__AVX2__)
void fill_avx2(KernelTable& table) { Filler{table, "avx2"}.enter_common(); }
#else
void fill_avx2(KernelTable&) {}
#endif

}  // namespace pomona
