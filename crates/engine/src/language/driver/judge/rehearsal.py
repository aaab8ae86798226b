REHEARSED = """
import math
from typing import List

class Pair:
    def __init__(self, left, right):
        self.left, self.right = left, right

def solve(numbers: List[int], scale=1):
    numbers = sorted(number * scale for number in numbers)
    return numbers, {"most": max(numbers)}, f"{len(numbers)}"
"""
TEST = """
def check(candidate):
    assert candidate([3, 1, 2]) == ([1, 2, 3], {"most": 3}, "3")
    assert candidate([0.5], scale=2)[0] == [1.0] and math.floor(1.5) == 1
    try:
        candidate(None)
        assert False
    except TypeError:
        pass
"""


def rehearse():
    """A test as it will be, in this process alone: its workers find code that is adapted and pages that are shared.

    The one who asks is the one who answers, through a pipe."""
    kept = {name: sys.modules.get(name) for name in ("__main__", "solution", "test")}
    argv, first = sys.argv[:], sys.path[0]
    ends = os.pipe()
    channel = Channel(*ends)
    try:
        program = Program("/dev/null", REHEARSED)
        peer = Tester(channel, "<test>")
        channel.write("names", encode(names_of(peer, program)), None)
        names = channel.read()[1]
        names["$entry"] = peer.export(program.entry("solve"))
        test = {"source": TEST, "setup": "", "runner": "auto", "entry": "solve", "module": "", "has_tests": False}
        channel.put(packed(run_test(peer, dict(test, has_check=True, names=names))))
        told = channel.read()
        if told[0] != "passed":
            raise ValueError(f"the rehearsal went wrong: {told}")
        packed(call(program, "solve", [[2, 1]], {}))
        traces()
        # And one whose tests are claims.
        calls = [([[2, 1]], {}), ([[0.5, 2]], {"scale": 2})]
        channel.write(1, 1.0, True, calls)
        judge_cases(channel, program, "solve")
        _, told, _ = channel.read(), channel.read(), channel.read()
        if told[0] != "answers" or len(told[1]) != len(calls):
            raise ValueError(f"the rehearsal went wrong: {told}")
    finally:
        channel.close()
        for end in ends:
            os.close(end)
        sys.argv[:], sys.path[0] = argv, first
        sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder) is not Finder]
        sys.modules.get("linecache").cache.pop("<test>", None)
        for name, module in kept.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module


