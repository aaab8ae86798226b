//! What the caller's own surroundings are must not decide how a run behaves.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests start the program and fail loudly")]

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Output, Stdio};

use common::{folder, json, saggar, text};

/// Runs `saggar` at the end of a shell line that changes something first.
fn after(preparation: &str, args: &str) -> Output {
    let line = format!("{preparation}; exec {} {args}", env!("CARGO_BIN_EXE_saggar"));
    Command::new("bash").args(["-c", &line]).env("SAGGAR_HOME", folder("surroundings-state")).output().unwrap()
}

#[test]
fn the_umask() {
    for mask in ["000", "077", "777"] {
        let output = after(&format!("umask {mask}"), "run -l bash -c 'umask; touch f; stat -c %a f'");
        assert_eq!(text(&output.stdout), "0022\n644\n", "{}", text(&output.stderr));
    }
}

#[test]
fn ignored_signals() {
    let output = after("trap '' CHLD PIPE ALRM", "run -c 'import signal; signal.alarm(1); signal.pause()'");
    assert_eq!(output.status.code(), Some(128 + 14), "{}", text(&output.stderr));
}

#[test]
fn nohup_is_obeyed() {
    let line = format!("trap '' HUP; exec {} run -c 'print(1); input()'", env!("CARGO_BIN_EXE_saggar"));
    let mut command = Command::new("bash");
    command.args(["-c", &line]).env("SAGGAR_HOME", folder("nohup-state")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut ready = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut ready).unwrap();
    let pid = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    child.stdin.take().unwrap().write_all(b"go on\n").unwrap();
    assert_eq!((ready.as_str(), child.wait().unwrap().code()), ("1\n", Some(0)));
}

#[test]
fn few_descriptors_and_closed_streams() {
    assert_eq!(text(&after("ulimit -n 40", "run -c 'print(1)'").stdout), "1\n");
    for closed in ["<&-", "2>&-", "<&- 2>&-"] {
        let output = after(":", &format!("run -c 'print(1)' {closed}"));
        assert_eq!(text(&output.stdout), "1\n", "{closed}");
    }
    assert_eq!(after(":", "run -c 'print(1)' <&- >&- 2>&-").status.code(), Some(0));
}

#[test]
fn the_environment_stays_outside() {
    let mut command = saggar(&["run", "-c", "import os; print(sorted(os.environ))"]);
    let output =
        command.env("AWS_SECRET_ACCESS_KEY", "x").env("LD_PRELOAD", "").env("PYTHONPATH", "/x").output().unwrap();
    assert_eq!(text(&output.stdout), "['HOME', 'LANG', 'PATH', 'TMPDIR']\n");
}

#[test]
fn descriptors_stay_outside() {
    let output = after("exec 7</etc/passwd 9>/dev/null", "run -l bash -c 'ls /proc/self/fd'");
    assert_eq!(text(&output.stdout), "0\n1\n2\n3\n");
}

#[test]
fn a_virtual_environment_below_tmp_is_found_and_works() {
    let home = std::env::temp_dir().join(format!("saggar-venv-{}", std::process::id()));
    let made = Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(home.join("venv")).status().unwrap();
    assert!(made.success());
    let packages = fs::read_dir(home.join("venv/lib")).unwrap().next().unwrap().unwrap().path().join("site-packages");
    fs::write(packages.join("only_here.py"), "WHERE = 'in the environment'").unwrap();
    fs::write(home.join("beside"), "not to be seen").unwrap();
    let code = "import only_here, os, sys; print(only_here.WHERE, os.listdir(os.path.dirname(sys.prefix)))\n\
                open('/tmp/mine', 'w').close()";
    let path = format!("{}:/usr/bin:/bin", home.join("venv/bin").display());
    let output = saggar(&["run", "-c", code]).env("PATH", path).output().unwrap();
    fs::remove_dir_all(&home).unwrap();
    assert_eq!(text(&output.stdout), "in the environment ['venv']\n", "{}", text(&output.stderr));
}

#[test]
fn an_interpreter_in_a_home_shows_nothing_else_of_it() {
    // A home with a real interpreter in ~/.local/bin, and a secret beside it.
    let home = folder("home");
    for made in [".local/bin", ".local/share/keyrings", ".ssh"] {
        fs::create_dir_all(home.join(made)).unwrap();
    }
    fs::write(home.join(".ssh/id_ed25519"), "SECRET").unwrap();
    fs::write(home.join(".local/share/keyrings/login"), "SECRET").unwrap();
    fs::copy("/usr/bin/node", home.join(".local/bin/node")).unwrap();
    let path = format!("{}:/usr/bin:/bin", home.join(".local/bin").display());
    let shown = |args: &[&str]| saggar(args).env("HOME", &home).env("PATH", &path).output().unwrap();
    let code = "console.log(process.execPath, require('fs').readdirSync(process.env.H).join())";
    let env = format!("H={}", home.display());
    let output = shown(&["run", "-l", "node", "--env", &env, "-c", code]);
    let wanted = format!("{} .local\n", home.join(".local/bin/node").display());
    assert_eq!(text(&output.stdout), wanted, "{}", text(&output.stderr));
    for secret in [".ssh/id_ed25519", ".local/share/keyrings/login"] {
        let output = shown(&["exec", "--", "cat", home.join(secret).to_str().unwrap()]);
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(1), ""), "{secret}");
    }
}

#[test]
fn settings_that_cannot_be_read_are_not_ignored() {
    let folder = folder("settings-closed");
    fs::create_dir(folder.join("saggar")).unwrap();
    let with = |content: &[u8]| {
        fs::write(folder.join("saggar/saggar.toml"), content).unwrap();
        json(&saggar(&["run", "--json", "-c", "pass"]).env("XDG_CONFIG_HOME", &folder).output().unwrap())
    };
    assert_eq!(with(b"require = ['seccomp'] # \xff")["error"]["code"], "invalid_settings");
    assert_eq!(with(b"require = ['seccomp']")["ok"], true);
    // A relative folder would be the working directory's.
    fs::write(folder.join("saggar/saggar.toml"), b"nonsense").unwrap();
    let output = saggar(&["run", "-c", "print(1)"]).env("XDG_CONFIG_HOME", ".").current_dir(&folder).output().unwrap();
    assert_eq!(text(&output.stdout), "1\n", "{}", text(&output.stderr));
}
