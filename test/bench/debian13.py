# SPDX-License-Identifier: Apache-2.0
"""The programs of Debian 13 that `peers` unpacked, beside those of this machine's own Debian.

They are run by the loader and with the libraries of their folder: no chroot, no root rights."""

import functools
import glob
import os
import subprocess

from build import HERE


def ask_peers(*flags):
    """The folder and None, or None and why there is none."""
    done = subprocess.run([os.path.join(HERE, "peers"), *flags], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=1200, check=False)
    if done.returncode == 0:
        return done.stdout.strip(), None
    reason = (done.stderr.strip().splitlines() or [f"peers ended with {done.returncode}"])[-1]
    return None, reason.removeprefix("peers: ")


@functools.cache
def folder():
    """As `ask_peers`, of what is there already."""
    return ask_peers("-n")


def make():
    """Makes the folder if it can be made; why not, or None."""
    reason = ask_peers()[1]
    folder.cache_clear()
    return reason


def program(name):
    """Its path, or None."""
    root = folder()[0]
    found = [os.path.join(root, where, name) for where in ("usr/sbin", "usr/bin")] if root else []
    return next((path for path in found if os.access(path, os.X_OK)), None)


def command(binary):
    """What stands before the arguments of a program of the folder."""
    root = folder()[0]
    loader = glob.glob(f"{root}/usr/lib*/ld-linux-*.so.*")[0]
    libraries = glob.glob(f"{root}/usr/lib/*-linux-gnu")[0]
    return [loader, "--library-path", libraries, "--argv0", os.path.basename(binary), binary]
