# Writes files as initializers {name, text}. Usage: `cmake -DOUTPUT=...
# "-DFILES=a.mlir;b.mlir" -P EmbedFiles.cmake`.
set(files ${FILES})
list(SORT files)
set(content "")
foreach(file ${files})
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} text)
  string(APPEND content "{\"${name}\", R\"tandem(${text})tandem\"},\n")
endforeach()
file(WRITE ${OUTPUT} "${content}")
