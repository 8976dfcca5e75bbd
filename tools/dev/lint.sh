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

verb_lint() {
  local tidy=${1:-} file failed=0
  [[ -z $tidy || $tidy == --tidy ]] || die "lint knows --tidy, not '$tidy'"
  need_packages lint
  say "rooms";   python3 tools/check_rooms.py || failed=1
  say "the checks' own tests"; python3 -m unittest discover -q -s tools -p 'test_*.py' || failed=1
  say "sizes, headers, Python syntax"; python3 tools/check_style.py || failed=1
  say "errors have rows in docs/errors.md"; python3 tools/check_errors.py || failed=1
  say "format";  check_format || failed=1
  say "names in Python scripts"; find src tools tests benchmarks examples recipes -name '*.py' -exec pyflakes3 {} + || failed=1
  say "shell scripts"
  while read -r file; do bash -n "$file" || failed=1; done < <(echo dev; echo .ci/run; find tools tests benchmarks examples recipes -name '*.sh' 2>/dev/null)
  if [[ $tidy == --tidy ]]; then
    need_packages tidy
    need_build_tools
    configure release build
    say "clang-tidy"
    cpp_files | grep '^src/.*\.cpp$' | xargs -P "$(nproc)" -n 4 clang-tidy-14 -p build --quiet || failed=1
  fi
  ((failed == 0)) || die "lint found something to mend"
  say "lint is clean"
}

verb_format() {
  need_packages lint
  cpp_files | xargs -P "$(nproc)" -n 16 clang-format-14 -i
}
