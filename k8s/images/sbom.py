# SPDX-License-Identifier: Apache-2.0
"""The software bill of materials of an image: SPDX 2.3 in JSON (https://spdx.github.io/spdx-spec)."""

import datetime
import hashlib
import json
import re

PATH = "/usr/share/doc/cmesh/sbom.spdx.json"  # of the document in the image


def identifier(name):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)


def own_package(name, version, purpose):
    return {
        "SPDXID": identifier(name),
        "name": name,
        "versionInfo": version,
        "primaryPackagePurpose": purpose,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "Apache-2.0",
        "licenseDeclared": "Apache-2.0",
        "copyrightText": "NOASSERTION",
    }


def debian_package(package, release):
    source = f"pkg:deb/debian/{package.name}@{package.version.replace('+', '%2B')}"
    return {
        "SPDXID": identifier("deb-" + package.name),
        "name": package.name,
        "versionInfo": package.version,
        "supplier": f"Organization: Debian ({package.fields['Maintainer']})",
        "sourceInfo": f"built from the source package {package.source} {package.source_version}",
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "NOASSERTION",
        "copyrightText": "NOASSERTION",
        "comment": f"licences: /usr/share/doc/{package.name}/copyright in the image",
        "externalRefs": [
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": f"{source}?arch={package.architecture}&distro={release}",
            }
        ],
    }


def file_identifier(path):
    """One of its own: Etc/GMT+1 and Etc/GMT-1 are two files."""
    return identifier("file-" + re.sub(r"[^A-Za-z0-9./-]", lambda m: f".{ord(m[0]):02X}", path))


def file_item(path, content):
    return {
        "SPDXID": file_identifier(path),
        "fileName": "./" + path,
        "checksums": [
            {"algorithm": "SHA1", "checksumValue": hashlib.sha1(content).hexdigest()},
            {"algorithm": "SHA256", "checksumValue": hashlib.sha256(content).hexdigest()},
        ],
        "licenseConcluded": "NOASSERTION",
        "copyrightText": "NOASSERTION",
    }


def verification_code(files):
    """SPDX 2.3, 7.9: of the SHA-1s of all files but the document itself."""
    sums = sorted(item["checksums"][0]["checksumValue"] for item in files)
    return {
        "packageVerificationCodeValue": hashlib.sha1("".join(sums).encode()).hexdigest(),
        "packageVerificationCodeExcludedFiles": ["." + PATH],
    }


def relation(one, kind, other):
    return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}


def document(image, version, programs, packages, contents, release, epoch):
    """`packages` of class debian.Package; `contents` the image's other files, path to bytes;
    `release` as in "debian-12". The name of the document follows from its content, so that the same
    image has the same document."""
    whole = own_package(f"image-{image}", version, "CONTAINER")
    files = [file_item(path, content) for path, content in sorted(contents.items())]
    whole["filesAnalyzed"] = True
    whole["packageVerificationCode"] = verification_code(files)
    items = [whole]
    relations = [relation("SPDXRef-DOCUMENT", "DESCRIBES", whole["SPDXID"])]
    for program in programs:
        item = own_package(program, version, "APPLICATION")
        items.append(item)
        relations.append(relation(whole["SPDXID"], "CONTAINS", item["SPDXID"]))
    for package in packages:
        item = debian_package(package, release)
        items.append(item)
        relations.append(relation(whole["SPDXID"], "CONTAINS", item["SPDXID"]))
        if package.linked:
            relations += [
                relation(identifier(program), "STATIC_LINK", item["SPDXID"]) for program in programs
            ]
    relations += [relation(whole["SPDXID"], "CONTAINS", item["SPDXID"]) for item in files]
    created = datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc)
    digest = hashlib.sha256(json.dumps([items, files, relations], sort_keys=True).encode()).hexdigest()
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"cmesh-{image}-{version}",
        "documentNamespace": f"urn:cmesh:sbom:{image}:{version}:{digest}",
        "creationInfo": {
            "created": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "creators": ["Tool: cmesh k8s/images/build"],
        },
        "packages": items,
        "files": files,
        "relationships": relations,
    }
