# Links GCC's and C++'s own libraries statically and hides them, so that what is built
# needs only glibc.
add_link_options(-static-libgcc -static-libstdc++ LINKER:--gc-sections
  LINKER:--exclude-libs,libgcc.a:libgcc_eh.a:libstdc++.a)
