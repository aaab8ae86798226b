"""What E2B's own client sees of a server. usage: e2b.py first ROUNDS | alive COUNT; prints one line of JSON."""
import concurrent.futures, json, sys, time

from e2b_code_interpreter import Sandbox


def first_result():
    """Milliseconds from the call that creates a sandbox to the first result of its interpreter."""
    begin = time.perf_counter()
    sandbox = Sandbox.create()
    made = time.perf_counter()
    answer = sandbox.run_code("6 * 7")
    end = time.perf_counter()
    sandbox.kill()
    if answer.text != "42":
        raise SystemExit(f"run_code answered {answer}")
    return {"create": 1e3 * (made - begin), "whole": 1e3 * (end - begin)}


def available():
    """Bytes of memory that the machine has left."""
    for line in open("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return 0


def alive(count):
    """How many sandboxes, each with an interpreter, answer while all of them live."""
    before = available()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        boxes = list(pool.map(lambda _: Sandbox.create(timeout=600), range(count)))
        try:
            list(pool.map(lambda i: boxes[i].run_code(f"x = {i}"), range(count)))
            right = sum(pool.map(lambda i: boxes[i].run_code("x").text == str(i), range(count)))
            return {"alive": right, "bytes": max(0, before - available())}
        finally:
            list(pool.map(lambda box: box.kill(), boxes))


def main():
    what, number = sys.argv[1], int(sys.argv[2])
    # The client's own first steps are not the server's.
    Sandbox.list().next_items()
    if what == "alive":
        print(json.dumps(alive(number)))
        return
    times = []
    for i in range(number):
        times.append(first_result())
        # What was taken is made anew, as between the tasks of an agent.
        time.sleep(0.5 if i + 1 < number else 0)
    print(json.dumps(times))


main()
