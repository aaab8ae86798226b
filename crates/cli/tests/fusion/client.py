"""SandboxFusion's own client, and requests as verl sends them, against our server: client.py URL.

A claim that does not hold ends it with a traceback.
"""

import asyncio
import base64
import sys
import time

import requests
import sandbox_fusion
from sandbox_fusion import RunCodeRequest, RunJupyterRequest, SubmitRequest, SummaryMapping, TestConfig

URL = sys.argv[1]
sandbox_fusion.set_endpoint(URL)
# Seconds for a compiler: its usual ten are too few while another test starts 32 notebooks on the same two processors.
COMPILER = 100
CODES = SummaryMapping(CompileFailed="CE", CompileTimeout="CT", RunFailed="RE", RunTimeout="TLE")


def run(code, language="python", **fields):
    fields = {"compile_timeout": COMPILER, **fields}
    return sandbox_fusion.run_code(RunCodeRequest(code=code, language=language, **fields), max_attempts=1)


def verl(code, language="python", **fields):
    """As verl's reward function asks; the answer as plain JSON."""
    body = {
        "compile_timeout": COMPILER, "run_timeout": 10, "code": code, "stdin": None, "memory_limit_MB": 1024,
        "language": language, "files": {}, "fetch_files": [], **fields,
    }
    answer = requests.post(f"{URL}/run_code", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()


def summary(result):
    return str(sandbox_fusion.summary_run_code_result(result, CODES))


def programs():
    result = run("print(input())", stdin="x")
    assert (result.status, result.run_result.status) == ("Success", "Finished"), result
    assert (result.run_result.stdout, result.run_result.return_code, result.compile_result) == ("x\n", 0, None), result
    assert result.run_result.execution_time < 10 and result.run_result.cpu_time is not None
    result = run("import sys; print('a'); sys.exit(3)")
    assert (result.status, result.run_result.status, result.run_result.return_code) == ("Failed", "Finished", 3), result
    assert summary(result) == "RE" and result.run_result.stdout == "a\n"
    result = run("1/0")
    assert "ZeroDivisionError" in result.run_result.stderr and summary(result) == "RE", result
    result = run("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    assert result.run_result.return_code == -11, result
    start = time.monotonic()
    result = run("print('begun', flush=True)\nwhile True: pass", run_timeout=0.5)
    assert (result.status, result.run_result.status, result.run_result.return_code) == ("Failed", "TimeLimitExceeded", None)
    assert result.run_result.stdout == "begun\n" and summary(result) == "TLE" and time.monotonic() - start < 5


def verdicts_of_verl():
    """What its reward function reads, of each kind of end."""
    answer = verl("print(1)")
    assert (answer["status"], answer["message"], answer["run_result"]["return_code"]) == ("Success", "", 0), answer
    assert set(answer) >= {"status", "message", "compile_result", "run_result", "executor_pod_name", "files"}
    answer = verl("int main( { }", "cpp")
    assert (answer["status"], answer["run_result"]) == ("Failed", None), answer
    assert answer["compile_result"]["return_code"] != 0 and "error" in answer["compile_result"]["stderr"]
    answer = verl("import time; time.sleep(60)", run_timeout=0.5)
    assert (answer["status"], answer["run_result"]["status"]) == ("Failed", "TimeLimitExceeded"), answer
    # A memory limit is told apart from a crash.
    answer = verl("x = bytearray(1 << 30); print(len(x))", memory_limit_MB=128)
    assert (answer["status"], answer["run_result"]["status"]) == ("Failed", "Finished"), answer
    assert answer["run_result"]["return_code"] not in (0, None), answer
    told = answer["run_result"].get("limit") == "memory" or "MemoryError" in answer["run_result"]["stderr"]
    assert told, answer
    answer = verl("import ctypes\nx = []\nwhile True: x.append(b'x' * (1 << 20))", memory_limit_MB=128)
    assert answer["status"] == "Failed", answer


def compiled():
    main = '#include <iostream>\nint main() { int a; std::cin >> a; std::cout << a + 1; return a; }'
    result = run(main, "cpp", stdin="4")
    assert (result.compile_result.status, result.compile_result.return_code) == ("Finished", 0), result
    assert (result.status, result.run_result.stdout, result.run_result.return_code) == ("Failed", "5", 4), result
    result = run(main, "cpp", stdin="0")
    assert (result.status, result.run_result.stdout) == ("Success", "1"), result
    assert summary(run("int main( {", "cpp")) == "CE"
    # The compiler alone: a header that takes it for ever.
    slow = "template<int N> struct A { A<N-1> a; A<N-2> b; char x[sizeof(a) % 7 + sizeof(b) % 5 + 1]; };\n"
    slow += "template<> struct A<0> { char x; }; template<> struct A<1> { char x; };\nA<800> a;\n"
    slow += "#include <regex>\n#include <map>\n#include <iostream>\nint main() { std::regex r(\"a\"); }"
    result = run(slow, "cpp", compile_timeout=0.05)
    assert (result.compile_result.status, result.run_result) == ("TimeLimitExceeded", None), result
    assert result.status == "Failed" and summary(result) == "CT", result


def languages():
    for language, code in {
        "nodejs": "console.log(6 * 7)", "bash": "echo $((6 * 7))", "php": "echo 6 * 7, \"\\n\";",
        "perl": "print 6 * 7, \"\\n\";", "ruby": "puts 6 * 7", "lua": "print(6 * 7)", "R": "cat(6 * 7, '\\n')",
    }.items():
        result = run(code, language)
        assert (result.status, result.run_result.stdout.strip()) == ("Success", "42"), (language, result)
    answer = requests.post(f"{URL}/run_code", json={"code": "x", "language": "lean"})
    assert answer.status_code == 200 and answer.json()["status"] == "SandboxError", answer.text
    assert "lean" in answer.json()["message"]
    answer = requests.post(f"{URL}/run_code", json={"code": "x", "language": "cobol"})
    assert answer.status_code == 422 and "cobol" in answer.json()["detail"], answer.text


def files():
    content = base64.b64encode(b"\xff\x00data").decode()
    code = "import os\nd = open('dir/in.bin', 'rb').read()\nopen('out.bin', 'wb').write(d * 2)\nprint(len(d))"
    result = run(
        code, files={"dir/in.bin": content, "skipped": None, "main.py": base64.b64encode(b"own").decode()},
        fetch_files=["out.bin", "./dir/in.bin", "not-there", "../x", "/etc/passwd"],
    )
    assert result.run_result.stdout == "6\n", result
    assert {name: base64.b64decode(text) for name, text in result.files.items()} == {
        "out.bin": b"\xff\x00data" * 2, "./dir/in.bin": b"\xff\x00data",
    }, result.files
    for path in ["../escape", "/tmp/absolute", "a\0b", ""]:
        answer = verl("print(1)", files={path: content})
        assert answer["status"] == "SandboxError" and answer["message"], (path, answer)
    assert verl("print(1)", files={"x": "no base64!"})["status"] == "SandboxError"


def output():
    """More than a pipe holds, more than SandboxFusion keeps: all of it is there."""
    lines = run("for i in range(300_000): print(i, 'x' * 10)").run_result.stdout.splitlines()
    assert len(lines) == 300_000 and lines[150_000] == "150000 xxxxxxxxxx"
    answer = verl("import sys\nsys.stdout.write('x' * (40 << 20))")
    assert "cut" in answer["message"] and answer["status"] == "Success", answer["message"]
    result = run("import sys; sys.stdout.buffer.write(b'\\xff\\xfe ok\\n')")
    assert result.status == "Success" and "ok" in result.run_result.stdout


def notebooks():
    cells = ["a = 123", "a", "print(a)", "import sys; sys.stderr.write('err')", "raise RuntimeError('no')", "open('f', 'w').write('x')"]
    request = RunJupyterRequest(cells=cells, files={"in": base64.b64encode(b"in").decode()}, fetch_files=["f", "in", "none"])
    result = sandbox_fusion.run_jupyter(request, max_attempts=1)
    assert result.status == "Success" and result.driver.status == "Finished" and len(result.cells) == 6, result
    assert result.cells[1].display == [{"text/plain": "123"}] and result.cells[2].stdout == "123\n", result
    assert result.cells[3].stderr == "err", result
    assert (result.cells[4].error[0]["ename"], result.cells[4].error[0]["evalue"]) == ("RuntimeError", "no"), result
    assert {name: base64.b64decode(text) for name, text in result.files.items()} == {"f": b"x", "in": b"in"}
    result = sandbox_fusion.run_jupyter(RunJupyterRequest(cells=["x = 1", "while True: pass", "x"], total_timeout=2), max_attempts=1)
    assert (result.status, result.driver.status) == ("Failed", "TimeLimitExceeded"), result
    result = sandbox_fusion.run_jupyter(RunJupyterRequest(cells=["import os; os._exit(3)", "1"]), max_attempts=1)
    assert (result.status, result.driver.status) == ("Failed", "Error"), result


def submission(completion, test, **config):
    config = {"dataset_type": "CommonOJDataset", "language": "python", "provided_data": {"id": 1, "content": "", "test": test}, "compile_timeout": COMPILER, **config}
    return sandbox_fusion.submit(SubmitRequest(dataset="own", id=1, completion=completion, config=TestConfig(**config)), max_attempts=1)


def submissions():
    test = [{"input": {"stdin": f"{i} {i}"}, "output": {"stdout": f"{2 * i}\n"}} for i in range(1, 5)]
    good = "Here:\n```python\na, b = map(int, input().split())\nprint(a + b)\n```\n"
    result = submission(good, test)
    assert result.accepted and len(result.tests) == 4 and result.extracted_code.startswith("a, b"), result
    assert result.tests[0].exec_info.run_result.stdout == "2\n"
    bad = good.replace("a + b", "a * b")
    result = submission(bad, test)
    assert not result.accepted and [test.passed for test in result.tests] == [False], result
    result = submission(bad, test, extra={"run_all_cases": True})
    assert [test.passed for test in result.tests] == [False, True, False, False], result
    cpp = "```cpp\n#include <iostream>\nint main() { int a, b; std::cin >> a >> b; std::cout << a + b; }\n```"
    result = submission(cpp, test, language="cpp")
    assert result.accepted, result
    assert not submission("```cpp\nint main( {\n```", test, language="cpp").accepted
    assert not submission(good, []).accepted
    for config in [{"provided_data": None}, {"dataset_type": "Other"}, {"language": None}, {"custom_extract_logic": "import os"}]:
        body = {"dataset": "own", "id": 1, "completion": good, "config": {"provided_data": {"test": test}, "language": "python", **config}}
        answer = requests.post(f"{URL}/submit", json=body)
        assert answer.status_code == 400 and answer.json()["detail"], (config, answer.text)


def many():
    """Concurrent and asynchronous clients; nobody gets somebody else's answer."""
    results = sandbox_fusion.run_concurrent(run, args=[[f"print({i})"] for i in range(64)], concurrency=16)
    assert [result.run_result.stdout for result in results] == [f"{i}\n" for i in range(64)]

    async def ask():
        return await sandbox_fusion.run_code_async(RunCodeRequest(code="print(5)", language="python"), max_attempts=1)

    assert asyncio.run(ask()).run_result.stdout == "5\n"


def hostile():
    for body in ["", "{", "[]", "7", '{"code": 1}', '{"code": "x"}', '{"code": "x", "language": 7}', '{"code": null, "language": "python"}']:
        answer = requests.post(f"{URL}/run_code", data=body, headers={"content-type": "application/json"})
        assert answer.status_code == 422 and answer.json()["detail"], (body, answer.text)
    for fields in [{"run_timeout": -1}, {"run_timeout": 0}, {"run_timeout": 1e300}, {"memory_limit_MB": 1e30}]:
        answer = verl("print(1)", **fields)
        assert answer["status"] == "SandboxError" and answer["message"], (fields, answer)
    assert verl("print(1)\0")["status"] == "Failed"
    assert verl("print(input())", stdin="\0\U0001f600")["run_result"]["stdout"] == "\0\U0001f600\n"
    # There is no way out, and no file of the host.
    assert verl("import socket; socket.create_connection(('127.0.0.1', 22), 1)")["status"] == "Failed"
    assert verl("open('/etc/shadow').read()")["status"] == "Failed"


assert requests.get(f"{URL}/v1/ping").json() == "pong"
for check in [programs, verdicts_of_verl, compiled, languages, files, output, notebooks, submissions, many, hostile]:
    start = time.monotonic()
    check()
    print(f"{check.__name__}: {time.monotonic() - start:.1f} s", flush=True)
