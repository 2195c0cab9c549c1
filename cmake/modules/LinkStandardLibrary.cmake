# Links the runtime libraries of GCC and C++ statically and hides them, so that
# the result requires only glibc.
add_link_options(-static-libgcc -static-libstdc++ LINKER:--gc-sections
  LINKER:--exclude-libs,libgcc.a:libgcc_eh.a:libstdc++.a)
