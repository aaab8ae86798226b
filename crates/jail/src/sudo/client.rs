//! The program itself, run by whoever wants to be somebody else.

use std::collections::BTreeMap;
use std::env;
use std::os::fd::AsFd;
use std::process::ExitCode;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{getgid, getuid};

use super::arguments::{self, Arguments, Wrong};
use super::people::{self, Person};
use super::{Answer, Ask, Wish, address};
use crate::channel::Channel;
use crate::init::CWD_STEP;
use crate::sys::Signals;
use crate::wire::Trouble;

/// What goes along without being asked for.
const KEPT: &[&str] = &["PATH", "TERM", "COLORTERM", "LANG", "LANGUAGE", "TZ", "DISPLAY", "TMPDIR"];
/// Where programs are if the caller has no `PATH`.
const USUAL: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Asks, waits, and ends as the program did.
#[must_use]
pub fn run() -> ExitCode {
    let words = env::args_os().skip(1).map(std::ffi::OsString::into_string);
    let Ok(words) = words.collect::<Result<Vec<String>, _>>() else { return complain("words must be UTF-8") };
    let arguments = match arguments::parse(words) {
        Ok(arguments) => arguments,
        Err(Wrong::Flag(flag)) => return complain(&format!("{flag} is not known here")),
        Err(Wrong::NoValue(flag)) => return complain(&format!("{flag} needs a user")),
        Err(Wrong::Nothing) => {
            return complain("usage: sudo [-E] [-u USER] [-s | -i] [NAME=VALUE...] COMMAND [ARGUMENT...]");
        }
    };
    let name = arguments.user.as_deref().unwrap_or("root");
    let Some(person) = people::find(name) else { return complain(&format!("unknown user {name}")) };
    if arguments.idle {
        return ExitCode::SUCCESS;
    }
    match ask(wish(arguments, &person)) {
        Ok(Answer::Ended(status)) => ended(status),
        Ok(Answer::Refused(trouble)) => complain(&explain(&trouble)),
        Err(Errno::CONNREFUSED) => complain("there is one user in this sandbox; for root saggar's server must be root"),
        Err(errno) => complain(&format!("process 1 does not answer: {errno}")),
    }
}

fn complain(what: &str) -> ExitCode {
    eprintln!("sudo: {what}");
    ExitCode::FAILURE
}

fn explain(trouble: &Trouble) -> String {
    let why = Errno::from_raw_os_error(trouble.errno);
    match (why, trouble.step.as_str()) {
        (Errno::NOENT, step) if step != CWD_STEP => "command not found".to_owned(),
        (why, step) => format!("{step}: {why}"),
    }
}

fn ended(status: i32) -> ExitCode {
    let code = match libc::WTERMSIG(status) {
        0 => libc::WEXITSTATUS(status),
        signal => 128 + signal,
    };
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

/// What process 1 is asked for.
fn wish(arguments: Arguments, person: &Person) -> Wish {
    let Arguments { keep_env, shell, login, env: set, words, .. } = arguments;
    let all: BTreeMap<String, String> = env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let mut env: BTreeMap<String, String> = all
        .into_iter()
        .filter(|(name, _)| keep_env || KEPT.contains(&name.as_str()) || name.starts_with("LC_"))
        .collect();
    let path = env.entry("PATH".to_owned()).or_insert_with(|| USUAL.to_owned()).clone();
    let asking = people::numbered(getuid().as_raw());
    let mut argv = words;
    let mut program = argv.first().cloned();
    if shell || login {
        let given = if shell && !login { env::var("SHELL").ok() } else { None };
        let shell = given.unwrap_or_else(|| person.shell.clone());
        let name = shell.rsplit('/').next().unwrap_or(&shell);
        let zeroth = if login { format!("-{name}") } else { name.to_owned() };
        argv = if argv.is_empty() { vec![zeroth] } else { vec![zeroth, "-c".to_owned(), arguments::quoted(&argv)] };
        program = Some(shell);
    }
    let usual = [
        ("HOME", person.home.clone()),
        ("USER", person.name.clone()),
        ("LOGNAME", person.name.clone()),
        ("SHELL", person.shell.clone()),
        ("SUDO_USER", asking.name),
        ("SUDO_UID", getuid().as_raw().to_string()),
        ("SUDO_GID", getgid().as_raw().to_string()),
        ("SUDO_COMMAND", argv.join(" ")),
    ];
    env.extend(usual.into_iter().map(|(name, value)| (name.to_owned(), value)));
    env.extend(set);
    let program = program.unwrap_or_default();
    let programs = if program.contains('/') {
        vec![program]
    } else {
        path.split(':').map(|folder| format!("{folder}/{program}")).collect()
    };
    let here = env::current_dir().ok().and_then(|here| here.into_os_string().into_string().ok());
    Wish {
        user: (person.user, person.group),
        programs,
        argv,
        env: env.into_iter().map(|(name, value)| format!("{name}={value}")).collect(),
        cwd: if login { person.home.clone() } else { here.unwrap_or_else(|| "/".to_owned()) },
    }
}

/// Has it done; signals that come meanwhile are handed on.
fn ask(wish: Wish) -> Result<Answer, Errno> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    connect(&socket, &address()?)?;
    rustix::io::ioctl_fionbio(&socket, true)?;
    let channel = Channel::from_fd(socket);
    let signals = Signals::keep()?;
    let streams = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    channel.send(&Ask::Start(wish), &streams)?;
    let mut buffer = Vec::new();
    loop {
        match channel.try_recv(&mut buffer) {
            Ok(Some((answer, _))) => return Ok(answer),
            Ok(None) => return Err(Errno::CONNRESET),
            Err(Errno::AGAIN) => {}
            Err(errno) => return Err(errno),
        }
        while let Some(signal) = signals.next() {
            channel.send(&Ask::Signal(signal), &[])?;
        }
        let channel = channel.as_fd();
        match poll(&mut [PollFd::new(&channel, PollFlags::IN), PollFd::new(&signals, PollFlags::IN)], None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}
