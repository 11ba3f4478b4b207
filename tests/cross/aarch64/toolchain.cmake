# tests/cross/aarch64/toolchain.cmake: Arm Linux from x86-64 Linux: Debian's cross compiler and the
# folder of Arm packages that mixed.sh unpacks, given as POMONA_ARM.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES POMONA_ARM)
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
# Programs come from this system, everything else from the folder and the compiler's own.
set(CMAKE_FIND_ROOT_PATH ${POMONA_ARM} /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(ENV{PKG_CONFIG_LIBDIR} ${POMONA_ARM}/usr/lib/aarch64-linux-gnu/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${POMONA_ARM})
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-Wl,-rpath-link,${POMONA_ARM}/usr/lib/aarch64-linux-gnu")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,-rpath-link,${POMONA_ARM}/usr/lib/aarch64-linux-gnu")
# Debian's own compiler for Arm looks there by itself; the cross compiler does not.
set(CMAKE_C_FLAGS_INIT "-isystem ${POMONA_ARM}/usr/include/aarch64-linux-gnu")
set(CMAKE_CXX_FLAGS_INIT "-isystem ${POMONA_ARM}/usr/include/aarch64-linux-gnu")
