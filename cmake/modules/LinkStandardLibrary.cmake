# Links the C++ library and GCC's own functions statically and hides them, so that
# the result requires only glibc and, if it is a library, the unwinder in the
# shared libgcc. Libraries run on older versions of glibc too.
add_link_options(-static-libgcc -static-libstdc++ LINKER:--gc-sections
  LINKER:--exclude-libs,libgcc.a:libgcc_eh.a:libstdc++.a)
include(LinkOlderGlibc)
