EVALUATING = "/opt/saggar/judge-evaluator.py"


def load_evaluating():
    """The part that hardly anybody asks for: to compile it would hold up everybody else."""
    exec(compile(content_of(EVALUATING), EVALUATING, "exec"), globals())


def main():
    # Outside a sandbox, what ends the processes of a case would end everybody's.
    if __file__ != "/opt/saggar/judge.py":
        raise SystemExit("this runs in a sandbox only")
    channel = Channel()
    make_home()
    # From here on time counts: before, the sandbox may have waited for others.
    channel.write("here")
    mode, *words = channel.read()
    if mode == "tests":
        secret, *modules = words
        # Once for all tests that are run here.
        for module in modules:
            __import__(module)
        channel.write("loaded")
        judge_tests(channel, secret)
        leave(0)
    path = sys.argv[1]
    if mode == "evaluate":
        secret, forgets, *functions = words
        load_evaluating()
        try:
            module = load_evaluator(path, functions)
        except BaseException as error:
            channel.write("raised", *describe(error, path))
            leave(0)
        channel.write("loaded")
        judge_evaluator(channel, module, secret, forgets, functions)
        leave(0)
    setup, *words = words
    try:
        program = Program(path, setup)
    except SystemExit as leaving:
        channel.write("left", str(leaving.code)[:200])
        leave(0)
    except BaseException as error:
        channel.write("raised", *describe(error, path))
        leave(0)
    channel.write("loaded")
    if mode == "cases":
        judge_cases(channel, program, *words)
    elif mode == "candidate":
        judge_candidate(channel, program, *words)
    else:
        judge_together(channel, program)
    leave(0)


# A zygote loads this file and rehearses; its workers begin.
if __name__ == "__main__":
    main()
