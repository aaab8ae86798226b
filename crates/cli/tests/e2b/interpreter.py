"""Code in interpreters that stay."""
import threading

from e2b import InvalidArgumentException, TimeoutException
from e2b_code_interpreter import Sandbox

sandbox = Sandbox.create(timeout=300, envs={"GIVEN": "by the sandbox"})
run = sandbox.run_code

assert run("x = 6; x * 7").text == "42"
assert run("x + 1").text == "7"
done = run("print('a'); import sys; print('b', file=sys.stderr); 'text'")
assert (done.logs.stdout, done.logs.stderr, done.text) == (["a\n"], ["b\n"], "text")
heard = []
run("print(1)", on_stdout=lambda line: heard.append(line.line))
assert heard == ["1\n"]
error = run("1 / 0").error
assert error.name == "ZeroDivisionError" and error.value == "division by zero" and "1 / 0" in error.traceback
assert run("class Ended(Exception): pass\nraise Ended('x' * 100000)").error.value == "x" * 100000
assert "".join(run("!pwd").logs.stdout) == "/home/user\n"
assert run("import os; os.getcwd()").text == "/home/user"
assert run("os.environ['GIVEN']").text == "by the sandbox"
assert run("os.environ['FOR_ONE']", envs={"FOR_ONE": "1"}).text == "1"
assert run("os.environ.get('FOR_ONE', 'gone')").text == "gone"
count = run("1").execution_count
assert run("1").execution_count == count + 1
assert run("    if True:\n        y = 1\n    y").text == "1", "an indented snippet is taken as it was meant"

# In every form.
table = run("import pandas as pd\npd.DataFrame({'a': [1, 2], 'b': [pd.Timestamp('2020-01-01')] * 2})").results[0]
assert table.data == {"a": [1, 2], "b": ["2020-01-01T00:00:00"] * 2} and "<table" in table.html
assert run("{'a': [1, None]}").results[0].json == {"a": [1, None]}
plot = run("import matplotlib.pyplot as plt\nplt.plot([1, 2], [3, 4], label='l')\nplt.xlabel('time (s)')\nplt.show()\n5")
assert len(plot.results) == 2 and plot.text == "5"
figure = plot.results[0]
assert figure.png and figure.chart.type.value == "line" and figure.chart.x_unit == "s", figure.chart
assert [list(point) for point in figure.chart.elements[0].points] == [[1, 3], [2, 4]]
picture = "from PIL import Image\nimage = Image.new('RGB', (4, 4))\n"
for how in ("image.save('p.png')", "image.show()", "image"):
    assert run(picture + how).results[0].png, how

# Contexts do not see each other, and begin anew.
context = sandbox.create_code_context(cwd="/tmp")
assert run("os", context=context).error.name == "NameError"
assert run("import os; z = 1; os.getcwd()", context=context).text == "/tmp"
sandbox.restart_code_context(context)
assert run("z", context=context).error.name == "NameError"
assert run("import os; os.getcwd()", context=context).text == "/tmp"
languages = [one.language for one in sandbox.list_code_contexts()]
assert languages[:2] == ["python", "javascript"], languages
assert sandbox.list_code_contexts()[-1].id == context.id
sandbox.remove_code_context(context)
assert context.id not in [one.id for one in sandbox.list_code_contexts()]
try:
    run("1", language="js", context=context)
    raise SystemExit("a context and a language")
except InvalidArgumentException:
    pass

# Other languages.
assert run("const a = 2; a * 21", language="js").text == "42"
assert run("a + 1", language="javascript").text == "3"
assert run("await Promise.resolve('later')", language="js").text == "later"
typed = "interface Point { x: number }\nconst point: Point = { x: 5 };\npoint.x"
assert run(typed, language="ts").text == "5"
assert run("import { sep } from 'path'; console.log(sep)", language="js").logs.stdout == ["/\n"]
assert run("N=4; cd /tmp; f() { echo \"$N $1\"; }", language="bash").error is None
assert "".join(run("f x; pwd; echo $GIVEN", language="bash").logs.stdout) == "4 x\n/tmp\nby the sandbox\n"
assert "".join(run("echo $FOR_ONE", language="bash", envs={"FOR_ONE": "it's 1"}).logs.stdout) == "it's 1\n"
assert "".join(run("echo ${FOR_ONE:-gone}", language="bash").logs.stdout) == "gone\n"
assert run("false", language="bash").error is not None
assert run("exit 3", language="bash").error is not None
assert "".join(run("echo again", language="bash").logs.stdout) == "again\n"

# Whoever goes away interrupts, and the next finds his variables.
try:
    run("import time; time.sleep(600)", timeout=1)
    raise SystemExit("code without time did not raise")
except TimeoutException:
    pass
assert run("x", timeout=30).text == "6"
assert run("import os; os._exit(3)").error is not None
assert run("'anew'").text == "anew"

threading.Timer(0.5, sandbox.kill).start()
try:
    run("import time; time.sleep(600)")
    raise SystemExit("the sandbox ended and nobody was told")
except TimeoutException as error:
    assert "killed" in str(error), error
print("done")
