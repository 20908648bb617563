# SPDX-License-Identifier: Apache-2.0
"""A file tree in memory: what goes into an image, and nothing of the machine it was made on.

Everything belongs to root and bears one time; only modes that matter are kept.
"""

import gzip
import io
import os
import tarfile

DIRECTORY, FILE, LINK = tarfile.DIRTYPE, tarfile.REGTYPE, tarfile.SYMTYPE


class Tree:
    """Paths are absolute, without `..`; the parents of what is added come by themselves."""

    def __init__(self, epoch=0):
        self.epoch = epoch
        self.entries = {}  # path without the first "/" -> (kind, mode, content or target)

    def __contains__(self, path):
        return path.strip("/") in self.entries

    def _put(self, path, entry):
        path = path.strip("/")
        known = self.entries.setdefault(path, entry)
        if known != entry:
            raise ValueError(f"/{path} is there twice and differs")
        parent = os.path.dirname(path)
        if parent and parent not in self.entries:
            self.directory(parent)

    def directory(self, path, mode=0o755):
        self._put(path, (DIRECTORY, mode, b""))

    def file(self, path, content, mode=0o644):
        self._put(path, (FILE, mode, content.encode() if isinstance(content, str) else content))

    def copy(self, source, path, mode=0o644):
        with open(source, "rb") as f:
            self.file(path, f.read(), mode)

    def link(self, path, target):
        self._put(path, (LINK, 0o777, target.encode()))

    def without(self, other):
        """What this tree has and the other has not."""
        rest = Tree(self.epoch)
        rest.entries = {path: e for path, e in self.entries.items() if path not in other.entries}
        return rest

    def contents(self):
        """path without the first "/" -> bytes, of files alone."""
        return {path: content for path, (kind, _, content) in self.entries.items() if kind == FILE}

    def size(self):
        return sum(len(content) for kind, _, content in self.entries.values() if kind == FILE)

    def tar(self):
        """The same bytes for the same tree, whoever asks, whenever."""
        output = io.BytesIO()
        with tarfile.open(fileobj=output, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for path, (kind, mode, content) in sorted(self.entries.items()):
                info = tarfile.TarInfo(path)
                info.type, info.mode, info.mtime = kind, mode, self.epoch
                if kind == LINK:
                    info.linkname = content.decode()
                    archive.addfile(info)
                else:
                    info.size = len(content)
                    archive.addfile(info, io.BytesIO(content))
        return output.getvalue()

    def write(self, folder):
        """Onto disk, below an empty or new folder."""
        os.makedirs(folder, exist_ok=True)
        if os.listdir(folder):
            raise ValueError(f"{folder} is not empty")
        for path, (kind, mode, content) in sorted(self.entries.items()):
            full = os.path.join(folder, path)
            if kind == LINK:
                os.symlink(content.decode(), full)
                continue
            if kind == DIRECTORY:
                os.mkdir(full)
            else:
                with open(full, "wb") as f:
                    f.write(content)
            os.chmod(full, mode)


def compress(data):
    """gzip without name and time in it."""
    return gzip.compress(data, compresslevel=9, mtime=0)
