# Links the runtime libraries of GCC and C++ statically and hides them, so that
# the result requires only glibc: this system's version, or for libraries an older
# one and the shared libgcc.
set(TANDEM_GLIBC "" CACHE STRING
  "The oldest glibc on which a static build's libraries run; by default this one")
add_link_options(-static-libgcc -static-libstdc++ LINKER:--gc-sections
  LINKER:--exclude-libs,libgcc.a:libgcc_eh.a:libstdc++.a)
if(TANDEM_GLIBC)
  include(LinkOlderGlibc)
endif()
