# Configure, build and test. Sourced by ./dev.

# Compiling a unit of files that use libtorch takes up to 1.5 GiB, so small memory means fewer at once.
build_jobs() {
  local cores memory_gib
  cores=$(nproc)
  memory_gib=$(awk '/^MemTotal/ {print int($2 / 1048576)}' /proc/meminfo)
  local fits=$((memory_gib * 2 / 3))
  ((fits >= 1)) || fits=1
  echo $((cores < fits ? cores : fits))
}

# configure PRESET FOLDER [cmake options]: runs CMake when the folder is new or its options or the presets changed; ninja sees to the rest.
configure() {
  local preset=$1 folder=$2
  shift 2
  local options=(--preset "$preset" -B "$folder" "-DBURNISH_TORCH=$TORCH" "-DBURNISH_ARROW=$ARROW" "$@")
  # What is built for this machine needs kernels for its GPUs alone, a fifth of all of them; what is packed has all.
  if [[ $DEVICE == cuda && $preset != cuda ]]; then options+=(-DBURNISH_CUDA=ON "-DBURNISH_GPUS=${BURNISH_GPUS:-$(gpus_here)}"); fi
  if [[ $preset == *cuda ]]; then options+=("-DBURNISH_GPUS=${BURNISH_GPUS:-}"); fi
  if [[ $DEVICE == cuda || $preset == *cuda ]]; then need_triton; fi
  if [[ $preset == arm64-cuda ]]; then options+=("-DBURNISH_CUDA_INCLUDE=$(cuda_headers)"); fi
  if [[ -d $DEPS/triton ]]; then options+=("-DBURNISH_TRITON=$DEPS/triton"); fi  # so that a build from before it was there sees it
  if [[ -f $folder/build.ninja && $folder/.dev-options -nt CMakePresets.json && $(<"$folder/.dev-options") == "${options[*]}" ]]; then return; fi
  cmake "${options[@]}" --log-level=WARNING
  printf '%s\n' "${options[*]}" >"$folder/.dev-options"
}

# Compute capabilities of this machine's GPUs, 8.9;9.0 for example; nothing where it has none that says so.
gpus_here() {
  if have nvidia-smi; then nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | { grep -x '[0-9]*[.][0-9]' || true; } | sort -u | paste -s -d ';'; fi
}

# The headers of this machine's CUDA toolkit, which are those of other processors too.
cuda_headers() {
  have nvcc || die "programs for GPUs need the headers of a CUDA toolkit, and no nvcc is on PATH; install the CUDA toolkit 13.0"
  echo "$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")/include"
}

# folder_of PRESET: where a preset builds; the release program is build/burnish, that for another torch than the house's
# build-torch-VERSION/burnish.
folder_of() {
  local beside=""
  if [[ ${ASKED_VERSION:-$HOUSE_TORCH} != "$HOUSE_TORCH" ]]; then beside=-torch-$ASKED_VERSION; fi
  case $1 in
    release) echo "build$beside" ;;
    dev | asan | tsan | cuda | arm64 | arm64-cuda) echo "build-$1$beside" ;;
    *) die "no preset '$1'; there are dev, release, asan, tsan, cuda, arm64 and arm64-cuda" ;;
  esac
}

# What a unit of a room and one of tests take on a core, in seconds (docs/decisions/0085).
UNIT_SECONDS=10
TEST_SECONDS=10

# The tests without grids take so many minutes of a core.
TEST_MINUTES=28

# missing_objects FOLDER [TARGET]: the objects that were never made. (ninja -n counts nothing where folders are looked through for new files.)
missing_objects() {
  local folder=$1 object
  shift
  ninja -C "$folder" -t commands "$@" | grep -o ' -o [^ ]*\.o ' | while read -r _ object; do
    if [[ ! -e $folder/$object ]]; then echo "$object"; fi
  done
}

# build FOLDER [TARGET]: says how long it will take, and builds. A terminal sees how far it is, a pipe only what fails.
build() {
  local folder=$1 jobs missing units tests minutes options=()
  shift
  if (($#)); then options+=(--target "$@"); fi
  jobs=$(build_jobs)
  missing=$(missing_objects "$folder" "$@")
  tests=$(grep -c 'tests/' <<<"$missing" || true)
  units=$(($(grep -c . <<<"$missing" || true) - tests))
  minutes=$(((units * UNIT_SECONDS + tests * TEST_SECONDS) / jobs / 60))
  if ((minutes > 0)); then say "compiling takes about $minutes minutes on $jobs cores, less where ccache has seen it"; fi
  if [[ ! -t 1 ]] && ninja --help 2>&1 | grep -q -- --quiet; then options+=(-- --quiet); fi
  NINJA_STATUS='[%p after %e s] ' cmake --build "$folder" -j "$jobs" ${options[@]+"${options[@]}"}
}

verb_build() {
  local preset=${1:-release} folder
  folder=$(folder_of "$preset")
  if [[ $preset == arm64* ]]; then need_arm64; else need_build_tools; fi
  configure "$preset" "$folder"
  build "$folder" burnish
}

# What the program writes of itself, which a test compares with it.
verb_docs() {
  verb_build
  build/burnish help --markdown >docs/flags.md.new
  mv docs/flags.md.new docs/flags.md
  say "docs/flags.md is what the program says"
}

# One program of benchmarks/, in the release build.
build_bench() {
  need_build_tools
  configure release build -DBURNISH_BENCHMARKS=ON
  build build "$1"
}

# The grids of tests/grids.txt as a filter of GoogleTest. With a commit: those that may have changed since, or nothing.
grids() {
  local commit=${1:-} suite rooms paths suites=()
  while IFS=: read -r suite rooms; do
    # shellcheck disable=SC2086
    paths="$(printf 'src/%s ' $rooms) $(grep -rlw --include='*.cpp' "$suite" tests)" || die "tests/grids.txt: no file of tests/ has a suite $suite"
    ls -d $paths >/dev/null || die "tests/grids.txt: $suite names a room that is not there"
    # shellcheck disable=SC2086
    if [[ -z $commit ]] || ! git diff --quiet "$commit" -- $paths; then suites+=("*/$suite.*" "$suite.*"); fi
  done < <(grep '^[A-Z]' tests/grids.txt)
  (IFS=:; echo "${suites[*]}")
}

# Lines for run_parts: a PROGRAM in so many PARTS, of the tests that FILTER names.
parts_of() {
  local program=$1 parts=$2 filter=$3 number
  for ((number = 0; number < parts; ++number)); do echo "$program $parts $number $filter"; done
}

# One such line in GRID_SHARE; which ones, the commit says, so that one run is repeated and the next one may have others.
GRID_SHARE=36
share_of_grids() { awk -v of=$GRID_SHARE -v which=$((0x$(git rev-parse HEAD | cut -c1-4) % GRID_SHARE)) 'NR % of == which'; }

# Runs such lines, a process each, one more at a time than there are cores, since some tests wait. For most tests, loading libtorch takes longer than
# the test. Says what each took.
run_parts() {
  GTEST_BRIEF=1 OMP_WAIT_POLICY=passive ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
    xargs -P "$(($(nproc) + 1))" -L 1 sh -c 'began=$(date +%s) failed=
      GTEST_TOTAL_SHARDS=$1 GTEST_SHARD_INDEX=$2 GTEST_FILTER=$3 timeout 1800 "$0" || { echo "[dev] $0, part $2 of $1: $?"; failed=1; }
      echo "[time] $(($(date +%s) - began)) s: $0, part $2 of $1"
      [ -z "$failed" ]'
}

# The tests of FILTER: of each room's program a process on each core, of the longest ones many, which begin first, so that the cores end
# together; before them a share of the cases of PARTLY, which are grids of the two longest. What failed is said once more at the end, and all of it
# is in FOLDER/tests.log, with the seconds of each process.
run_tests() {
  local folder=$1 filter=$2 partly=$3 cores program status=0
  cores=$(nproc)
  {
    if [[ -n $partly ]]; then
      for program in "$folder"/test_{integration,train_run}; do parts_of "$program" "$((24 * cores))" "$partly"; done | share_of_grids
    fi
    parts_of "$folder/test_integration" "$((12 * cores))" "$filter"
    parts_of "$folder/test_train_run" "$((4 * cores))" "$filter"
    for program in "$folder"/test_*; do
      [[ $program == */test_integration || $program == */test_train_run ]] || parts_of "$program" "$cores" "$filter"
    done
  } | run_parts 2>&1 | tee "$folder/tests.log" | { grep --line-buffered -v '^\[time\] ' || true; } || status=$?
  ctest --test-dir "$folder" -j "$cores" -L interpreted --output-on-failure || status=$?
  grep -A 15 -E ': Failure$' "$folder/tests.log" | cut -c1-400 | tail -n 60 || true
  grep -E '^\[  FAILED  \]|^\[dev\] ' "$folder/tests.log" | sort -u || true
  return "$status"
}

# The suites of tests/without_numbers.txt as a filter of GoogleTest.
suites_without_numbers() {
  local suite suites=()
  while read -r suite; do
    grep -qrw --include='*.cpp' "$suite" tests || die "tests/without_numbers.txt: no file of tests/ has a suite $suite"
    suites+=("*/$suite.*" "$suite.*")
  done < <(sed 's/#.*//' tests/without_numbers.txt | grep -o '[A-Za-z0-9]*')
  (IFS=:; echo "-${suites[*]}")
}

# Compares numbers once more as a processor with shorter vectors computes them: last bits differ, and bounds have to allow for that.
run_numeric_tests() {
  local folder=$1 cores filter capability program
  cores=$(nproc)
  filter=$(suites_without_numbers)
  for capability in default avx2; do
    # The tests have run like this already.
    if [[ $capability == avx2 ]] && ! grep -qE 'avx512f|avx_vnni|amx_' /proc/cpuinfo; then continue; fi
    say "numbers as with ATEN_CPU_CAPABILITY=$capability"
    # oneDNN too, or libtorch takes paths in 16 bits that the processor of the one has and that of the other lacks.
    {
      parts_of "$folder/test_integration" "$((4 * cores))" '*Parity*:*OfDiffusers*:*PlainTorch*'
      for program in "$folder"/test_{train*,models*,adapters,diffusion,kernels,nn,optim,quant}; do parts_of "$program" "$cores" "$filter"; done
    } | ATEN_CPU_CAPABILITY=$capability ONEDNN_MAX_CPU_ISA=AVX2 run_parts || die "tests fail with ATEN_CPU_CAPABILITY=$capability in the environment"
  done
}

# run_listed LIST FOLDER REGEX COMMAND...: the suites that LIST names, a line a program, by COMMAND: all, or those that match; only the programs that
# hold them are built.
run_listed() {
  local list=$1 folder=$2 regex=$3 program suites suite filter status=0 began programs=() filters=()
  shift 3
  while IFS=: read -r program suites; do
    filter=""
    for suite in $suites; do
      grep -qrw --include='*_test.cpp' "$suite" tests || die "$list: no file of tests/ has a suite $suite"
      if [[ $suite =~ ${regex:-.} ]]; then filter+=$suite.*:*/$suite.*:; fi
    done
    if [[ -n $filter ]]; then programs+=("$program") filters+=("${filter%:}"); fi
  done < <(grep '^test_' "$list")
  ((${#programs[@]})) || die "$list has no suite that matches '$regex'"
  cmake --build "$folder" -j "$(build_jobs)" --target "${programs[@]}"
  for suite in "${!programs[@]}"; do
    began=$SECONDS
    GTEST_BRIEF=1 GTEST_FILTER=${filters[suite]} timeout 1800 "$@" "$folder/${programs[suite]}" || { say "${programs[suite]}: $?"; status=1; }
    say "${programs[suite]}: $((SECONDS - began)) s"
  done
  return "$status"
}

run_tsan_tests() {
  # Libraries are mapped where the sanitizer expects them only without random addresses.
  TSAN_OPTIONS=suppressions=$ROOT/tests/tsan.txt:halt_on_error=1 OMP_NUM_THREADS=1 run_listed tests/threads.txt build-tsan "$1" setarch -R ||
    die "threads disturb each other, or tests fail, see above"
}

# On another processor programs of aarch64 are run by qemu, also those that tests start: the kernel is told so, which only root may do.
need_emulator() {
  local kernel=/proc/sys/fs/binfmt_misc
  export QEMU_LD_PREFIX=$DEPS/arm64/root
  [[ $(uname -m) != aarch64 && -z $(compgen -G "$kernel/*aarch64*") ]] || return 0
  [[ -e $kernel/register ]] || as_root mount -t binfmt_misc none "$kernel" || die "this kernel starts no programs of other processors (binfmt_misc)"
  printf ':burnish-aarch64:M::%s:%s:%s:F' '\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00' \
    '\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff' "$(command -v qemu-aarch64-static)" | as_root tee "$kernel/register" >/dev/null
}

run_arm64_tests() {
  need_emulator
  OMP_NUM_THREADS=1 run_listed tests/arm64.txt build-arm64 "$1" env || die "tests fail on aarch64, see above"
  [[ -z $1 ]] || return 0
  build build-arm64 burnish
  OMP_NUM_THREADS=1 python3 tests/packages/check_runs.py build-arm64/burnish
}

verb_test() {
  local preset=release folder regex="" numeric="" all="" filter="*" since="" partly=""
  while (($#)); do
    case $1 in
      --asan) preset=asan ;;
      --tsan) preset=tsan ;;
      --arm64) preset=arm64 ;;
      --browser) verb_test_browser; return ;;
      --remote) need_packages remote; verb_build; bash tests/remote/check_launch.sh build/burnish; return ;;
      --all) all=1 ;;
      --numeric) numeric=1 ;;
      --since) since=$(git rev-parse --verify --quiet "${2:-}^{commit}") || die "--since needs a commit, not '${2:-}'"; shift ;;
      -*) die "test knows --asan, --tsan, --arm64, --browser, --remote, --all, --numeric, --since COMMIT and a regular expression, not '$1'" ;;
      *) regex=$1 ;;
    esac
    shift
  done
  folder=$(folder_of "$preset")
  if [[ $preset == arm64 ]]; then need_arm64; else need_build_tools; need_triton; fi
  configure "$preset" "$folder"
  if [[ $preset == tsan || $preset == arm64 ]]; then "run_${preset}_tests" "$regex"; return; fi
  build "$folder"
  if [[ -n $numeric ]]; then run_numeric_tests "$folder"; return; fi
  if [[ -n $regex ]]; then ctest --preset "$preset" -j "$(nproc)" -R "$regex"; return; fi
  if [[ -z $all ]]; then filter=-$(grids); fi
  if [[ -n $since ]]; then partly=$(grids "$since"); fi
  say "running the tests${all:+ with all grids, an hour and more}${partly:+ with one in $GRID_SHARE of the cases of $partly}: about $((TEST_MINUTES / $(nproc))) minutes${partly:+ and those of the grids}"
  SECONDS=0
  run_tests "$folder" "$filter" "$partly" || die "tests fail, see above"
  say "the tests took $((SECONDS / 60)) minutes and $((SECONDS % 60)) seconds"
}

# The pages of `burnish report` and `burnish watch` in headless Chromium; the screenshots stay in build/pages/ to be looked at.
verb_test_browser() {
  need_packages browser
  verb_build
  need_python_folder axe tools/requirements-axe.txt "axe-core, which looks at pages for what keeps people out, under 1 MB" --no-deps
  local check
  for check in tests/browser/check_*.py; do
    say "$check"
    BURNISH=$ROOT/build/burnish BURNISH_AXE=$DEPS/axe/axe_playwright_python/axe.min.js python3 "$check" build/pages
  done
}

# Adds to a fuzzer's kept inputs those found that reach new code, and those that once broke a promise. The archive has the same bytes whoever writes it.
keep_inputs() {
  local name=$1 kept=build-fuzz/kept/$1 input
  "build-fuzz/fuzz_$name" -merge=1 -use_counters=0 "$kept" "build-fuzz/corpus/$name" >>"build-fuzz/$name.log" 2>&1
  for input in "build-fuzz/$name"-{crash,leak,oom,timeout}-*; do
    if [[ -f $input ]]; then mv "$input" "$kept/${input##*-}"; fi
  done
  (LC_ALL=C && cd "$kept" && tar --format=ustar --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=644 -cf "$ROOT/tests/fuzz/corpus/$name.tar" -- *)
}

# Runs each fuzzer for some seconds; with 0 only over the inputs that are kept, which gives the same on every machine. They lie in
# tests/fuzz/corpus/, an archive a fuzzer, and are unpacked in build-fuzz/kept/; new ones gather in build-fuzz/corpus/.
verb_fuzz() {
  local seconds=60 keep="" archive name kept found log length
  while (($#)); do
    case $1 in
      --keep) keep=1 ;;
      *[!0-9]* | "") die "fuzz knows a number of seconds and --keep, not '$1'" ;;
      *) seconds=$1 ;;
    esac
    shift
  done
  length=-max_total_time=$seconds
  ((seconds > 0)) || length=-runs=0
  need_packages fuzz
  need_build_tools
  configure fuzz build-fuzz
  cmake --build build-fuzz -j "$(build_jobs)" --target fuzz
  for archive in tests/fuzz/corpus/*.tar; do
    name=$(basename "$archive" .tar)
    kept=build-fuzz/kept/$name found=build-fuzz/corpus/$name log=build-fuzz/$name.log
    rm -rf "$kept"
    mkdir -p "$kept" "$found"
    tar -xf "$archive" -C "$kept"
    LSAN_OPTIONS=suppressions=tests/fuzz/leaks.txt:print_suppressions=0 \
      "build-fuzz/fuzz_$name" "$length" -timeout=10 -rss_limit_mb=2048 -max_len=4096 -print_final_stats=1 \
      -artifact_prefix="build-fuzz/$name-" "$found" "$kept" >"$log" 2>&1 || {
      tail -n 40 "$log"
      die "the reader of $name broke a promise; the input is build-fuzz/$name-*: mend the reader, then ./dev fuzz 0 --keep adds the input to $archive"
    }
    say "$name: $(awk '/number_of_executed_units/ {print $2}' "$log") inputs in $seconds s, no promise broken (build-fuzz/$name.log)"
    if [[ -n $keep ]]; then keep_inputs "$name"; fi
  done
}
