# Writes two linker scripts for libTandem. OUTPUT.map is a version script that
# hides everything except the C API and the symbols of MLIR and LLVM that
# OBJECTS use; OUTPUT.ld pulls these symbols from archives even if libTandem
# itself does not use them. The C++ library, which the tools also contain, stays
# hidden. Usage: `cmake -DOUTPUT=... -DNM=... -DOBJECTS=... -P
# WriteSymbolMap.cmake`.
set(symbols "tandem*")
set(names)
if(OBJECTS)
  execute_process(COMMAND ${NM} --undefined-only --format=posix ${OBJECTS}
    OUTPUT_VARIABLE undefined COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "_Z[^ \n]+" names "${undefined}")
  list(FILTER names INCLUDE REGEX "4(mlir|llvm)")
  list(FILTER names EXCLUDE REGEX "^_ZN?K?St")
  list(REMOVE_DUPLICATES names)
  list(SORT names)
  list(APPEND symbols ${names})
endif()
list(JOIN symbols ";\n    " text)
file(WRITE ${OUTPUT}.map "{\n  global:\n    ${text};\n  local:\n    *;\n};\n")
list(JOIN names "\n  " text)
file(WRITE ${OUTPUT}.ld "EXTERN(\n  ${text}\n)\n")
