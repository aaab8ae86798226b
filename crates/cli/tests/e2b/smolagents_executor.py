"""smolagents with its own executor for E2B, unchanged; a scripted model speaks in place of a real one."""
import sys

# What the agent says goes where nobody takes it for the end.
said, sys.stdout = sys.stdout, sys.stderr

from smolagents import CodeAgent, Model, tool
from smolagents.models import ChatMessage, MessageRole


class Scripted(Model):
    """Says what it was given, one piece a step."""

    def __init__(self, *steps):
        super().__init__(model_id="scripted")
        self.steps = list(steps)

    def generate(self, messages, **options):
        said = f"Thought: go on\n<code>\n{self.steps.pop(0)}\n</code>"
        return ChatMessage(role=MessageRole.ASSISTANT, content=said)


@tool
def doubled(number: int) -> int:
    """Twice a number.

    Args:
        number: Which.
    """
    return 2 * number


model = Scripted(
    "x = doubled(21)\nprint('seen', x)",
    "y = 1 / 0",
    "final_answer({'x': x, 'words': 'ä' * 5000})",
)
agent = CodeAgent(tools=[doubled], model=model, executor_type="e2b", verbosity_level=0)
answer = agent.run("anything", additional_args={"given": [1, 2]})
assert answer == {"x": 42, "words": "ä" * 5000}, answer
steps = [step for step in agent.memory.steps if getattr(step, "code_action", None)]
assert "seen 42" in steps[0].observations, steps[0]
assert "ZeroDivisionError" in str(steps[1].error), steps[1]
sandbox = agent.python_executor.sandbox
assert sandbox.is_running()
agent.cleanup()
assert not sandbox.is_running()
print("done", file=said)
