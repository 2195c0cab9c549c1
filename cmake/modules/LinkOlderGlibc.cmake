# Links libraries to an older glibc than this system's, so that they run on both.
# The system's glibc also has its symbols in the versions that older programs use,
# but a linker takes the newest ones. So libraries are linked to stubs, which have
# only the newest versions up to TANDEM_GLIBC:
#
#   libc, libm            what the older glibc has too
#   libpthread, libdl     the functions that glibc 2.34 has moved to libc
#   libgcc_eh             the unwinder of the shared libgcc, since the static one
#                         calls a function of glibc 2.35
#
# lib/Support/OlderGlibc.c implements functions that are newer and used; a further
# one is an undefined symbol, which is an error except in a module, since Python's
# functions are undefined there. Programs are linked as usual: an older glibc would
# not call the constructors of a program that is compiled for a newer one.
set(TANDEM_OLDER_GLIBC_SOURCE
  ${CMAKE_CURRENT_LIST_DIR}/../../lib/Support/OlderGlibc.c)
# The folder's name changes with the source, so that libraries are linked again.
file(SHA1 ${TANDEM_OLDER_GLIBC_SOURCE} hash)
string(SUBSTRING ${hash} 0 8 hash)
set(TANDEM_GLIBC_STUBS ${CMAKE_BINARY_DIR}/glibc-${TANDEM_GLIBC}-${hash})

# Finds a library of the system as the compiler does when it links.
function(find_system_library name result)
  execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=${name}
    OUTPUT_VARIABLE path OUTPUT_STRIP_TRAILING_WHITESPACE
    COMMAND_ERROR_IS_FATAL ANY)
  if(NOT IS_ABSOLUTE "${path}")
    message(FATAL_ERROR "${CMAKE_C_COMPILER} finds no ${name}; a build with "
      "TANDEM_GLIBC needs a GCC with glibc and a shared libgcc")
  endif()
  set(${result} ${path} PARENT_SCOPE)
endfunction()

# Lists the functions and objects of a library as "NAME VERSION KIND SIZE", each
# with its newest version up to TANDEM_GLIBC. `changed` are those of which there
# is a newer one.
function(list_symbols library result changed)
  execute_process(COMMAND ${CMAKE_NM} -D -S --defined-only ${library}
    OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]+ [TtWVDBRi] [^\n]+@(GLIBC|GCC)_[0-9.]+" lines
    "${text}")
  set(names)
  foreach(line ${lines})
    string(REGEX MATCH
      "([0-9a-f]+) (.) ([^@]+)@+((GLIBC|GCC)_([0-9.]+))$" line "${line}")
    set(name ${CMAKE_MATCH_3})
    set(version ${CMAKE_MATCH_6})
    if(CMAKE_MATCH_5 STREQUAL GLIBC AND version VERSION_GREATER TANDEM_GLIBC)
      set(newer_${name} TRUE)
    elseif(NOT DEFINED version_${name} OR version VERSION_GREATER version_${name})
      list(APPEND names ${name})
      set(version_${name} ${version})
      set(symbol_${name}
        "${name} ${CMAKE_MATCH_4} ${CMAKE_MATCH_2} 0x${CMAKE_MATCH_1}")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES names)
  set(same)
  set(both)
  foreach(name ${names})
    if(newer_${name})
      list(APPEND both ${symbol_${name}})
    else()
      list(APPEND same ${symbol_${name}})
    endif()
  endforeach()
  set(${result} ${same} PARENT_SCOPE)
  set(${changed} ${both} PARENT_SCOPE)
endfunction()

# Writes TANDEM_GLIBC_STUBS/FILE, a library that has symbols and no code.
function(write_stub file soname)
  set(code)
  set(versions)
  set(number 0)
  foreach(symbol ${ARGN})
    set(type function)
    if(symbol MATCHES " [VDBR] ")
      set(type object)
    endif()
    string(REGEX MATCH "(.+) (.+) . (.+)" symbol "${symbol}")
    math(EXPR number "${number} + 1")
    string(APPEND code ".globl stub${number}\n.type stub${number}, %${type}\n"
      ".size stub${number}, ${CMAKE_MATCH_3}\nstub${number}:\n"
      ".symver stub${number}, ${CMAKE_MATCH_1}@@${CMAKE_MATCH_2}\n")
    list(APPEND versions ${CMAKE_MATCH_2})
  endforeach()
  list(REMOVE_DUPLICATES versions)
  list(JOIN versions " {};\n" map)
  set(path ${TANDEM_GLIBC_STUBS}/${file})
  file(WRITE ${path}.s "${code}")
  file(WRITE ${path}.map "${map} {};\n")
  execute_process(COMMAND ${CMAKE_C_COMPILER} -shared -nostdlib ${path}.s
      -o ${path} -Wl,-soname,${soname} -Wl,--version-script=${path}.map
    COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# Writes the stubs, and libc.so as a script that adds OlderGlibc.c to libc.
function(write_stubs)
  find_system_library(libc.so.6 libc)
  list_symbols(${libc} symbols changed)
  write_stub(libc.so.6 libc.so.6 ${symbols})
  set(threads ${changed})
  list(FILTER threads INCLUDE REGEX "^(__)?(pthread|sem)_")
  write_stub(libpthread.so libpthread.so.0 ${threads})
  list(FILTER changed INCLUDE REGEX "^dl")
  write_stub(libdl.so libdl.so.2 ${changed})

  find_system_library(libm.so.6 libm)
  list_symbols(${libm} symbols changed)
  write_stub(libm.so libm.so.6 ${symbols} ${changed})

  # The loader has the function that finds variables of a thread.
  execute_process(COMMAND ${CMAKE_OBJDUMP} -p ${libc} OUTPUT_VARIABLE text
    COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCH "ld-[^ \n]+" soname "${text}")
  find_system_library(${soname} loader)
  list_symbols(${loader} symbols changed)
  write_stub(${soname} ${soname} ${symbols})

  find_system_library(libgcc_s.so.1 libgcc)
  list_symbols(${libgcc} symbols changed)
  list(FILTER symbols INCLUDE REGEX
    "^(_Unwind_|__(de)?register_frame|__gcc_personality)")
  write_stub(libgcc_eh.so libgcc_s.so.1 ${symbols})

  set(object ${TANDEM_GLIBC_STUBS}/OlderGlibc.o)
  execute_process(COMMAND ${CMAKE_C_COMPILER} -O2 -fPIC -c
      ${TANDEM_OLDER_GLIBC_SOURCE} -o ${object}
    COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${CMAKE_AR} rcs ${object}.a ${object} COMMAND_ERROR_IS_FATAL ANY)
  find_system_library(libc_nonshared.a nonshared)
  file(WRITE ${TANDEM_GLIBC_STUBS}/libc.so
    "GROUP(${TANDEM_GLIBC_STUBS}/libc.so.6 ${object}.a ${nonshared}\n"
    "  AS_NEEDED(${TANDEM_GLIBC_STUBS}/libpthread.so\n"
    "    ${TANDEM_GLIBC_STUBS}/libdl.so ${TANDEM_GLIBC_STUBS}/${soname}))\n")
endfunction()

write_stubs()
set(type $<TARGET_PROPERTY:TYPE>)
add_link_options(
  $<$<NOT:$<STREQUAL:${type},EXECUTABLE>>:-L${TANDEM_GLIBC_STUBS}>
  $<$<STREQUAL:${type},SHARED_LIBRARY>:LINKER:-z,defs>)
