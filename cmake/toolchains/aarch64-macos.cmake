# Cross-compiles the runtime for macOS on Apple silicon with Clang and macOS's headers, which
# are in Zig; nothing that it makes has run there. TANDEM_ZIG names the program, such as that
# of PyPI's ziglang.
set(CMAKE_SYSTEM_NAME Darwin)
set(CMAKE_SYSTEM_PROCESSOR arm64)
set(TANDEM_ZIG zig CACHE FILEPATH "The program zig")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES TANDEM_ZIG)
set(CMAKE_C_COMPILER ${TANDEM_ZIG} cc)
set(CMAKE_CXX_COMPILER ${TANDEM_ZIG} c++)
set(CMAKE_C_COMPILER_TARGET aarch64-macos)
set(CMAKE_CXX_COMPILER_TARGET aarch64-macos)
find_program(CMAKE_AR NAMES llvm-ar llvm-ar-22 REQUIRED)
find_program(CMAKE_RANLIB NAMES llvm-ranlib llvm-ranlib-22 REQUIRED)
find_program(CMAKE_INSTALL_NAME_TOOL NAMES llvm-install-name-tool llvm-install-name-tool-22)
