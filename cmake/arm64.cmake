# Builds for aarch64 on another processor, with Debian's cross compiler. What is linked beside torch lies in ARM64_ROOT, the packages of
# that architecture, unpacked (./dev build arm64 makes it); tests run by qemu.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

set(ARM64_ROOT ${CMAKE_CURRENT_LIST_DIR}/../.deps/arm64/root CACHE PATH "Debian's packages for arm64, unpacked")
get_filename_component(root ${ARM64_ROOT} ABSOLUTE)
set(CMAKE_FIND_ROOT_PATH ${root})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(kind LIBRARY INCLUDE PACKAGE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${root})
set(ENV{PKG_CONFIG_LIBDIR} ${root}/usr/lib/aarch64-linux-gnu/pkgconfig:${root}/usr/share/pkgconfig)
# Behind all others: headers of the C library are the compiler's.
foreach(language C CXX)
  set(CMAKE_${language}_FLAGS_INIT "-idirafter ${root}/usr/include/aarch64-linux-gnu -idirafter ${root}/usr/include")
endforeach()
# What these libraries are linked to themselves.
foreach(kind EXE SHARED MODULE)
  set(CMAKE_${kind}_LINKER_FLAGS_INIT "-Wl,-rpath-link,${root}/usr/lib/aarch64-linux-gnu:${root}/lib/aarch64-linux-gnu")
endforeach()

find_program(ARM64_EMULATOR NAMES qemu-aarch64 qemu-aarch64-static)
if(ARM64_EMULATOR)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${ARM64_EMULATOR} -L ${root} -E "LD_LIBRARY_PATH=${root}/usr/lib/aarch64-linux-gnu")
endif()
