# Tests of accel/.
pomona_test(accel_kernels unit/accel_kernels.cc unit/accel_float16.cc
            unit/accel_reduce_many.cc LIBS pomona_accel pomona_base LABELS accel)

pomona_test(accel_choose unit/accel_choose.cc LIBS pomona_accel pomona_base LABELS accel)

# The same tests as an Arm program under qemu; skipped where the cross compiler is missing.
add_test(NAME accel_aarch64
         COMMAND ${CMAKE_SOURCE_DIR}/tests/cross/aarch64.sh ${CMAKE_BINARY_DIR}/aarch64)
set_tests_properties(accel_aarch64 PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 900 COST 900 LABELS "cross;accel")

# The Accelerate module: against the real framework on macOS, a reference library elsewhere.
if(APPLE)
  pomona_test(accel_vdsp unit/accel_vdsp.cc LIBS pomona_accel pomona_base LABELS accel)
else()
  pomona_test(accel_vdsp unit/accel_vdsp.cc unit/accelerate_reference.cc
              $<TARGET_OBJECTS:pomona_vdsp> LIBS pomona_accel pomona_base LABELS accel)
endif()
