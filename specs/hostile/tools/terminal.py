"""Runs a command on a terminal of its own and tells what the terminal got."""
import fcntl, os, pty, select, subprocess, sys, termios, time

TAKE_TERMINAL = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"


def run(argv, env, cwd, owner, wait):
    """(exit code or None, what was written to the terminal, what somebody pushed into its input)."""
    master, slave = pty.openpty()
    mode = termios.tcgetattr(slave)
    mode[1] &= ~termios.OPOST
    mode[3] &= ~(termios.ECHO | termios.ICANON | termios.ISIG)
    mode[6][termios.VMIN], mode[6][termios.VTIME] = 0, 0
    termios.tcsetattr(slave, termios.TCSANOW, mode)
    if owner != os.geteuid():
        os.fchown(slave, owner, owner)
    p = subprocess.Popen([sys.executable, "-c", TAKE_TERMINAL, *argv], stdin=slave, stdout=slave, stderr=slave, env=env, cwd=cwd, start_new_session=True)
    got, deadline = b"", time.monotonic() + wait
    while time.monotonic() < deadline:
        ended = p.poll() is not None
        if select.select([master], [], [], 0.1)[0]:
            got += os.read(master, 65536)
        elif ended:
            break
    else:
        p.kill()
        p.wait()
    fcntl.fcntl(slave, fcntl.F_SETFL, os.O_NONBLOCK)
    try:
        pushed = os.read(slave, 4096)
    except BlockingIOError:
        pushed = b""
    os.close(master)
    os.close(slave)
    return p.poll(), got, pushed


def control_characters(text):
    """Everything but line ends and tabs that a terminal would act on."""
    return sorted({c for c in text if (ord(c) < 32 and c not in "\n\t") or 0x7F <= ord(c) <= 0x9F})


def shown(h, args, wait):
    """What `saggar ARGS` shows on a terminal: its exit code, the text, and what was pushed into the terminal."""
    env = dict(h.env(), NO_COLOR="1", TERM="xterm-256color")
    code, text, pushed = run(h.command(args), env, str(h.work), h.owner, wait)
    return code, text.decode("utf-8", "replace"), pushed


def judge(h, e, wait, args, raw_args):
    """What is wrong with what a program shows there, and with `--raw`, which passes everything."""
    bad = []
    code, text, pushed = shown(h, args, wait)
    if code is None:
        bad.append("did not end on a terminal")
    if pushed:
        bad.append(f"pushed {pushed!r} into the terminal")
    if "ESCAPED:" in text or any(v in text for v in h.secrets()):
        bad.append(f"on a terminal: {text[-200:]!r}")
    if "tty_must_not_contain" in e:
        bad += [f"the terminal got {s!r}" for s in e["tty_must_not_contain"] if s in text]
        if control_characters(text):
            bad.append(f"the terminal got control characters {control_characters(text)}")
        raw = shown(h, raw_args, wait)[1]
        if e["tty_must_not_contain"][0] not in raw:
            bad.append(f"--raw does not pass {e['tty_must_not_contain'][0]!r}: {raw[-200:]!r}")
    return bad
