# ./dev gpu: what is worth knowing of a GPU in one call. Sourced by ./dev.

GPU_PACK=build-cuda/pack
GPU_TESTS="test_kernels test_optim test_quant test_nn test_adapters test_models_families test_models_parts test_models_text test_models_vae test_train_step test_checkpoint test_integration"

# What a machine without compiler and packages needs beside this checkout, Python and torch: programs, stripped, and their libraries.
pack_for_gpu() {
  local program
  need_build_tools
  configure cuda build-cuda -DBURNISH_BENCHMARKS=ON
  # shellcheck disable=SC2086
  cmake --build build-cuda -j "$(build_jobs)" --target burnish bench_micro $GPU_TESTS
  rm -rf "$GPU_PACK"
  mkdir -p "$GPU_PACK/bin" "$GPU_PACK/lib"
  for program in burnish program_forks bench_micro $GPU_TESTS; do
    strip -o "$GPU_PACK/bin/$program" "build-cuda/$program"
    # Torch brings its own libraries and those of CUDA; the C library is the machine's.
    ldd "build-cuda/$program" | awk '$3 ~ /^\// {print $3}' | grep -vE "/lib(torch|c10|cu[^r]|curand|nv|nccl|gomp|c\.so|m\.so|dl\.so|rt\.so|util\.so|pthread|resolv)" |
      xargs -r cp -Ln -t "$GPU_PACK/lib"
  done
  tar -C build-cuda -cf - "$(basename "$GPU_PACK")" | xz --lzma2=preset=1,dict=128MiB >"$GPU_PACK.tar.xz"  # a window that reaches back to the kernels, which each program holds
  say "$GPU_PACK.tar.xz has $(du -sm "$GPU_PACK.tar.xz" | cut -f 1) MiB: carry it with a checkout, and run ./dev gpu there"
}

# Python has no need of xz, which the machine may lack.
unpack_for_gpu() {
  [[ -f $GPU_PACK.tar.xz && ! $GPU_PACK -nt $GPU_PACK.tar.xz ]] || return 0
  rm -rf "$GPU_PACK"
  python3 -m tarfile -e "$GPU_PACK.tar.xz" build-cuda
  touch "$GPU_PACK"
  local program
  for program in burnish program_forks; do  # which tests of whole runs start, where they were built
    [[ -e build-cuda/$program ]] || ln -s "pack/bin/$program" build-cuda
  done
}

verb_gpu() {
  if [[ ${1:-} == --pack ]]; then pack_for_gpu; return; fi
  have python3 || die "gpu needs a python3 that imports torch 2.11.0"
  local programs=build
  if [[ ${BURNISH_TEST_DEVICE:-} != cpu ]]; then # else it is a rehearsal
    unpack_for_gpu
    [[ ! -d $GPU_PACK ]] || programs=$GPU_PACK
  fi
  python3 benchmarks/gpu.py --programs "$programs" "$@"
}
