# `cmake --install` makes a folder that can be copied: bin/burnish, and in lib/ the libraries it needs beside torch and the C and C++
# runtimes. Torch is looked for where it was at build time, then in PREFIX/torch (a link to an installed torch folder).
if(TARGET burnish)
  # The build's own program has the same path: a path of its own is filled up with empty entries, which mean the folder one stands in.
  set_target_properties(burnish PROPERTIES
    BUILD_WITH_INSTALL_RPATH ON
    INSTALL_RPATH "$ORIGIN/../lib;$ORIGIN/../torch/lib;$ORIGIN/../torch/../nvidia/cu13/lib;${BURNISH_TORCH_RPATH}")
  install(TARGETS burnish RUNTIME_DEPENDENCY_SET burnish_libraries RUNTIME DESTINATION bin)
  # What is linked to Arrow finds it where pyarrow lies, or not at all.
  get_property(companions GLOBAL PROPERTY BURNISH_COMPANIONS)
  list(REMOVE_ITEM companions burnish_parquet)
  install(TARGETS ${companions} RUNTIME_DEPENDENCY_SET burnish_libraries LIBRARY DESTINATION bin)
  if(TARGET burnish_parquet)
    install(TARGETS burnish_parquet LIBRARY DESTINATION bin)
  endif()
  install(RUNTIME_DEPENDENCY_SET burnish_libraries
    PRE_EXCLUDE_REGEXES "^libtorch" "^libc10" "^libcu" "^libnv" "^libnccl" "^libgomp" "^ld-linux"
                        "^lib(c|m|dl|rt|util|pthread|stdc\\+\\+|gcc_s)\\.so"
    LIBRARY DESTINATION lib)
  # What the studio begins a run from.
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/recipes/ DESTINATION share/burnish/recipes FILES_MATCHING PATTERN "*.toml" PATTERN "goals.json" PATTERN "tiny_*" EXCLUDE)
  # What somebody can try it with who has no model and no pictures yet.
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/assets/tiny-flux ${CMAKE_SOURCE_DIR}/assets/demo-pictures DESTINATION share/burnish/assets)
  install(FILES ${CMAKE_SOURCE_DIR}/assets/demo.toml ${CMAKE_SOURCE_DIR}/assets/demo.json DESTINATION share/burnish/assets)
endif()
