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


def add_baseline_argument(parser):
    parser.add_argument("--baseline", metavar="PATH",
                        help="another build of localproxy to measure: before a change, say")


def localproxy_path(arguments):
    return os.path.abspath(arguments.localproxy
                           or os.path.join(arguments.build, "localproxy/localproxy"))


def make_proxy(kind, arguments):
    """Of one of proxies.PROXIES; None for a baseline that is not asked for."""
    if kind.name == "baseline":
        return kind(os.path.abspath(arguments.baseline)) if arguments.baseline else None
    return kind(localproxy_path(arguments)) if kind.ours else kind()


def tools_path(arguments):
    """The folder of the load tools, seen to be built."""
    folder = os.path.join(os.path.abspath(arguments.build), "test/bench")
    for tool in ("watch_source", "watch_load", "informer_load", "request_load", "tunnel_load",
                 "echo_source"):
        if not os.access(os.path.join(folder, tool), os.X_OK):
            raise BenchError(f"{folder}/{tool} is missing; run: cmake --preset release && "
                             "cmake --build --preset release")
    return folder
