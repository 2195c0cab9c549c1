# Run as `cmake -DOUTPUT=... -DNM=... -DOBJECTS=... -P WriteSymbolMap.cmake`: writes
# OUTPUT.map, the version script of a libTandem that hides all but the C API and what
# OBJECTS name of MLIR and LLVM, and OUTPUT.ld, which takes that from archives even
# where libTandem does without. C++'s own library, which the tools have too, stays
# hidden.
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
