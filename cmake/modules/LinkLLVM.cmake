# Links LLVM, MLIR and LLD in one of two ways, according to TANDEM_STATIC_LLVM.
#
# OFF: everything links the shared libMLIR and libLLVM, as Debian's own tools do.
# ON:  libTandem contains what it needs of them and hides it, together with the
#      C++ library, so that the compiler, the extension and the tools run where
#      there is nothing but glibc. Sources are compiled in the same way; only
#      linking differs.

# Has the linker resolve a function that LLD calls to the one in SharedLibrary.cpp,
# which says why.
function(keep_options name)
  if(NOT APPLE)
    target_link_options(${name} PRIVATE
      "LINKER:--wrap=_ZN4llvm2cl25ResetAllOptionOccurrencesEv")
  endif()
endfunction()

if(NOT TANDEM_STATIC_LLVM)
  # Debian's MLIRConfig does not export this.
  set(MLIR_LINK_MLIR_DYLIB ON)
  set(LLVM_LINK_LLVM_DYLIB ON)
  set(TANDEM_LLVM_RPATH ${LLVM_LIBRARY_DIRS})

  function(link_llvm name)
    target_link_libraries(${name} PUBLIC MLIR LLVM PRIVATE lldELF)
    keep_options(${name})
  endfunction()
  function(export_c_api name)
  endfunction()
  return()
endif()

# The MLIR libraries that Tandem's sources use; their dependencies follow.
set(TANDEM_MLIR_LIBS
  MLIRAnalysis
  MLIRArithDialect
  MLIRArithToLLVM
  MLIRBuiltinToLLVMIRTranslation
  MLIRControlFlowDialect
  MLIRControlFlowToLLVM
  MLIRFuncDialect
  MLIRFuncInlinerExtension
  MLIRFuncToLLVM
  MLIRFuncTransforms
  MLIRLLVMDialect
  MLIRLLVMToLLVMIRTranslation
  MLIRLinalgDialect
  MLIRMathDialect
  MLIRMathToLLVM
  MLIRNVVMDialect
  MLIRNVVMToLLVMIRTranslation
  MLIROptLib
  MLIRParser
  MLIRPass
  MLIRReconcileUnrealizedCasts
  MLIRSCFDialect
  MLIRSCFToControlFlow
  MLIRSCFTransforms
  MLIRTargetLLVMIRExport
  MLIRTensorDialect
  MLIRTransformUtils
  MLIRTransforms
  MLIRTranslateLib
  MLIRVectorDialect
  MLIRVectorToLLVMPass)

# The targets that Tandem generates code for, and other components that it, MLIR
# and LLD use.
set(TANDEM_LLVM_TARGETS AArch64 X86 NVPTX)
set(TANDEM_LLVM_COMPONENTS ${TANDEM_LLVM_TARGETS} FrontendOpenMP IRReader LTO
  Option OrcJIT Passes)

find_package(Threads REQUIRED)
find_library(TANDEM_ZLIB NAMES libz.a REQUIRED)
find_library(TANDEM_ZSTD NAMES libzstd.a REQUIRED)

# Replaces a library in the dependencies of imported libraries that name it.
function(replace_linked from to)
  foreach(name ${ARGN})
    get_target_property(libs ${name} INTERFACE_LINK_LIBRARIES)
    if("${from}" IN_LIST libs)
      list(REMOVE_ITEM libs ${from})
      set_property(TARGET ${name} PROPERTY
        INTERFACE_LINK_LIBRARIES ${libs} ${to})
    endif()
  endforeach()
endfunction()

# Debian's archives of MLIR and LLD depend on the shared libLLVM, and LLVM's on
# other shared libraries and on Polly, which is in a separate package.
llvm_map_components_to_libnames(components ${TANDEM_LLVM_COMPONENTS})
add_library(tandem_llvm INTERFACE)
target_link_libraries(tandem_llvm INTERFACE ${components} Threads::Threads)
get_property(archives GLOBAL PROPERTY MLIR_ALL_LIBS)
list(REMOVE_DUPLICATES archives)
list(REMOVE_ITEM archives MLIR)
list(APPEND archives lldELF lldCommon LLVMSupport)
replace_linked(LLVM tandem_llvm ${archives})
replace_linked(ZLIB::ZLIB ${TANDEM_ZLIB} ${archives})
replace_linked(zstd::libzstd_shared ${TANDEM_ZSTD} ${archives})
replace_linked(Polly "" LLVMExtensions)
get_target_property(libs LLVMSupport INTERFACE_LINK_LIBRARIES)
list(FILTER libs EXCLUDE REGEX "libz3")
set_property(TARGET LLVMSupport PROPERTY INTERFACE_LINK_LIBRARIES ${libs})

# LLD names every target of LLVM; the functions of unused targets are empty.
set(TANDEM_OTHER_TARGETS ${CMAKE_BINARY_DIR}/OtherTargets.c)
set(text "/* The targets of LLVM that libTandem leaves out. */\n")
foreach(target ${LLVM_TARGETS_TO_BUILD})
  if(NOT target IN_LIST TANDEM_LLVM_TARGETS)
    foreach(part TargetInfo Target TargetMC AsmPrinter AsmParser)
      string(APPEND text "void LLVMInitialize${target}${part}(void) {}\n")
    endforeach()
  endif()
endforeach()
file(CONFIGURE OUTPUT ${TANDEM_OTHER_TARGETS} CONTENT "${text}" @ONLY)

function(link_llvm name)
  target_sources(${name} PRIVATE ${TANDEM_OTHER_TARGETS}
    ${PROJECT_SOURCE_DIR}/lib/Target/CPU/NoBitcode.cpp)
  llvm_update_compile_flags(${name})
  target_link_libraries(${name} PRIVATE ${TANDEM_MLIR_LIBS} lldELF tandem_llvm)
  keep_options(${name})
endfunction()

# Exports only the C API from a library, which also contains the tools' main
# functions, and binds its calls to its own functions: another library in the
# process may export an LLVM or a Tandem of its own.
function(export_c_api name)
  get_property(tools GLOBAL PROPERTY TANDEM_TOOLS)
  foreach(tool ${tools})
    target_sources(${name} PRIVATE $<TARGET_OBJECTS:${tool}_main>)
  endforeach()
  if(APPLE)
    target_link_options(${name} PRIVATE "LINKER:-exported_symbol,_tandem*")
    return()
  endif()
  set(map ${PROJECT_SOURCE_DIR}/lib/CAPI/Tandem.map)
  set_property(TARGET ${name} APPEND PROPERTY LINK_DEPENDS ${map})
  target_link_options(${name} PRIVATE
    LINKER:-Bsymbolic LINKER:--version-script=${map})
endfunction()
