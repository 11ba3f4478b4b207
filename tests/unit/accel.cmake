# Tests of accel/.
pomona_test(accel_kernels unit/accel_kernels.cc unit/accel_float16.cc
            unit/accel_reduce_many.cc LIBS pomona_accel pomona_base LABELS accel)
