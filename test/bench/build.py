# SPDX-License-Identifier: Apache-2.0
"""Where the builds are: what the command lines of bench and profile share."""

import os

from lab import BenchError

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def add_build_arguments(parser):
    parser.add_argument("--build", metavar="DIR", default=os.path.join(ROOT, "build/release"),
                        help="the release build with the load tools (default build/release)")
    parser.add_argument("--localproxy", metavar="PATH",
                        help="the program (default localproxy/localproxy in the build)")


def localproxy_path(arguments):
    return os.path.abspath(arguments.localproxy
                           or os.path.join(arguments.build, "localproxy/localproxy"))


def tools_path(arguments):
    """The folder of watch_source and watch_load, seen to be built."""
    folder = os.path.join(os.path.abspath(arguments.build), "test/bench")
    for tool in ("watch_source", "watch_load"):
        if not os.access(os.path.join(folder, tool), os.X_OK):
            raise BenchError(f"{folder}/{tool} is missing; run: cmake --preset release && "
                             "cmake --build --preset release")
    return folder
