# SPDX-License-Identifier: Apache-2.0
"""What is wrong in a ShardingConfig is refused with file, line and field by `manager compile`; and
by an API server too, by the schema or, in the same words, by the webhook.
"""

import json
import re
import subprocess
import unittest

import harness
import inputs
import mesh
import webhook_case


def compiled(path, *args):
    """Exit code, documents, and lines of messages without the name of the file."""
    command = [harness.program("manager"), "compile", "-f", path, *args]
    result = subprocess.run(
        command,
        capture_output=True,
        check=False,
        encoding="utf-8",
        errors="replace",
        env=harness.clean_environment(),
        timeout=60,
    )
    messages = [line.removeprefix(f"{path}:") for line in result.stderr.splitlines()]
    return result.returncode, result.stdout, messages


def answer(messages):
    """What is wrong; notes and warnings are left out."""
    wrong = [m for m in messages if " note: " not in m and " warning: " not in m]
    return wrong[0] if wrong else ""


class CompileTest(harness.TestCase):
    """Without an API server."""

    def compile(self, text):
        content = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
        return compiled(self.path("in.yaml", content))

    def test_table(self):
        for place, new, wanted, _ in inputs.TABLE:
            with self.subTest(place=place, new=new):
                code, out, messages = self.compile(inputs.text_of(place, new))
                self.assertEqual(1 if wanted else 0, code, messages)
                self.assertEqual(wanted, answer(messages)[: len(wanted)], messages)
                self.assertEqual(bool(wanted), out == "", "rules or an error, never both")

    def test_encodings(self):
        """The same document, as editors and other systems write it."""
        text = inputs.DOCUMENT
        _, rules, _ = self.compile(text)
        for same in (
            "\ufeff" + text,
            text.replace("\n", "\r\n"),
            text.encode("utf-16"),
            text + "...\n",
            "%YAML 1.1\n---\n" + text,
            "---\n" + text + "---\n# nothing more\n",
            text.replace("values:\n        - ns-a\n        - ns-b", 'values: ["ns-b", ns-a]'),
            text.replace("- ns-a", "- &a ns-a").replace("- ns-b", "- *a\n        - ns-b"),
        ):
            code, out, messages = self.compile(same)
            self.assertEqual((0, rules, ""), (code, out, answer(messages)), same)

    def test_what_is_no_document(self):
        for text, wanted in (
            ("", " contains no document"),
            ("# nothing\n", " contains no document"),
            (b"\0", "1: byte 0: control characters are not allowed"),
            (inputs.DOCUMENT.encode().replace(b"foo", b"f\xffo"), "27: byte 535: invalid leading"),
            (inputs.DOCUMENT.encode("utf-16-be"), "1: byte 0: control characters are not allowed"),
            ('{"kind":', "2: column 1: did not find expected node content"),
            ("%YAML 2.0\n---\n", "1: column 1: found incompatible YAML document"),
            (inputs.DOCUMENT + "---\n[\n", "36: column 1: did not find expected node content"),
        ):
            code, _, messages = self.compile(text)
            self.assertEqual(1, code)
            self.assertEqual(wanted, messages[0][: len(wanted)], messages)

    def test_several_documents(self):
        second = inputs.DOCUMENT.replace("sharding-demo", "other").replace("demo-0", "demo-1")
        both = inputs.DOCUMENT + "---\n" + second
        code, out, _ = self.compile(both)
        self.assertEqual((0, 2), (code, out.count("ShardRules")))
        for text, wanted in (
            (both.replace("demo-1", "demo-0"), "29: spec.selector: Invalid value: selects pods"),
            (inputs.DOCUMENT + "---\n" + inputs.DOCUMENT, "38: metadata.name: Duplicate value"),
            (both.replace("other", "Other"), '38: metadata.name: Invalid value: "Other"'),
        ):
            code, _, messages = self.compile(text)
            self.assertEqual((1, wanted), (code, answer(messages)[: len(wanted)]), messages)

    def test_what_is_too_large(self):
        """Refused soon, and in little memory."""
        head, values = inputs.DOCUMENT.split("        - ns-a\n")
        laughs = "a0: &a0 [x, x]\n" + "".join(
            f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 9)
        )
        limit = "[{apiGroups: [a], resources: [b]}], selector: {matchLabels: {a: b}}"
        many = "".join(f"  - {{relateResources: {limit}}}\n" for _ in range(10001))
        for text, wanted in (
            (inputs.text_of("limits", "\n" + many), "13: spec.limits: Too many: must have at m"),
            (
                head + "".join(f"        - v{i}\n" for i in range(65537)) + values,
                "21: spec.limits[0].selector.matchExpressions[0]: the selector is too large",
            ),
            (inputs.text_of("label value", "[" * 100 + "]" * 100), "27: column 72: nested too"),
            (laughs, "6: column "),
        ):
            code, _, messages = self.compile(text)
            self.assertEqual((1, wanted), (code, answer(messages)[: len(wanted)]), messages)


@unittest.skipIf(harness.is_sanitized(harness.program("manager")), "a sanitizer takes terabytes")
class WithoutMemoryTest(harness.TestCase):
    """Where exit code 1 has a meaning of its own it is another one."""

    def test_exit_codes(self):
        path = self.path("in.yaml", "---\n".join([inputs.DOCUMENT] * 300))
        for code, args in (
            (1, ["compile", "-f", path]),
            (2, ["compile", "-f", path, "--diff", path]),
            (2, ["coverage", "-f", path, "--namespaces", path]),
        ):
            result = subprocess.run(
                ["prlimit", f"--data={2 << 20}", harness.program("manager"), *args],
                capture_output=True,
                check=False,
                encoding="utf-8",
                env=harness.clean_environment(),
                timeout=60,
            )
            self.assertEqual((code, ""), (result.returncode, result.stdout), args)
            self.assertIn("out of memory", result.stderr)


class CoverageTest(harness.TestCase):
    """`manager coverage`, without an API server."""

    def coverage(self, configs, names, *args):
        command = [harness.program("manager"), "coverage", "-f", self.path("in.yaml", configs)]
        result = subprocess.run(
            [*command, "--namespaces=-", *args],
            capture_output=True,
            check=False,
            encoding="utf-8",
            env=harness.clean_environment(),
            input=names,
            timeout=60,
        )
        return result.returncode, result.stdout, result.stderr

    def shards(self, second):
        other = inputs.DOCUMENT.replace("sharding-demo", "other").replace("demo-0", "demo-1")
        return inputs.DOCUMENT + "---\n" + other.replace("- ns-a\n        - ns-b", second)

    def test_exit_codes_and_names(self):
        names = "namespace/ns-a\nnamespace/ns-b\nnamespace/kube-system\nnamespace/cmesh-system\n"
        complete = self.shards("- ns-c")
        code, out, err = self.coverage(complete, names)
        self.assertEqual(0, code)
        self.assertEqual(
            [], [x for x in err.splitlines() if ": warning: spec.webhook: has no effect" not in x]
        )
        self.assertRegex(out, r"operator-demo/operator-leader +2 +2 +0 +0\n$")
        code, out, _ = self.coverage(complete, names + "namespace/new\n")
        self.assertEqual(1, code)
        self.assertIn("  in no shard: new\n", out)
        code, out, _ = self.coverage(self.shards("- ns-b"), names)
        self.assertEqual(1, code)
        self.assertIn("  in several shards: ns-b (other, sharding-demo)\n", out)
        code, out, _ = self.coverage(complete, names, "--manager-namespace=x", "-o", "json")
        self.assertEqual(1, code)
        self.assertEqual(["cmesh-system"], json.loads(out)["operators"][0]["gaps"])
        code, out, _ = self.coverage(complete, names, "--label-system-namespaces", "-o", "json")
        self.assertEqual((1, 2), (code, len(json.loads(out)["operators"][0]["gaps"])))

    def test_trouble(self):
        for configs, names, words in (
            (self.shards("- ns-c"), "", "standard input: contains no namespace"),
            (self.shards("- ns-c"), "NAME STATUS\n", "standard input: line 1 is no name"),
            (inputs.DOCUMENT.replace("In", "Inn"), "a\n", ":31: spec.selector"),
            ("kind: Pod\n", "a\n", "there is no ShardingConfig in the input"),
        ):
            code, out, err = self.coverage(configs, names)
            self.assertEqual((2, ""), (code, out))
            self.assertIn(words, err)

    def test_a_warning_is_trouble_if_that_is_wanted(self):
        names = "ns-a\nns-b\nns-c\n"
        code, _, err = self.coverage(self.shards("- ns-c"), names)
        self.assertEqual(0, code)
        self.assertIn(": warning: spec.webhook: has no effect", err)
        code, out, err = self.coverage(self.shards("- ns-c"), names, "--strict")
        self.assertEqual((2, ""), (code, out))
        self.assertIn("manager: with --strict a warning is an error", err)

    def test_an_operator_that_is_not_by_namespace(self):
        text = inputs.DOCUMENT.replace("ctrlmesh.kusionstack.io/namespace", "team")
        code, out, _ = self.coverage(text, "a\n")
        self.assertEqual(0, code)
        self.assertRegex(out, r"operator-leader +1 +- +- +-\n$")


class ApiServerTest(webhook_case.WebhookCase):
    """The same table, with kubectl where it is kubectl that refuses something or drops it: elsewhere
    the API server gets the same text."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.namespace_name = None

    def try_text(self, text, by_kubectl):
        """Whether it is taken, what becomes of it, and messages. kubectl does not validate, so that
        the API server has to."""
        home = f"namespace: {self.namespace_name}"
        text = text.replace("namespace: operator-demo", home)
        path = self.path("in.yaml", text)
        if by_kubectl:
            args = ("create", "--dry-run=server", "--validate=false", "-o", "json", "-f", path)
            code, out, err = self.kubectl.run(*args)
            return path, (code == 0, out, err)
        configs = f"{mesh.API}/namespaces/{self.namespace_name}/shardingconfigs"
        answer = self.api.ask("POST", configs + "?dryRun=All", text.encode(), "application/yaml")
        return path, (answer.status == 201, json.dumps(answer.thing), answer.said)

    def means_the_same(self, path, out):
        """What the API server would store means what the file says."""
        _, wanted, _ = compiled(path)
        _, found, _ = compiled(self.path("stored.json", out))
        return wanted != "" and wanted == found

    def verdict(self, text, by_kubectl):
        path, (taken, out, err) = self.try_text(text, by_kubectl)
        if taken:
            return inputs.TAKEN if self.means_the_same(path, out) else inputs.LOST, err
        if "denied the request" in err:
            return inputs.WEBHOOK, err
        return inputs.SCHEMA if " is invalid: " in err else inputs.CLIENT, err

    def test_table(self):
        type(self).namespace_name = self.namespace()
        for place, new, wrong, wanted in inputs.TABLE:
            with self.subTest(place=place, new=new):
                wanted = wanted if isinstance(wanted, tuple) else (wanted,)
                by_kubectl = {inputs.CLIENT, inputs.LOST}.intersection(wanted)
                found, err = self.verdict(inputs.text_of(place, new), by_kubectl)
                self.assertIn(found, wanted, err)
                if (place, new) not in inputs.SAID_OTHERWISE:
                    self.check_words(wrong, found, err)

    def check_words(self, wrong, found, err):
        """`wrong` begins with the line, which the API server does not know."""
        said = wrong.partition(": ")[2]
        # Which element of a list is at fault, only later API servers tell.
        field = re.sub(r"\[[^]]*\]", "", said.partition(": ")[0])
        if found == inputs.WEBHOOK:
            self.assertIn(said, err)
        elif found == inputs.SCHEMA and " " not in field:
            self.assertIn(field.rpartition(".")[0] or field, re.sub(r"\[\d+\]", "", err))


if __name__ == "__main__":
    harness.main()
