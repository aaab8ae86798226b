"""KodeAgent's runner for E2B, unchanged, with a client newer than the one that it pins."""
import asyncio
import os
import tempfile

from kodeagent.code_runner import E2BCodeRunnerEnv

folder = tempfile.mkdtemp()
runner = E2BCodeRunnerEnv(work_dir=folder, env_vars={"GIVEN": "word"})


async def main():
    code = "import os\nprint(os.environ['GIVEN'], 6 * 7)\nopen('made.txt', 'w').write('content')"
    done = await runner.run(code, "task", 30)
    stdout, stderr, status, made = done.stdout, done.stderr, done.return_code, done.generated_files
    assert (stdout.strip(), status) == ("word 42", 0), done
    assert [os.path.basename(path) for path in made] == ["made.txt"], made
    paths = await runner.download_files_from_remote(made)
    assert open(paths[0]).read() == "content"
    bad = await runner.run("1 / 0", "task", 30)
    assert bad.return_code != 0 and "ZeroDivisionError" in bad.stderr, bad


asyncio.run(main())
runner.cleanup()
print("done")
