# libtorch comes from the PyPI wheel. Its own CMake config demands a CUDA toolkit even for CPU use,
# so the imported target is written here.
if(NOT EXISTS ${BURNISH_TORCH}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "libtorch not found in ${BURNISH_TORCH}: run ./dev setup, or pass -DBURNISH_TORCH=<site-packages>/torch")
endif()
get_filename_component(BURNISH_TORCH ${BURNISH_TORCH} REALPATH)
get_filename_component(site ${BURNISH_TORCH} DIRECTORY)

add_library(torch_wheel INTERFACE)
target_include_directories(torch_wheel SYSTEM INTERFACE ${BURNISH_TORCH}/include ${BURNISH_TORCH}/include/torch/csrc/api/include)
# Without it ATen/TensorOperators.h and headers of autograd bring every operator along (docs/decisions/0085).
target_compile_definitions(torch_wheel INTERFACE AT_PER_OPERATOR_HEADERS)
target_link_directories(torch_wheel INTERFACE ${BURNISH_TORCH}/lib)
target_link_libraries(torch_wheel INTERFACE torch_cpu c10)
# The OpenMP runtime that torch brings, so that our parallel loops and torch's share one pool of threads.
file(GLOB BURNISH_OPENMP ${BURNISH_TORCH}/lib/libgomp*.so*)
target_link_libraries(torch_wheel INTERFACE ${BURNISH_OPENMP})
set(BURNISH_TORCH_RPATH ${BURNISH_TORCH}/lib ${site}/nvidia/cu13/lib)
foreach(dir ${BURNISH_TORCH_RPATH})
  target_link_options(torch_wheel INTERFACE "LINKER:-rpath-link,${dir}" "LINKER:-rpath,${dir}")
endforeach()
if(BURNISH_CUDA)
  # The wheels of the CUDA libraries bring headers; without them (torch installed alone) a toolkit has to. They are the same for every processor.
  set(BURNISH_CUDA_INCLUDE "" CACHE PATH "The headers of a CUDA toolkit, where CMake finds none for the processor that is compiled for")
  if(BURNISH_CUDA_INCLUDE)
    set(CUDAToolkit_INCLUDE_DIRS ${BURNISH_CUDA_INCLUDE})
  elseif(EXISTS ${site}/nvidia/cu13/include/cublas_v2.h AND EXISTS ${site}/nvidia/cu13/include/cuda_runtime_api.h)
    set(BURNISH_CUDA_INCLUDE ${site}/nvidia/cu13/include)
  else()
    find_package(CUDAToolkit REQUIRED)
    set(BURNISH_CUDA_INCLUDE ${CUDAToolkit_INCLUDE_DIRS})
  endif()
  # Its header alone: libtorch_cuda brings the library.
  find_path(BURNISH_NCCL_INCLUDE nccl.h HINTS ${site}/nvidia/nccl/include ${CUDAToolkit_INCLUDE_DIRS} NO_CMAKE_FIND_ROOT_PATH)
  if(NOT BURNISH_NCCL_INCLUDE)
    message(STATUS "nccl.h not found: gradients and blocks of several processes will go through main memory")
  endif()
  # The runtime that libtorch itself is linked to, which comes with its wheel.
  target_link_libraries(torch_wheel INTERFACE ${site}/nvidia/cu13/lib/libcudart.so.13)
  # libtorch_cuda registers its operators from static initialisers, so it is linked although no symbol is asked of it. Its own
  # libraries (cuBLAS, cuDNN, NCCL) are found when the program runs; a machine that only compiles need not have them.
  target_link_options(torch_wheel INTERFACE "LINKER:--no-as-needed" -ltorch_cuda -lc10_cuda "LINKER:--as-needed"
    "LINKER:--unresolved-symbols=ignore-in-shared-libs")
endif()

find_package(PkgConfig REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(webp REQUIRED IMPORTED_TARGET libwebp libwebpdemux libwebpmux)
pkg_check_modules(heif REQUIRED libheif) # its header: the library is opened when a picture needs it
pkg_check_modules(tiff REQUIRED IMPORTED_TARGET libtiff-4) # likewise, and through a companion (docs/decisions/0042)
pkg_check_modules(jxl REQUIRED IMPORTED_TARGET libjxl) # through a companion
pkg_check_modules(ffmpeg IMPORTED_TARGET libavformat libavcodec libavutil libswscale libswresample) # videos, through a companion
pkg_check_modules(lcms REQUIRED IMPORTED_TARGET lcms2)
find_package(GIF REQUIRED)
pkg_check_modules(sentencepiece REQUIRED IMPORTED_TARGET sentencepiece)
pkg_check_modules(utf8proc REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(curl REQUIRED IMPORTED_TARGET libcurl) # through a companion
pkg_check_modules(httplib REQUIRED IMPORTED_TARGET cpp-httplib)
pkg_check_modules(minizip REQUIRED IMPORTED_TARGET minizip)

# The wheel carries headers of another fmt release than the one installed; a folder of our own, searched first,
# keeps headers and library of one release together. It lies outside the build folder, so that all of them share ccache's objects.
set(BURNISH_FMT_LINK ${CMAKE_SOURCE_DIR}/.deps/include)
file(MAKE_DIRECTORY ${BURNISH_FMT_LINK})
get_target_property(fmt_include fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
if(NOT EXISTS ${BURNISH_FMT_LINK}/fmt/core.h)
  file(CREATE_LINK ${fmt_include}/fmt ${BURNISH_FMT_LINK}/fmt SYMBOLIC)
endif()
target_include_directories(burnish_options BEFORE INTERFACE ${BURNISH_FMT_LINK})

# What a room links beside torch and the rooms that tools/rooms.txt gives it.
set(BURNISH_LINK_base fmt::fmt spdlog::spdlog ${CMAKE_DL_LIBS})
set(BURNISH_LINK_config tomlplusplus::tomlplusplus CLI11::CLI11)
set(BURNISH_LINK_io nlohmann_json::nlohmann_json OpenSSL::Crypto PkgConfig::xxhash)
set(BURNISH_LINK_data PkgConfig::utf8proc JPEG::JPEG PNG::PNG PkgConfig::webp PkgConfig::lcms GIF::GIF nlohmann_json::nlohmann_json)
set(BURNISH_LINK_tokenizers PkgConfig::sentencepiece PkgConfig::utf8proc nlohmann_json::nlohmann_json)
set(BURNISH_LINK_records nlohmann_json::nlohmann_json)
set(BURNISH_LINK_foreign nlohmann_json::nlohmann_json tomlplusplus::tomlplusplus yaml-cpp)
set(BURNISH_LINK_report nlohmann_json::nlohmann_json PkgConfig::httplib OpenSSL::Crypto)
set(BURNISH_LINK_studio PkgConfig::minizip)
set(BURNISH_LINK_hub nlohmann_json::nlohmann_json)
set(BURNISH_LINK_models nlohmann_json::nlohmann_json)
set(BURNISH_LINK_train nlohmann_json::nlohmann_json)
set(BURNISH_LINK_app CLI11::CLI11 nlohmann_json::nlohmann_json)
set(BURNISH_LINK_models/text nlohmann_json::nlohmann_json)
set(BURNISH_LINK_models/vae nlohmann_json::nlohmann_json)
