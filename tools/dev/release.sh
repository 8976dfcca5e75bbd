# ./dev release: everything that a release consists of, in dist/. Sourced by ./dev.

# The section of a version in CHANGELOG.md, without its title.
changes_of() { awk -v title="## $1" '$0 == title {found = 1; next} /^## / {found = 0} found' CHANGELOG.md; }

# Files for the public forge are held against the forge's own schema, and the container file against its linter's rules.
check_release_files() {
  need_python_folder release tools/requirements-release.txt "check-jsonschema, hadolint and CycloneDX's schema, about 30 MB to download"
  PYTHONPATH=$DEPS/release python3 -m check_jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml ||
    die "a workflow is not as the forge reads it, see above"
  # Versions of Debian's packages are those of the release that is named.
  "$DEPS/release/bin/hadolint" --ignore DL3008 --ignore DL3042 packaging/container/Containerfile || die "the container file has something to mend, see above"
}

verb_release() {
  local version tag dry=""
  [[ -z ${1:-} || $1 == --dry-run ]] || die "release takes --dry-run and nothing else"
  dry=${1:-}
  version=$(version_of_project)
  tag=v$version
  [[ -n $(changes_of "$version") ]] || die "CHANGELOG.md has no section '## $version'; say there what users will notice"
  git diff --quiet HEAD -- || die "there are changes that are not committed; a release is of a commit"
  if [[ -z $dry && $(git describe --exact-match --tags 2>/dev/null) != "$tag" ]]; then
    die "a release is made at the tag $tag (git tag $tag); --dry-run makes everything without"
  fi
  # Whoever has a GPU installs the wheel too.
  [[ -n $dry ]] || packs_cuda || die "a release holds programs for GPUs, and no nvcc is on PATH; install the CUDA toolkit 13.0"
  check_release_files
  verb_package --check
  verb_package --arm64
  say "source"
  git archive --format=tar.gz --prefix="burnish-$version/" -o "dist/burnish-$version.tar.gz" HEAD
  changes_of "$version" >dist/NOTES.md
  say "bill of materials"
  python3 tools/sbom.py dist/burnish-*_x86_64.whl "dist/burnish-$version.cdx.json"
  PYTHONPATH=$DEPS/release python3 -c '
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(open(sys.argv[1]).read())
sys.exit(f"the bill of materials is no CycloneDX 1.6: {wrong}" if wrong else 0)' "dist/burnish-$version.cdx.json"
  (cd dist && sha256sum -- * >SHA256SUMS && sha256sum --quiet -c SHA256SUMS)
  check_release
  ls -l dist | awk 'NR > 1 {print "[dev] dist/" $NF ", " int(($5 + 1023) / 1024) " KiB"}'
  say "the release of $tag is in dist/${dry:+ (a rehearsal: nothing is tagged or published)}"
}

# The source alone, in a new folder, is whole: it configures. The wheel that was checked says the commit that is released.
check_release() {
  local work said
  work=$(mktemp -d)
  tar -xzf dist/burnish-*.tar.gz -C "$work"
  (cd "$work"/burnish-* && python3 tools/check_rooms.py) || die "the source that is released is not whole"
  cmake -S "$work"/burnish-* -B "$work/build" -G Ninja "-DBURNISH_TORCH=$TORCH" "-DBURNISH_ARROW=$DEPS/arrow/pyarrow" --log-level=ERROR >/dev/null ||
    die "the source that is released does not configure"
  said=$(build/burnish --version)
  [[ $said == *"$(git rev-parse --short=12 HEAD))" ]] || die "the program says '$said', which is another commit than the one that is released"
  rm -rf "$work"
}
