# One interface target carries every flag: warnings, optimisation, sanitizers.
add_library(burnish_options INTERFACE)
target_include_directories(burnish_options INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_compile_options(burnish_options INTERFACE -Wall -Wextra -fopenmp)
if(BURNISH_UNITY)
  # Meant for headers: it takes a source file that another includes for one.
  target_compile_options(burnish_options INTERFACE -Wno-subobject-linkage)
endif()
if(BURNISH_WERROR)
  target_compile_options(burnish_options INTERFACE -Werror)
endif()
target_link_options(burnish_options INTERFACE -fopenmp)  # for loops that at::parallel_for splits
# Release keeps -O2: with libtorch's headers -O3 costs a third more build time and buys nothing measurable.
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
# Rooms with loops over numbers, bytes or tokens have it; the others call libtorch and wait for it, and cost a third less with -O1.
set(BURNISH_HOT base io data dist kernels nn pipeline diffusion memory optim quant adapters tokenizers models/vae)
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1")
if(BURNISH_SANITIZE)
  target_compile_options(burnish_options INTERFACE -fsanitize=${BURNISH_SANITIZE} -fno-omit-frame-pointer -g1)
  target_link_options(burnish_options INTERFACE -fsanitize=${BURNISH_SANITIZE})
endif()

# Paths below the checkout are relative for ccache, so its build folders share what they compile alike. It takes no notice of -Werror, so that
# a build without it finds what one with it compiled.
find_program(BURNISH_CCACHE ccache)
if(BURNISH_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_IGNOREOPTIONS=-Werror ${BURNISH_CCACHE})
endif()
