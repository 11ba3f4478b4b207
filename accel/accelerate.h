// accel/accelerate.h: the functions of Apple's Accelerate framework that Pomona calls.
// Idea: declared here, so that vdsp.cc compiles on any system; tests link a reference library of
// the same names. Semantics as Apple documents them: strides in elements; vmin C = A <= B ? A : B,
// vmax C = B <= A ? A : B (so a NaN in A is dropped); vImage rounds to nearest even.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

typedef unsigned long vDSP_Length;
typedef long vDSP_Stride;

#define POMONA_VDSP(name, T)                                                                       \
    void name(const T* a, vDSP_Stride stride_a, const T* b, vDSP_Stride stride_b, T* c,            \
              vDSP_Stride stride_c, vDSP_Length count);
POMONA_VDSP(vDSP_vadd, float)
POMONA_VDSP(vDSP_vaddD, double)
POMONA_VDSP(vDSP_vmul, float)
POMONA_VDSP(vDSP_vmulD, double)
POMONA_VDSP(vDSP_vmin, float)
POMONA_VDSP(vDSP_vminD, double)
POMONA_VDSP(vDSP_vmax, float)
POMONA_VDSP(vDSP_vmaxD, double)
#undef POMONA_VDSP

typedef struct vImage_Buffer {
    void* data;
    unsigned long height;
    unsigned long width;
    size_t rowBytes;
} vImage_Buffer;
typedef ptrdiff_t vImage_Error;  // 0: kvImageNoError
typedef uint32_t vImage_Flags;

vImage_Error vImageConvert_Planar16FtoPlanarF(const vImage_Buffer* from, const vImage_Buffer* to,
                                              vImage_Flags flags);
vImage_Error vImageConvert_PlanarFtoPlanar16F(const vImage_Buffer* from, const vImage_Buffer* to,
                                              vImage_Flags flags);

}  // extern "C"
