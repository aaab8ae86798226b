//! Asks the user's own systemd for a delegated scope, over D-Bus.
//!
//! One method call on one socket: a D-Bus crate would be larger than the rest of the keeper.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::geteuid;

use super::prefix;
use crate::stage::HOST_TEXT;

/// How long systemd may take. It answers in milliseconds, in seconds where many ask at once on a slow machine, or not
/// at all.
const PATIENCE: Duration = Duration::from_secs(10);

/// The kind of a message that says a call failed.
const ERROR: u8 = 3;

/// Moves this process into a new delegated scope and returns its path in the hierarchy.
pub(super) fn own_scope() -> Option<String> {
    let uid = geteuid().as_raw();
    let mut bus = UnixStream::connect(format!("{HOST_TEXT}/run/user/{uid}/bus")).ok()?;
    bus.set_read_timeout(Some(PATIENCE)).ok()?;
    authenticate(&mut bus, uid)?;
    let unit = format!("{}.scope", prefix().trim_end_matches('-'));
    bus.write_all(&call(1, "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "Hello", None))
        .ok()?;
    let body = Marshal::start_transient_unit(&unit);
    let message = call(
        2,
        "org.freedesktop.systemd1",
        "/org/freedesktop/systemd1",
        "org.freedesktop.systemd1.Manager",
        "StartTransientUnit",
        Some(("ssa(sv)a(sa(sv))", &body)),
    );
    bus.write_all(&message).ok()?;
    wait_for(&mut bus, &unit)
}

fn authenticate(bus: &mut UnixStream, uid: u32) -> Option<()> {
    let hex = uid.to_string().bytes().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
    bus.write_all(format!("\0AUTH EXTERNAL {hex}\r\n").as_bytes()).ok()?;
    let mut answer = Vec::new();
    let mut byte = [0];
    while !answer.ends_with(b"\r\n") && answer.len() < 512 {
        bus.read_exact(&mut byte).ok()?;
        answer.push(byte[0]);
    }
    answer.starts_with(b"OK ").then_some(())?;
    bus.write_all(b"BEGIN\r\n").ok()
}

/// The reply names a job, not its end; that we have moved is the end. An error ends the wait too.
fn wait_for(bus: &mut UnixStream, unit: &str) -> Option<String> {
    bus.set_nonblocking(true).ok()?;
    let (mut heard, mut part) = (Vec::new(), [0; 512]);
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        let text = fs::read_to_string(format!("{HOST_TEXT}/proc/self/cgroup")).ok()?;
        if let Some(path) = text.lines().find_map(|line| line.strip_prefix("0::")).filter(|path| path.ends_with(unit)) {
            return Some(path.to_owned());
        }
        match bus.read(&mut part) {
            Ok(0) => return None,
            Ok(size) => heard.extend(&part[..size]),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => return None,
        }
        if refused(&heard) {
            return None;
        }
        sleep(Duration::from_millis(1));
    }
    None
}

/// Whether one of these messages is an error. Of each only its kind and its size are looked at.
fn refused(mut messages: &[u8]) -> bool {
    while let Some(&[b'l', kind, _, _, a, b, c, d, _, _, _, _, e, f, g, h]) = messages.first_chunk() {
        if kind == ERROR {
            return true;
        }
        let [body, fields] = [[a, b, c, d], [e, f, g, h]].map(|size| u32::from_le_bytes(size) as usize);
        messages = messages.get(16 + fields.next_multiple_of(8) + body..).unwrap_or_default();
    }
    false
}

/// A method call in little-endian wire form.
fn call(serial: u32, to: &str, path: &str, interface: &str, method: &str, body: Option<(&str, &[u8])>) -> Vec<u8> {
    let mut fields = Marshal::default();
    for (code, signature, value) in [(1, "o", path), (2, "s", interface), (3, "s", method), (6, "s", to)] {
        fields.align(8);
        fields.bytes.push(code);
        fields.signature(signature);
        fields.string(value);
    }
    if let Some((signature, _)) = body {
        fields.align(8);
        fields.bytes.push(8);
        fields.signature("g");
        fields.signature(signature);
    }
    let body = body.map_or(&[][..], |(_, body)| body);
    let mut out = Marshal { bytes: vec![b'l', 1, 0, 1] };
    out.number(length(body));
    out.number(serial);
    out.number(length(&fields.bytes));
    out.bytes.extend(&fields.bytes);
    out.align(8);
    out.bytes.extend(body);
    out.bytes
}

fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

/// The few types of D-Bus that the calls above need.
#[derive(Default)]
struct Marshal {
    bytes: Vec<u8>,
}

impl Marshal {
    /// Name, mode, properties (a delegated scope around the caller), no auxiliary units.
    fn start_transient_unit(unit: &str) -> Vec<u8> {
        let mut body = Self::default();
        body.string(unit);
        body.string("fail");
        body.array(8, |properties| {
            properties.align(8);
            properties.string("Delegate");
            properties.signature("b");
            properties.number(1);
            properties.align(8);
            properties.string("CollectMode");
            properties.signature("s");
            properties.string("inactive-or-failed");
            properties.align(8);
            properties.string("PIDs");
            properties.signature("au");
            // 0 is whoever calls: our own number would name another process where systemd has other numbers.
            properties.array(4, |pids| pids.number(0));
        });
        body.array(8, |_| {});
        body.bytes
    }

    fn align(&mut self, to: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(to), 0);
    }

    fn number(&mut self, number: u32) {
        self.align(4);
        self.bytes.extend(number.to_le_bytes());
    }

    fn string(&mut self, text: &str) {
        self.number(length(text.as_bytes()));
        self.bytes.extend(text.as_bytes());
        self.bytes.push(0);
    }

    fn signature(&mut self, text: &str) {
        self.bytes.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
        self.bytes.extend(text.as_bytes());
        self.bytes.push(0);
    }

    /// The length counts from the first element, after its alignment.
    fn array(&mut self, align: usize, fill: impl FnOnce(&mut Self)) {
        self.number(0);
        let slot = self.bytes.len() - 4;
        self.align(align);
        let start = self.bytes.len();
        fill(self);
        let size = length(&self.bytes[start..]);
        self.bytes[slot..slot + 4].copy_from_slice(&size.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_found_behind_other_messages() {
        let reply = |kind| {
            let mut message = call(1, "to", "/path", "interface", "method", Some(("s", &[1, 0, 0, 0, b'x', 0])));
            message[1] = kind;
            message
        };
        assert!(!refused(&[reply(2), reply(4)].concat()));
        assert!(!refused(&[reply(2), reply(ERROR)[..8].to_vec()].concat()));
        assert!(refused(&[reply(2), reply(4), reply(ERROR)].concat()));
    }
}
