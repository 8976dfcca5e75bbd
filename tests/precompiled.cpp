// CMake makes precompiled headers of a target that has a source.
