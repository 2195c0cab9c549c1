# Declares a Tandem library: compiled with the shared headers and a precompiled
# header, linked to the one libMLIR, and listed in TANDEM_LIBS, which the tools and
# the C API library read. The precompiled header of a library with NVVM also has
# LLVM's dialects.
function(add_tandem_library name)
  cmake_parse_arguments(ARG "NVVM" "" "LINK_LIBS" ${ARGN})
  add_library(${name} OBJECT ${ARG_UNPARSED_ARGUMENTS})
  add_dependencies(${name} tandem-headers)
  llvm_update_compile_flags(${name})
  set(header PCH)
  if(ARG_NVVM)
    set(header LLVMPCH)
  endif()
  target_precompile_headers(${name} REUSE_FROM Tandem${header})
  set_property(GLOBAL APPEND PROPERTY TANDEM_LIBS ${name})
endfunction()

# Generates the declarations, definitions and documentation of a dialect whose
# TableGen files are <dialect>{Dialect,Types,Attrs,Ops}.td in this directory.
function(add_tandem_dialect prefix namespace)
  set(LLVM_TARGET_DEFINITIONS ${prefix}Ops.td)
  mlir_tablegen(${prefix}Ops.h.inc -gen-op-decls)
  mlir_tablegen(${prefix}Ops.cpp.inc -gen-op-defs)
  mlir_tablegen(${prefix}Types.h.inc -gen-typedef-decls -typedefs-dialect=${namespace})
  mlir_tablegen(${prefix}Types.cpp.inc -gen-typedef-defs -typedefs-dialect=${namespace})
  mlir_tablegen(${prefix}Attrs.h.inc -gen-attrdef-decls -attrdefs-dialect=${namespace})
  mlir_tablegen(${prefix}Attrs.cpp.inc -gen-attrdef-defs -attrdefs-dialect=${namespace})
  mlir_tablegen(${prefix}Enums.h.inc -gen-enum-decls)
  mlir_tablegen(${prefix}Enums.cpp.inc -gen-enum-defs)
  mlir_tablegen(${prefix}Dialect.h.inc -gen-dialect-decls -dialect=${namespace})
  mlir_tablegen(${prefix}Dialect.cpp.inc -gen-dialect-defs -dialect=${namespace})
  add_public_tablegen_target(Tandem${prefix}IncGen)
  add_dependencies(tandem-headers Tandem${prefix}IncGen)
endfunction()

# Generates pass declarations and registration from Passes.td.
function(add_tandem_passes name)
  set(LLVM_TARGET_DEFINITIONS Passes.td)
  mlir_tablegen(Passes.h.inc -gen-pass-decls -name ${name})
  add_public_tablegen_target(Tandem${name}PassIncGen)
  add_dependencies(tandem-headers Tandem${name}PassIncGen)
endfunction()

# Compiles a program with the precompiled header PCH or LLVMPCH of the libraries. LLVM's flags
# make that position-independent; without the property, -fPIE of CMake would not match it.
function(use_tandem_pch name header)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_precompile_headers(${name} REUSE_FROM Tandem${header})
endfunction()

# Declares a command-line tool linked to every Tandem library. A static build's
# library exports no symbol of MLIR and LLVM. There it contains the main functions
# of TANDEM_TOOLS under other names, and a tool only calls its own one.
function(add_tandem_tool name)
  add_library(${name}_main OBJECT ${ARGN})
  llvm_update_compile_flags(${name}_main)
  add_dependencies(${name}_main tandem-headers)
  if(TANDEM_STATIC_LLVM)
    set_property(GLOBAL APPEND PROPERTY TANDEM_TOOLS ${name})
    string(MAKE_C_IDENTIFIER "${name}_main" main)
    target_compile_definitions(${name}_main PRIVATE TANDEM_TOOL_MAIN=${main})
    add_executable(${name} ${PROJECT_SOURCE_DIR}/tools/CallMain.c)
    target_compile_definitions(${name} PRIVATE TANDEM_TOOL_MAIN=${main})
  else()
    add_executable(${name} $<TARGET_OBJECTS:${name}_main>)
  endif()
  target_link_libraries(${name} PRIVATE TandemCompiler)
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin
    INSTALL_RPATH "${TANDEM_ORIGIN}/../${CMAKE_INSTALL_LIBDIR};${TANDEM_LLVM_RPATH}")
  install(TARGETS ${name} EXPORT TandemTargets
    RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
endfunction()
