# The kernels of src/kernels/*/triton.py become one block of binaries and a table of them in room kernels, made again whenever one of them
# or the compiler changes (docs/decisions/0030).
function(burnish_kernels)
  if(NOT BURNISH_CUDA)
    return()
  endif()
  if(NOT EXISTS ${BURNISH_TRITON}/triton)
    message(FATAL_ERROR "Triton not found in ${BURNISH_TRITON}: run ./dev build cuda, or pass -DBURNISH_TRITON=<a folder with triton 3.6.0>")
  endif()
  find_program(BURNISH_PYTHON python3 REQUIRED)
  set(folder ${CMAKE_BINARY_DIR}/kernels)
  set(compiler ${CMAKE_SOURCE_DIR}/tools/compile_kernels.py)
  file(GLOB kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/kernels/*/triton.py)
  add_custom_command(OUTPUT ${folder}/kernels.cpp ${folder}/kernels.bin
    COMMAND ${CMAKE_COMMAND} -E env PYTHONPATH=${BURNISH_TRITON} ${BURNISH_PYTHON} ${compiler} ${folder} --gpus ${BURNISH_GPUS}
    DEPENDS ${compiler} ${kernels} COMMENT "Compiling kernels for GPUs" VERBATIM)
  target_sources(room_kernels PRIVATE ${folder}/kernels.cpp)
  set_source_files_properties(${folder}/kernels.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON OBJECT_DEPENDS ${folder}/kernels.bin)
endfunction()
