# libtorch comes from the PyPI wheel. Its own CMake config demands a CUDA toolkit even for CPU use,
# so the imported target is written here.
if(NOT EXISTS ${BURNISH_TORCH}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "libtorch not found in ${BURNISH_TORCH}: run ./dev setup, or pass -DBURNISH_TORCH=<site-packages>/torch")
endif()
get_filename_component(BURNISH_TORCH ${BURNISH_TORCH} REALPATH)
get_filename_component(site ${BURNISH_TORCH} DIRECTORY)

add_library(torch_wheel INTERFACE)
target_include_directories(torch_wheel SYSTEM INTERFACE ${BURNISH_TORCH}/include ${BURNISH_TORCH}/include/torch/csrc/api/include)
target_link_directories(torch_wheel INTERFACE ${BURNISH_TORCH}/lib)
target_link_libraries(torch_wheel INTERFACE torch_cpu c10)
set(BURNISH_TORCH_RPATH ${BURNISH_TORCH}/lib ${site}/nvidia/cu13/lib)
foreach(dir ${BURNISH_TORCH_RPATH})
  target_link_options(torch_wheel INTERFACE "LINKER:-rpath-link,${dir}" "LINKER:-rpath,${dir}")
endforeach()
if(BURNISH_CUDA)
  find_package(CUDAToolkit REQUIRED)
  target_include_directories(torch_wheel SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
  # libtorch_cuda registers its operators from static initialisers, so it is linked although no symbol is asked of it.
  target_link_options(torch_wheel INTERFACE "LINKER:--no-as-needed" -ltorch_cuda -lc10_cuda "LINKER:--as-needed")
endif()

find_package(PkgConfig REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
pkg_check_modules(webp REQUIRED IMPORTED_TARGET libwebp libwebpdemux)
pkg_check_modules(sentencepiece REQUIRED IMPORTED_TARGET sentencepiece)
pkg_check_modules(utf8proc REQUIRED IMPORTED_TARGET libutf8proc)

# The wheel carries headers of another fmt release than the one installed; a folder of our own, searched first,
# keeps headers and library of one release together.
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/include)
get_target_property(fmt_include fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
file(CREATE_LINK ${fmt_include}/fmt ${CMAKE_BINARY_DIR}/include/fmt SYMBOLIC)
target_include_directories(burnish_options BEFORE INTERFACE ${CMAKE_BINARY_DIR}/include)

# What a room links beside torch and the rooms that tools/rooms.txt gives it.
set(BURNISH_LINK_base fmt::fmt spdlog::spdlog)
set(BURNISH_LINK_config tomlplusplus::tomlplusplus CLI11::CLI11)
set(BURNISH_LINK_io nlohmann_json::nlohmann_json)
set(BURNISH_LINK_data JPEG::JPEG PNG::PNG PkgConfig::webp nlohmann_json::nlohmann_json)
set(BURNISH_LINK_tokenizers PkgConfig::sentencepiece PkgConfig::utf8proc nlohmann_json::nlohmann_json)
set(BURNISH_LINK_models nlohmann_json::nlohmann_json)
set(BURNISH_LINK_train nlohmann_json::nlohmann_json)
set(BURNISH_LINK_app CLI11::CLI11 nlohmann_json::nlohmann_json)
set(BURNISH_LINK_models/text nlohmann_json::nlohmann_json)
set(BURNISH_LINK_models/vae nlohmann_json::nlohmann_json)
