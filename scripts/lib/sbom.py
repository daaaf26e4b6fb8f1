# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""The bill of materials of a package (CycloneDX 1.6, JSON): each part that is linked into its files or lies beside them, with version and licence.

    text = made("0.1.0", tree)

The parts are those of licences.py, which tests hold to the command that links gpumemshim. The same parts give the same bytes: no time is in it, and its serial number is made
of its content.
"""

import hashlib
import json
import pathlib
import uuid

import licences
import release

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAME = "gpumemshim.cdx.json"
SPACE = uuid.UUID("8b6e9d6a-6c0e-4a53-9a4e-0f6f0d6c2f51")  # of our serial numbers; any will do


def licence(name):
    """As CycloneDX has it: an identifier of SPDX, an expression, or a name."""
    if name.startswith("LicenseRef-"):
        return [{"license": {"name": name.removeprefix("LicenseRef-").replace("-", " ").lower()}}]
    return [{"expression": name}] if " " in name else [{"license": {"id": name}}]


def of_debian(package, about, spdx):
    version = licences.version_of(package)
    part = {"type": "library", "bom-ref": package, "name": package, "version": version, "description": about, "licenses": licence(spdx)}
    if version:
        part["purl"] = f"pkg:deb/debian/{package.replace('+', '%2B')}@{version.replace('+', '%2B').replace(':', '%3A')}?arch=amd64"
    return part


def of_duckdb(tree):
    name, version = (ROOT / "scripts/requirements/duckdb.txt").read_text().splitlines()[-1].split()[:2]
    part = {"type": "library", "bom-ref": "duckdb", "name": "duckdb", "version": version, "description": licences.DUCKDB[0], "licenses": licence(licences.DUCKDB[1]),
            "purl": f"pkg:npm/{name.replace('@', '%40')}@{version}"}
    library = tree / "lib/gpumemshim/libduckdb.so"
    if library.is_file():
        part["hashes"] = [{"alg": "SHA-256", "content": hashlib.sha256(library.read_bytes()).hexdigest()}]
    return part


def made(version, tree):
    us = {"type": "application", "bom-ref": "gpumemshim", "name": "gpumemshim", "version": version, "licenses": licence(licences.OURS)}
    if release.PUBLISHED:
        us["purl"] = f"pkg:pypi/gpumemshim@{version}"
    parts = [of_debian(package, *facts) for package, facts in sorted(licences.PARTS.items())] + [of_duckdb(tree)]
    bill = {"$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json", "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "metadata": {"component": us},
            "components": parts, "dependencies": [{"ref": "gpumemshim", "dependsOn": [part["bom-ref"] for part in parts]}]}
    bill["serialNumber"] = uuid.uuid5(SPACE, json.dumps(bill, sort_keys=True)).urn
    return json.dumps(bill, indent=1) + "\n"
