//! One sandbox at the server: our program is sent there and talked to; the sandbox ends when nobody has it any more.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use jail::contained::{FrameKind, Frames, GUEST_NAME};
use serde::Deserialize;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use types::LimitKind;

use super::TRANSFERS;
use super::api::{Made, Upload};
use super::error::E2bError;
use super::http::Line;
use super::settings::Known;
use crate::backend::contained::{Errands, Host, Link, WAITING, cut};
use crate::backend::native::KEEPER;
use crate::backend::{BoxFuture, Packages};
use crate::error::BackendError;
use crate::language::drivers;

/// How long a sandbox lives that nobody renews: what is left of us after a crash ends so soon.
const LIFE: u64 = 60;

/// How often it is renewed.
const RENEWAL: Duration = Duration::from_secs(20);

/// The longest message that a server may send; those of E2B hold 32 KiB of output.
const MOST_MESSAGE: usize = 1 << 20;

/// How long our program may take to be there.
const ARRIVAL: Duration = Duration::from_mins(1);

/// The most that is kept of what the shell says before our program is there.
const MOST_SAID: usize = 16 << 10;

/// Where our program and the drivers lie. Where the kernel has Landlock no program can write there.
pub(super) const FOLDER: &str = "/home/user/.saggar/";

/// What a run's packages come in.
const ARCHIVE: &str = "packages.tar.gz";

/// Where drivers lie everywhere else.
pub(super) const OWN_FOLDER: &str = "/opt/saggar/";

/// What a run's packages are unpacked into, and where they then lie.
const INTO: &str = "/home/user/.saggar/packages";
pub(super) const PACKAGES: &str = "/home/user/.saggar/packages/opt/packages/python";

/// Our end codes of the shell, and what they mean.
const UNFIT: [(i64, &str); 4] = [
    (96, "its processors are of another kind than ours"),
    (97, "its user has no folder /work to write to"),
    (98, "its user cannot run our program"),
    (99, "its user cannot unpack what was installed for the run"),
];

/// One sandbox.
pub(super) struct Held {
    /// Of the errands' thread, on which it may be dropped: it keeps no hold of the thread itself.
    handle: Handle,
    known: Known,
    pub(super) made: Made,
    /// What must not outlive it.
    tasks: Mutex<Vec<AbortHandle>>,
    /// Whoever holds it is waited for at the end.
    under_way: Option<mpsc::Sender<()>>,
}

impl Held {
    /// Makes a sandbox, whether or not who asks for it stays to see it: one that nobody takes is ended.
    pub(super) async fn make(
        errands: &Errands,
        known: &Known,
        template: &str,
        internet: bool,
    ) -> Result<Arc<Self>, E2bError> {
        let (reply, answer) = oneshot::channel();
        let (known, template, under_way) = (known.clone(), template.to_owned(), errands.under_way());
        let handle = errands.handle.clone();
        errands.beside(async move {
            let made = known.make(&template, LIFE, internet).await;
            let held = made.map(|made| {
                let tasks = Mutex::new(Vec::new());
                Arc::new(Self { handle, known, made, tasks, under_way })
            });
            drop(reply.send(held));
        });
        let held = answer.await.map_err(|_| E2bError::Gone { said: None })??;
        held.keep_alive();
        Ok(held)
    }

    fn remember(&self, task: AbortHandle) {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).push(task);
    }

    fn stop(&self) {
        for task in self.tasks.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            task.abort();
        }
    }

    fn keep_alive(&self) {
        let (known, id) = (self.known.clone(), self.made.id.clone());
        let renewing = self.handle.spawn(async move {
            loop {
                tokio::time::sleep(RENEWAL).await;
                // One that fails is tried again, while the sandbox still lives.
                drop(known.renew(&id, LIFE).await);
            }
        });
        self.remember(renewing.abort_handle());
    }

    /// Sends our program there and starts it; `longest` is how long the whole talk may take. What comes with the talk are
    /// the folders in which programs are looked for there.
    pub(super) async fn enter(
        self: &Arc<Self>,
        longest: Duration,
        packages: Option<&Packages>,
    ) -> Result<(Link, Vec<String>), E2bError> {
        let packages = packages.cloned();
        let (to, orders) = mpsc::channel(WAITING);
        let (frames, from) = mpsc::channel(WAITING);
        let (known, made) = (self.known.clone(), self.made.clone());
        let entering = async move {
            let mut line = Line::new(known.sandbox.clone());
            known.upload(&mut line, &made, &luggage()).await?;
            let has_packages = packages.is_some();
            if let Some(Packages(archive)) = packages {
                let archive = Upload { path: format!("{FOLDER}{ARCHIVE}"), content: Arc::unwrap_or_clone(archive) };
                let mut line = Line::new(known.sandbox.clone()).patient(TRANSFERS);
                known.upload(&mut line, &made, &[archive]).await?;
            }
            let (answer, way) = known.start(&made, &script(has_packages)).await?;
            let mut talk = Talk::new(answer.into_body(), way);
            let (pid, path) = tokio::time::timeout(if has_packages { TRANSFERS } else { ARRIVAL }, talk.arrive())
                .await
                .unwrap_or(Err(E2bError::Silent { step: "start our program" }))?;
            let sending = tokio::spawn(send(known, line, made, pid, orders)).abort_handle();
            let receiving = tokio::spawn(receive(talk, frames, longest)).abort_handle();
            Ok((path, [sending, receiving]))
        };
        let entered = self.handle.spawn(entering).await;
        let (path, tasks) = entered.unwrap_or(Err(E2bError::Gone { said: None }))?;
        for task in tasks {
            self.remember(task);
        }
        Ok((Link::new(Arc::clone(self) as Arc<dyn Host>, to, from), path))
    }
}

impl Host for Held {
    /// The talk ends here too: a server that goes on talking is not listened to.
    fn kill(&self) -> BoxFuture<'_, ()> {
        let (known, id) = (self.known.clone(), self.made.id.clone());
        Box::pin(async move {
            drop(self.handle.spawn(async move { known.end(&id).await }).await);
            self.stop();
        })
    }

    fn cause(&self) -> BoxFuture<'_, Result<LimitKind, BackendError>> {
        Box::pin(async { Err(self.gone(None)) })
    }

    fn gone(&self, said: Option<&str>) -> BackendError {
        E2bError::Gone { said: said.map(str::to_owned) }.into()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.stop();
        let (known, id, under_way) = (self.known.clone(), self.made.id.clone(), self.under_way.take());
        self.handle.spawn(async move {
            // One that cannot be ended now ends by itself.
            drop(known.end(&id).await);
            drop(under_way);
        });
    }
}

/// What goes with our program: drivers, which find each other there.
fn luggage() -> Vec<Upload> {
    let moved = |path: &str| path.replace(OWN_FOLDER, FOLDER);
    let drivers = drivers().map(|(path, text)| Upload { path: moved(path), content: moved(text).into_bytes() });
    drivers.chain([Upload { path: moved(GUEST_NAME), content: KEEPER.to_vec() }]).collect()
}

/// Becomes our program where that can be; what it says before is the folders of programs, on its error output.
fn script(has_packages: bool) -> String {
    // Into a folder of their own: what was installed had scripts, and tar keeps members where it is told to unpack them.
    let unpack = if has_packages {
        format!("mkdir {INTO} && tar -xzf {FOLDER}{ARCHIVE} -C {INTO} 2>/dev/null && rm {FOLDER}{ARCHIVE} || exit 99\n")
    } else {
        String::new()
    };
    let (own, machine) = (GUEST_NAME.replace(OWN_FOLDER, FOLDER), std::env::consts::ARCH);
    format!(
        "[ \"$(uname -m)\" = {machine} ] || exit 96\n\
         [ -w /work ] || sudo -n install -d -o \"$(id -u)\" -g \"$(id -g)\" /work 2>/dev/null\n\
         [ -w /work ] || exit 97\n\
         chmod 755 {own} || exit 98\n\
         {unpack}printf '%s\\n' \"$PATH\" >&2\n\
         exec -a {GUEST_NAME} {own} 2>/dev/null || exit 98"
    )
}

#[derive(Deserialize)]
struct Message {
    event: Option<Event>,
    error: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct Event {
    start: Option<Started>,
    data: Option<Data>,
    end: Option<Over>,
}

#[derive(Deserialize)]
struct Started {
    pid: u32,
}

#[derive(Deserialize)]
struct Data {
    stdout: Option<String>,
    stderr: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Over {
    #[serde(default)]
    exit_code: i64,
}

/// What the server says of our program.
enum Heard {
    Pid(u32),
    Out(Vec<u8>),
    Err(Vec<u8>),
    Over(i64),
    Nothing,
}

/// A stream of frames, read one by one.
struct Talk {
    body: Incoming,
    frames: types::connect::Frames,
    /// The connection ends with it.
    _way: Line,
}

impl Talk {
    fn new(body: Incoming, way: Line) -> Self {
        Self { body, frames: types::connect::Frames::new(MOST_MESSAGE), _way: way }
    }

    /// The next thing that is said; `None` at the end, or where it is no talk any more.
    async fn next(&mut self) -> Option<Heard> {
        loop {
            match self.frames.next_frame() {
                Ok(Some((flag, message))) => {
                    return if flag & types::connect::END == 0 { heard(message) } else { None };
                }
                Ok(None) => {}
                Err(_) => return None,
            }
            let piece = self.body.frame().await?.ok()?;
            if let Ok(data) = piece.into_data() {
                self.frames.push(&data);
            }
        }
    }

    /// Waits until our program is about to run: its number, and the folders that the shell looks for programs in.
    async fn arrive(&mut self) -> Result<(u32, Vec<String>), E2bError> {
        let (mut pid, mut said) = (None, Vec::new());
        loop {
            match self.next().await {
                Some(Heard::Pid(number)) => pid = Some(number),
                Some(Heard::Err(bytes)) => {
                    said.extend(bytes);
                    // Whatever a profile says stands before it.
                    if let (Some(pid), true) = (pid, said.ends_with(b"\n") && said.contains(&b'/')) {
                        return Ok((pid, folders(&said)));
                    }
                }
                Some(Heard::Over(code)) => {
                    let why = UNFIT.iter().find(|(unfit, _)| *unfit == code).map(|(_, why)| *why);
                    return Err(why.map_or(E2bError::Gone { said: None }, |why| E2bError::Unfit { why }));
                }
                Some(Heard::Out(bytes)) => said.extend(bytes),
                Some(Heard::Nothing) => {}
                None => return Err(E2bError::Gone { said: None }),
            }
            if said.len() > MOST_SAID {
                return Err(E2bError::Garbled { step: "start our program" });
            }
        }
    }
}

/// The last line, cut into folders.
fn folders(said: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(said);
    let line = text.trim_end().rsplit('\n').next().unwrap_or_default();
    let plain = |folder: &&str| folder.starts_with('/') && !folder.chars().any(char::is_control);
    line.split(':').filter(plain).map(str::to_owned).collect()
}

fn heard(message: &[u8]) -> Option<Heard> {
    let Message { event, error } = serde_json::from_slice(message).ok()?;
    if error.is_some() {
        return None;
    }
    let decode = |text: &str| STANDARD.decode(text).ok();
    Some(match event {
        Some(Event { start: Some(started), .. }) => Heard::Pid(started.pid),
        Some(Event { data: Some(Data { stdout: Some(text), .. }), .. }) => Heard::Out(decode(&text)?),
        Some(Event { data: Some(Data { stderr: Some(text), .. }), .. }) => Heard::Err(decode(&text)?),
        Some(Event { end: Some(over), .. }) => Heard::Over(over.exit_code),
        _ => Heard::Nothing,
    })
}

async fn send(known: Known, mut line: Line, made: Made, pid: u32, mut orders: mpsc::Receiver<Vec<u8>>) {
    while let Some(frame) = orders.recv().await {
        if known.input(&mut line, &made, pid, &frame).await.is_err() {
            return;
        }
    }
}

/// Passes our program's frames on, until it or its time is over.
async fn receive(mut talk: Talk, into: mpsc::Sender<(FrameKind, Vec<u8>)>, longest: Duration) {
    let mut frames = Frames::default();
    let end = Instant::now() + longest;
    while let Ok(Some(heard)) = tokio::time::timeout_at(end, talk.next()).await {
        match heard {
            Heard::Out(bytes) => {
                if cut(&mut frames, &bytes, &into).await.is_err() {
                    return;
                }
            }
            Heard::Over(_) => return,
            Heard::Pid(_) | Heard::Err(_) | Heard::Nothing => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_the_last_line_of_what_was_said() {
        assert_eq!(folders(b"mesg: ttyname failed\n/usr/bin:relative:/opt/a b/bin\n"), ["/usr/bin", "/opt/a b/bin"]);
        assert!(folders(b"/a\x1b[1m:\xff\n").is_empty());
    }

    #[test]
    fn drivers_know_where_they_lie() {
        let luggage = luggage();
        assert!(luggage.iter().all(|file| file.path.starts_with(FOLDER)));
        let text = |file: &Upload| String::from_utf8_lossy(&file.content).contains(OWN_FOLDER);
        let (own, drivers) = luggage.split_last().unwrap();
        assert!(!drivers.iter().any(text) && own.path.ends_with("/guest"));
    }

    #[test]
    fn what_is_no_event_ends_the_talk() {
        for message in [&b"{"[..], b"[]", br#"{"event":{"data":{"stdout":"?"}}}"#, br#"{"error":{"code":"internal"}}"#]
        {
            assert!(heard(message).is_none(), "{message:?}");
        }
        assert!(matches!(heard(br#"{"event":{"keepalive":{}}}"#), Some(Heard::Nothing)));
    }
}
