//! A driver as a child of the test, in place of a process of a session.
#![allow(dead_code, reason = "each test file uses its share")]

use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use engine::{BackendError, Control, Driver, Ended, Interpreter, InterpreterError, Process, Stream, TerminalSize};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::sync::{mpsc, oneshot};
use types::{Outcome, Usage};

struct Group(Pid);

impl Control for Group {
    fn signal(&self, signal: i32) -> Result<(), BackendError> {
        let signal = Signal::from_named_raw(signal).expect("a signal with a name");
        kill_process_group(self.0, signal).map_err(|_| BackendError::ProcessGone)
    }

    fn kill(&self) -> Result<(), BackendError> {
        self.signal(9)
    }

    fn resize(&self, _: TerminalSize) -> Result<(), BackendError> {
        Err(BackendError::ProcessGone)
    }
}

/// Starts the driver of `language` with the interpreter at `program`, in a folder.
pub(crate) async fn begin(language: &str, program: &str, folder: &std::path::Path) -> Interpreter {
    try_begin(language, program, folder).await.expect("an interpreter that starts")
}

pub(crate) async fn try_begin(
    language: &str,
    program: &str,
    folder: &std::path::Path,
) -> Result<Interpreter, InterpreterError> {
    let driver = Driver::of(language).expect("a driver for the language");
    let argv = driver.argv(program);
    #[expect(clippy::disallowed_methods, reason = "the test stands in for a session")]
    let child = Command::new(&argv[0])
        .args(&argv[1..])
        .env_clear()
        .envs([("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/tmp"), ("LANG", "C.UTF-8")])
        .current_dir(folder)
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a program that can be started");
    Interpreter::begin(connected(child), driver, Duration::from_mins(1)).await
}

fn connected(mut child: Child) -> Process {
    let pid = child.id();
    let (input, mut orders) = mpsc::channel::<Vec<u8>>(4);
    let mut stdin = child.stdin.take().expect("a pipe");
    std::thread::spawn(move || {
        while let Some(bytes) = orders.blocking_recv() {
            if stdin.write_all(&bytes).is_err() {
                break;
            }
        }
    });
    let (sender, output) = mpsc::channel(4);
    let streams: [(Stream, Box<dyn Read + Send>); 2] = [
        (Stream::Out, Box::new(child.stdout.take().expect("a pipe"))),
        (Stream::Err, Box::new(child.stderr.take().expect("a pipe"))),
    ];
    for (stream, mut pipe) in streams {
        let sender = sender.clone();
        std::thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            while let Ok(length @ 1..) = pipe.read(&mut buffer) {
                if sender.blocking_send((stream, buffer[..length].to_vec())).is_err() {
                    break;
                }
            }
        });
    }
    let (end, ended) = oneshot::channel();
    std::thread::spawn(move || {
        let status = child.wait().expect("a child that ends");
        let outcome = match status.signal() {
            Some(signal) => Outcome::Signaled { signal },
            None => Outcome::Exited { code: status.code().unwrap_or(-1) },
        };
        let _ = end.send(Ended { outcome, usage: Usage::default(), hits: Vec::new(), layers: Vec::new() });
    });
    let pid_number = i32::try_from(pid).expect("a pid");
    let group = Group(Pid::from_raw(pid_number).expect("a pid"));
    Process {
        pid,
        input: Some(input),
        output,
        ended: Box::pin(async { ended.await.map_err(|_| BackendError::ProcessGone) }),
        control: Arc::new(group),
    }
}
