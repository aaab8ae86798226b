"""KodeAgent's runner for E2B, unchanged, with a client newer than the one that it pins; by itself, and as its agents have it:
behind the check of imports and the review by a model, which is a script here."""
import asyncio
import http.server
import json
import os
import tempfile
import threading

# Else LiteLLM asks the internet for prices.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
from kodeagent.code_runner import CodeRunner, CodeSecurityError, E2BCodeRunnerEnv


class Model(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        asked = self.rfile.read(int(self.headers["Content-Length"])).decode()
        review = {"is_secure": "DANGER" not in asked, "reason": "as the script has it"}
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": json.dumps(review)}}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        body = json.dumps({"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


model = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=model.serve_forever, daemon=True).start()
folder = tempfile.mkdtemp()
runner = E2BCodeRunnerEnv(work_dir=folder, env_vars={"GIVEN": "word"})


async def by_itself():
    code = "import os\nprint(os.environ['GIVEN'], 6 * 7)\nopen('made.txt', 'w').write('content')"
    done = await runner.run(code, "task", 30)
    stdout, stderr, status, made = done.stdout, done.stderr, done.return_code, done.generated_files
    assert (stdout.strip(), status) == ("word 42", 0), done
    assert [os.path.basename(path) for path in made] == ["made.txt"], made
    paths = await runner.download_files_from_remote(made)
    assert open(paths[0]).read() == "content"
    bad = await runner.run("1 / 0", "task", 30)
    assert bad.return_code != 0 and "ZeroDivisionError" in bad.stderr, bad


async def as_agents_have_it():
    reached = {"api_base": f"http://127.0.0.1:{model.server_port}/v1", "api_key": "none"}
    whole = CodeRunner(env="e2b", allowed_imports=["math"], model_name="openai/scripted", litellm_params=reached, work_dir=folder)
    done = await whole.run("def twice(x):\n    return 2 * x\n", "import math\nprint(twice(math.floor(21.5)))", "task")
    assert (done.stdout.strip(), done.return_code) == ("42", 0), done
    refused = await whole.run("", "import socket\nprint('ran')", "task")
    assert refused.return_code != 0 and "ran" not in refused.stdout, refused
    try:
        refused = await whole.run("", "print('DANGER')", "task")
        assert refused.return_code != 0 and "DANGER" not in refused.stdout, refused
    except CodeSecurityError:
        pass
    whole.env_impl.cleanup()


asyncio.run(by_itself())
runner.cleanup()
asyncio.run(as_agents_have_it())
print("done")
