# Checks that need no build (clang-tidy apart). Sourced by ./dev.

cpp_files() {
  local folder
  for folder in src tests benchmarks examples; do
    find "$folder" -name '*.cpp' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh'
  done | sort
}

# Names the files that clang-format would change.
check_format() {
  local unformatted
  unformatted=$(cpp_files | xargs clang-format-14 --dry-run 2>&1 | sed -n 's/^\([^: ]*\):[0-9]*:[0-9]*: warning: code should be clang-formatted.*/\1/p' | sort | uniq -c)
  [[ -z $unformatted ]] || { printf '%s\n' "$unformatted"; say "these files have places (so many each) that ./dev format rewrites"; return 1; }
}

# Headers that are changed since a commit, or all, each compiled alone.
lint_headers() {
  need_build_tools
  configure release build
  say "headers compile alone"
  # What CMake writes while it builds may be included.
  python3 tools/check_headers.py build ${1:+"$1"} || die "lint found something to mend"
}

# clang-tidy over sources of src/, as single files are compiled: it reads neither joined files nor gcc's precompiled headers. clang 14 has not
# all of C++20 (structured bindings in lambdas, some ranges): what it cannot read of a file is passed over, and such files are counted.
lint_tidy() {
  local folder=build-dev/tidy found
  need_packages tidy
  need_build_tools
  configure dev build-dev
  say "clang-tidy"
  mkdir -p "$folder"
  sed -E 's/ -Winvalid-pch -include [^ ]*cmake_pch[^ ]*//' build-dev/compile_commands.json >"$folder/compile_commands.json"
  cpp_files | grep '^src/.*\.cpp$' | xargs -P "$(nproc)" -n 4 clang-tidy-14 -p "$folder" --quiet >"$folder/found.txt" 2>/dev/null || true
  say "$(grep -c 'clang-diagnostic-error' "$folder/found.txt") places that clang 14 cannot read ($folder/found.txt)"
  found=$(grep -E ' (warning|error): ' "$folder/found.txt" | grep -v clang-diagnostic-error | sort -u)
  [[ -z $found ]] || { printf '%s\n' "$found"; return 1; }
}

verb_lint() {
  local tidy=${1:-} file failed=0
  if [[ $tidy == --headers ]]; then lint_headers "${2:-}"; return; fi
  [[ -z $tidy || $tidy == --tidy ]] || die "lint knows --tidy and --headers [COMMIT], not '$tidy'"
  need_packages lint
  say "rooms";   python3 tools/check_rooms.py || failed=1
  say "the checks' own tests"; python3 -m unittest discover -q -s tools -p 'test_*.py' || failed=1
  say "sizes, headers, Python syntax"; python3 tools/check_style.py || failed=1
  say "comments begin with a subject"; python3 tools/check_comments.py || failed=1
  say "errors have rows in docs/errors.md"; python3 tools/check_errors.py || failed=1
  say "format";  check_format || failed=1
  say "names in Python scripts"; find src tools tests benchmarks examples recipes -name '*.py' -exec pyflakes3 {} + || failed=1
  say "shell scripts"
  while read -r file; do bash -n "$file" || failed=1; done < <(echo dev; echo .ci/run; find tools tests benchmarks examples recipes -name '*.sh' 2>/dev/null)
  if [[ $tidy == --tidy ]]; then lint_tidy || failed=1; fi
  ((failed == 0)) || die "lint found something to mend"
  say "lint is clean"
}

# Lint before every commit of this checkout, for those who want it.
verb_hook() {
  local hook
  hook=$(git rev-parse --git-path hooks/pre-commit)
  [[ ! -e $hook ]] || grep -q 'dev lint' "$hook" || die "$hook is there already: add ./dev lint to it"
  printf '#!/bin/sh\nexec ./dev lint\n' >"$hook"
  chmod +x "$hook"
  say "$hook runs ./dev lint before every commit; remove the file to end that"
}

verb_format() {
  need_packages lint
  cpp_files | xargs -P "$(nproc)" -n 16 clang-format-14 -i
}
