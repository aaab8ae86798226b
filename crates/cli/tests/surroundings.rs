//! What the caller's own surroundings are must not decide how a run behaves.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests start the program and fail loudly")]

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use common::{folder, json, saggar, scratch, text};

/// Runs `saggar` at the end of a shell line that changes something first.
fn after(preparation: &str, args: &str) -> Output {
    let line = format!("{preparation}; exec {} {args}", env!("CARGO_BIN_EXE_saggar"));
    Command::new("bash").args(["-c", &line]).env("SAGGAR_HOME", scratch("surroundings-state")).output().unwrap()
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
fn an_nvm_version_works_and_shows_nothing_else_of_the_home() {
    let home = folder("nvm");
    let version = home.join(".nvm/versions/node/v22.0.0");
    for made in ["bin", "lib/node_modules/only-here"] {
        fs::create_dir_all(version.join(made)).unwrap();
    }
    let node = std::env::var_os("SAGGAR_TEST_NODE").unwrap_or_else(|| "/usr/bin/node".into());
    fs::copy(node, version.join("bin/node")).unwrap();
    fs::write(version.join("lib/node_modules/only-here/index.js"), "module.exports = 'in the version'").unwrap();
    write_all(&home, &[".npmrc", ".nvm/nvm.sh", ".nvm/alias/default", ".nvm/versions/node/v20.0.0/bin/node"]);

    let code = "const fs = require('fs'), [home, version] = process.argv.slice(2);\n\
                fs.writeFileSync('f', 'x');\n\
                console.log(process.execPath === version + '/bin/node', require(version + '/lib/node_modules/only-here'));\n\
                for (const f of ['', '/.nvm', '/.nvm/versions/node']) console.log(fs.readdirSync(home + f).join());";
    let wanted = "true in the version\n.nvm\nversions\nv22.0.0\n";
    assert_eq!(in_home(&home, &version, &["run", "-l", "node", "-c", code, "--"]), wanted);
    assert_eq!(in_home(&home, &version, &["exec", "--", "node", "-e", code, "x"]), wanted);
}

#[test]
fn a_conda_environment_works_and_shows_nothing_else_of_the_home() {
    let home = folder("conda");
    let environment = home.join("miniconda3/envs/mine");
    fs::create_dir_all(environment.join("bin")).unwrap();
    make_conda_python(&environment);
    write_all(
        &home,
        &[".condarc", "miniconda3/pkgs/urls.txt", "miniconda3/bin/python", "miniconda3/envs/other/secret"],
    );
    write_all(&environment, &["conda-meta/history"]);

    let code = "import ctypes, hashlib, json, only_here, os, sys\n\
                home, environment = sys.argv[1:]\n\
                print(sys.prefix == environment, only_here.WHERE, os.path.exists(environment + '/conda-meta/history'))\n\
                print(environment + '/lib/libpython' in open('/proc/self/maps').read())\n\
                for f in '', '/miniconda3', '/miniconda3/envs': print(os.listdir(home + f))";
    let wanted = "True in the environment True\nTrue\n['miniconda3']\n['envs']\n['mine']\n";
    assert_eq!(in_home(&home, &environment, &["run", "-c", code, "--"]), wanted);
    assert_eq!(in_home(&home, &environment, &["exec", "--", "python", "-c", code]), wanted);
}

/// The host's Python as conda lays it out: a program that finds its shared libraries beside it, wherever it is put.
fn make_conda_python(environment: &Path) {
    // Debian's own Python has its packages elsewhere: it is asked where.
    let copy = "import os, shutil, site, sys, sysconfig\n\
                to, library = sys.argv[1], sysconfig.get_config_var('INSTSONAME')\n\
                name = 'python%d.%d' % sys.version_info[:2]\n\
                leave = shutil.ignore_patterns('*-packages', 'test', 'config-*', '__pycache__')\n\
                stdlib = sysconfig.get_path('stdlib')\n\
                shutil.copytree(stdlib, f'{to}/lib/{name}', ignore=leave, ignore_dangling_symlinks=True)\n\
                shutil.copy(sysconfig.get_config_var('LIBDIR') + '/' + library, f'{to}/lib')\n\
                packages = site.getsitepackages([to])[0]\n\
                os.makedirs(packages)\n\
                open(packages + '/only_here.py', 'w').write('WHERE = \"in the environment\"')\n\
                for link in 'python', 'python3': os.symlink(name, f'{to}/bin/{link}')\n\
                print(name, library)";
    let copied = Command::new("python3").args(["-c", copy]).arg(environment).output().unwrap();
    assert!(copied.status.success(), "{}; is libpython3-dev installed?", text(&copied.stderr));
    let said = text(&copied.stdout);
    let (name, library) = said.trim().split_once(' ').unwrap();
    let source = environment.join("main.c");
    fs::write(&source, "int Py_BytesMain(int, char **); int main(int n, char **v) { return Py_BytesMain(n, v); }")
        .unwrap();
    let mut compile = Command::new("cc");
    compile.arg(&source).arg("-o").arg(environment.join("bin").join(name)).arg("-L").arg(environment.join("lib"));
    compile.args([&format!("-l:{library}"), "-Wl,-rpath,$ORIGIN/../lib"]);
    assert!(compile.status().unwrap().success());
}

/// Files that a run in this home must not see, or that only have to be there.
fn write_all(folder: &Path, files: &[&str]) {
    for file in files.iter().map(|file| folder.join(file)) {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "SECRET").unwrap();
    }
}

/// What a program prints whose owner has this home, and the interpreter in `prefix` first on PATH. Its arguments are these two.
fn in_home(home: &Path, prefix: &Path, args: &[&str]) -> String {
    let path = format!("{}:/usr/bin:/bin", prefix.join("bin").display());
    let output = saggar(args).args([home, prefix]).env("HOME", home).env("PATH", path).output().unwrap();
    text(&output.stdout) + &text(&output.stderr)
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
