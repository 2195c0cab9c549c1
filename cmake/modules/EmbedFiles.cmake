# Run as `cmake -DOUTPUT=... -DDIRECTORY=... -P EmbedFiles.cmake`: writes the
# .mlir files of DIRECTORY as initializers {name, text}.
file(GLOB files ${DIRECTORY}/*.mlir)
list(SORT files)
set(content "")
foreach(file ${files})
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} text)
  string(APPEND content "{\"${name}\", R\"tandem(${text})tandem\"},\n")
endforeach()
file(WRITE ${OUTPUT} "${content}")
