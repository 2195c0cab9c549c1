# Cross-compiles for AArch64 with Debian's g++-aarch64-linux-gnu. Programs of the target run
# under qemu-user, so that CMake and CTest run tests as on a machine of it.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

# A directory with libraries of the target, such as those that scripts/root-aarch64.sh
# unpacks; by default those of the compiler, which are the C and C++ libraries.
set(TANDEM_AARCH64_ROOT "" CACHE PATH "A root directory of AArch64")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES TANDEM_AARCH64_ROOT)
if(TANDEM_AARCH64_ROOT)
  set(CMAKE_SYSROOT ${TANDEM_AARCH64_ROOT})
  set(loader_root ${TANDEM_AARCH64_ROOT})
else()
  set(loader_root /usr/aarch64-linux-gnu)
  list(APPEND CMAKE_FIND_ROOT_PATH ${loader_root})
endif()

find_program(TANDEM_QEMU NAMES qemu-aarch64-static qemu-aarch64)
if(TANDEM_QEMU)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${TANDEM_QEMU} -L ${loader_root})
endif()
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
