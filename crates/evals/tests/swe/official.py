"""Makes hard logs out of real ones, and prints what the `swebench` package says of each: one JSON object a line.

Standard input has the real ones, as in specs/swe/logs.jsonl.gz. The first argument is how many to make.
"""

import importlib.abc
import importlib.machinery
import json
import os
import random
import sys
import tempfile
import types
from unittest import mock

# What the package imports on its way to the parsers, and they do not need.
NOT_NEEDED = {"docker", "datasets", "dotenv", "modal", "tqdm", "bs4", "ghapi", "git", "requests", "unidiff", "rich", "yaml", "tenacity", "swerex"}


class Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in NOT_NEEDED:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = mock.MagicMock(name=spec.name)
        module.__spec__ = spec
        module.__path__ = []
        return module

    def exec_module(self, module):
        pass


sys.meta_path.append(Absent())
from swebench.harness.grading import get_eval_report, get_logs_eval  # noqa: E402
from swebench.harness.log_parsers import PARSER_REGISTRY  # noqa: E402

PYTHON = ["pytest", "pytest_options", "pytest_v2", "matplotlib", "seaborn", "django", "sympy"]
WORDS = ["FAILED", "PASSED", "SKIPPED", "ERROR", "XFAIL", "XPASS", "ok", "OK", "E", "F", "FAIL:", "ERROR:", "FAIL", "..."]
PIECES = [
    " - ", " ... ", " ... ok", " ... OK", " ...  OK", " ... skipped 'why'", " ... FAIL", " ... ERROR", "ok", "\x1b[31m", "[0m",
    "[1", "[1m[32m", "\t", "\x1c", "\x0b", "\u00a0", "\u3000", "\r", "\r\n", "[100%]", "[2]", "[/a/b.py]", "[//a/b]", "[/a/*]", "[a[b]",
    "]", "[", "::", "test_é[ü ö]", "MouseButton.LEFT", "MouseButton.RIGHT", "____ a/b.py:test_c ____", " E", " F", " ok",
    "--version is equivalent to version", "Applying sites.0002_alter_domain_unique...test_no_migrations (x.Y) ... ok",
    "test_a (b.C) ... Testing against Django installed in '/x' with 2 processes\nFound 3 (0 silenced).\nok",
    "test_a (b.C) ... Internal Server Error: /view/\nok", "test_d (e.F) ... System check identified no issues (0 silenced)\nok",
    ">>>>> Test Exit Code: 1", ">>>>> Test Exit Code: 0", ">>>>> Start Test Output", ">>>>> End Test Output", "\n",
]
# Seldom, for they end the reading.
SPOILERS = [">>>>> Patch Apply Failed", ">>>>> Tests Timed Out", "ModuleNotFoundError", "\nKilled\n", "collected 0 items", "3 passing"]


def harder(chance, log):
    lines = log.split("\n")
    kept = []
    for line in lines:
        roll = chance.random()
        if roll < 0.25:
            words = line.split(" ")
            chance.shuffle(words)
            line = " ".join(words)
        elif roll < 0.5:
            at = chance.randrange(len(line) + 1)
            line = line[:at] + chance.choice(PIECES) + line[at:]
        elif roll < 0.6:
            line = chance.choice(WORDS) + chance.choice(["", " ", "  ", "\t"]) + line
        elif roll < 0.7:
            line = line + chance.choice(["", " "]) + chance.choice(WORDS)
        elif roll < 0.72:
            line = line[: chance.randrange(len(line) + 1)]
        kept.append(line)
    if chance.random() < 0.1:
        kept.insert(chance.randrange(len(kept)), chance.choice(SPOILERS))
    return "\n".join(kept)


def main():
    chance = random.Random(7)
    real = [json.loads(line) for line in sys.stdin]
    path = os.path.join(tempfile.mkdtemp(), "test_output.txt")
    for _ in range(int(sys.argv[1])):
        one = chance.choice(real)
        lines = one["log"].split("\n")
        at = next((n for n, line in enumerate(lines) if "Start Test Output" in line), 0)
        # The beginning, a piece of the middle, and the end: enough, and quick.
        middle = at + chance.randrange(max(1, len(lines) - at))
        cut = lines[at : at + 3] + lines[middle : middle + 40] + lines[-40:]
        log = harder(chance, "\n".join(cut))
        row = dict(one["instance"], log_parser="parse_log_" + chance.choice(PYTHON))
        spec = types.SimpleNamespace(**row, image="")
        try:
            named = list(PARSER_REGISTRY[row["log_parser"]](log.replace("\r\n", "\n").replace("\r", "\n"), spec))
            with open(path, "w", newline="") as file:
                file.write(log)
            statuses, found = get_logs_eval(spec, path)
        except IndexError:
            # `FAIL:` and nothing more ends the official reader.
            continue
        # Ids that are there, and some that were cut within their brackets.
        spec.FAIL_TO_PASS = row["FAIL_TO_PASS"] = chance.sample(named, min(len(named), 4)) + ["absent"]
        cuts = [test[: test.index("[") + 2] for test in named if "[" in test]
        spec.PASS_TO_PASS = row["PASS_TO_PASS"] = chance.sample(named, min(len(named), 6)) + cuts[:3]
        spec.eval_type = row["eval_type"] = chance.choice(["pass_and_fail", "pass_and_fail", "fail_only"])
        prediction = {"instance_id": row["instance_id"], "model_patch": "x", "model_name_or_path": "m"}
        report = get_eval_report(spec, prediction, path, True)
        print(json.dumps({"instance": row, "case": "hard", "log": log, "statuses": statuses if found else None, "report": report}))


main()
