#!/usr/bin/env python3
"""Writes the bill of materials of a wheel: the libraries that it bundles, with the Debian packages that they come from.

usage: sbom.py WHEEL OUTPUT

The format is CycloneDX 1.6 in JSON. A bundled library is named by its file without the hash that auditwheel puts into it; dpkg says the
package and version of the library of that name on this machine, which is the one that was bundled.
"""
import hashlib
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path


def bundled(wheel):
    """(name of a library's file, its bytes) of each library that auditwheel put into the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        for name in sorted(archive.namelist()):
            if "burnish.libs/" in name and ".so" in name:
                yield re.sub(r"-[0-9a-f]{8}(?=\.)", "", Path(name).name, count=1), archive.read(name)


def debian_package(library):
    """(source of the library, version) by dpkg; a problem where no package has it."""
    owners = subprocess.run(["dpkg", "-S", f"*/{library}"], capture_output=True, text=True).stdout
    found = re.match(r"([^:,\s]+)(?::\w+)?(?:,.*)?: ", owners)
    if not found:
        sys.exit(f"no Debian package has {library}, which the wheel bundles: where does it come from?")
    said = subprocess.run(["dpkg-query", "-W", "-f", "${source:Package}\t${source:Version}\n", found[1]], capture_output=True, text=True, check=True)
    return said.stdout.split("\n")[0].split("\t")


def component(library, content):
    name, version = debian_package(library)
    return {
        "type": "library",
        "bom-ref": f"{name}@{version}/{library}",
        "name": name,
        "version": version,
        "purl": f"pkg:deb/debian/{name}@{version}",
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(content).hexdigest()}],
        "properties": [{"name": "burnish:file", "value": library}],
    }


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.split("\n\n")[1])
    wheel, output = map(Path, sys.argv[1:])
    version = wheel.name.split("-")[1]
    components = [component(*library) for library in bundled(wheel)]
    if not components:
        sys.exit(f"{wheel} bundles no library: auditwheel has not seen it")
    torch = {"type": "library", "bom-ref": "torch@2.11.0", "name": "torch", "version": "2.11.0", "purl": "pkg:pypi/torch@2.11.0", "scope": "required"}
    of_wheel = {"type": "application", "bom-ref": "burnish", "name": "burnish", "version": version, "purl": f"pkg:pypi/burnish@{version}",
                "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(wheel.read_bytes()).hexdigest()}]}
    bill = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "metadata": {"component": of_wheel}, "components": [*components, torch],
            "dependencies": [{"ref": "burnish", "dependsOn": [one["bom-ref"] for one in [*components, torch]]}]}
    output.write_text(json.dumps(bill, indent=2) + "\n")
    print(f"{output}: {len(components)} bundled libraries and torch")


if __name__ == "__main__":
    main()
