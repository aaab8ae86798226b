//! Texts that are dangerous wherever they stand.

use std::borrow::Cow;

/// Folders that nobody deletes or overwrites in good faith.
const SYSTEM: &[&str] =
    &["bin", "boot", "dev", "etc", "home", "lib", "lib64", "opt", "proc", "root", "sbin", "srv", "sys", "usr", "var"];

/// Whether the text is, or contains, a command that destroys a system or a home.
pub(crate) fn is_destructive(text: &str) -> bool {
    // Most texts have none of this: look before anything is copied.
    let hint = |pair: &[u8]| match pair {
        [before, b' ' | b'\t'] => matches!(before | 0x20, b'm' | b'd' | b'l' | b'r'),
        [b'|', b':'] => true,
        [a, b] => a | 0x20 == b'f' && b | 0x20 == b's',
        _ => false,
    };
    // In pieces without a way out of the middle: those are compared many bytes at a time.
    let has_any =
        |piece: &[u8]| piece.iter().fold(false, |any, byte| any | matches!(byte, b' ' | b'\t' | b'|' | b's' | b'S'));
    if !text.as_bytes().chunks(64).any(has_any) || !text.as_bytes().windows(2).any(hint) {
        return false;
    }
    let lower = text.to_ascii_lowercase();
    ["del /f /s /q", "rmdir /s /q", ":(){ :|:& };:", ":(){:|:&};:"].iter().any(|bad| lower.contains(bad))
        || lower.split([';', '|', '&', '\n', '#']).any(destroys)
}

/// The command that a word of it belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Other,
    Remove,
    Copy,
    Format,
}

/// One command. Each word is looked at once: a text of a thousand `rm` must not be read a thousand times.
fn destroys(command: &str) -> bool {
    let (mut of, mut recursive, mut root) = (Of::Other, false, false);
    for word in command.split_whitespace() {
        let bare = word.trim_start_matches(['"', '\'', '`', '(', '$', '{']);
        let name = bare.rsplit(['/', '"', '\'', '(', '`', '=', '!', ':']).next().unwrap_or(bare);
        if name == "rm" {
            (of, recursive, root) = (Of::Remove, false, false);
            continue;
        }
        match of {
            Of::Remove => {
                if let Some(flags) = bare.strip_prefix('-') {
                    recursive |= flags == "-recursive" || (!flags.starts_with('-') && flags.contains('r'));
                } else {
                    root |= is_root(word);
                }
                if recursive && root {
                    return true;
                }
            }
            Of::Copy if is_raw(bare) => return true,
            // It has something to format.
            Of::Format => return true,
            Of::Other | Of::Copy => {}
        }
        if name == "dd" {
            of = Of::Copy;
        } else if name == "mkfs" || name.starts_with("mkfs.") {
            of = Of::Format;
        }
    }
    false
}

/// `/`, a system folder, or a home: itself or all that is in it.
pub(crate) fn is_root(word: &str) -> bool {
    let word = word.trim_matches(['"', '\'', '`', ')', ']', ',']);
    if word.is_empty() {
        return false;
    }
    let word = word.trim_end_matches('/');
    // `/*`, `/?*` and `/[a-z]*` are all that is there.
    let word = match word.rsplit_once('/') {
        Some((folder, last)) if last.starts_with(['*', '?', '[']) => folder,
        _ => word,
    };
    let plain = plain_path(word);
    match plain.trim_end_matches('/') {
        // All that was there was slashes.
        "" | "~" | "$home" | "$HOME" | "${home}" | "${HOME}" => true,
        word => {
            let user = word.strip_prefix('~').is_some_and(|user| user.chars().all(char::is_alphanumeric));
            user || word.strip_prefix('/').is_some_and(|name| SYSTEM.iter().any(|folder| fits(name, folder)))
        }
    }
}

/// Whether a name, with `?` and `*` in it, may be this folder.
fn fits(name: &str, folder: &str) -> bool {
    match name.split_once(['?', '*']) {
        None => name == folder,
        Some((start, _)) => !start.is_empty() && folder.starts_with(start),
    }
}

/// Without `//`, `.` and `..`.
fn plain_path(path: &str) -> Cow<'_, str> {
    if !(path.contains("//") || path.contains("/.")) {
        return Cow::Borrowed(path);
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != ".." && !last.starts_with(['~', '$'])) => {
                parts.pop();
            }
            ".." if path.starts_with('/') => {}
            part => parts.push(part),
        }
    }
    match (path.starts_with('/'), parts.is_empty()) {
        (true, _) => Cow::Owned(format!("/{}", parts.join("/"))),
        (false, true) => Cow::Borrowed("."),
        (false, false) => Cow::Owned(parts.join("/")),
    }
}

/// A path in a folder of the system or of somebody's home.
pub(crate) fn is_system_path(path: &str) -> bool {
    // What programs write without harm.
    const HARMLESS: &[&str] =
        &["/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/full", "/dev/zero", "/dev/shm"];
    let path = &*plain_path(path);
    if HARMLESS.contains(&path) || path.starts_with("/dev/fd/") || path.starts_with("/dev/shm/") {
        return false;
    }
    if path.starts_with("/var/tmp/") {
        return false;
    }
    path == "~"
        || path.starts_with("~/")
        || path.starts_with("$HOME/.")
        || path.strip_prefix('/').and_then(|rest| rest.split('/').next()).is_some_and(|top| SYSTEM.contains(&top))
}

/// An argument of `dd` that reads or writes a raw device.
fn is_raw(word: &str) -> bool {
    word.starts_with("if=/dev") || word.strip_prefix("of=/dev").is_some_and(|device| !device.starts_with("/null"))
}

/// Three steps up or more.
pub(crate) fn climbs(text: &str) -> bool {
    text.contains("../../../") || text.contains("..\\..\\..\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_destroys_is_told_from_what_tidies() {
        for bad in [
            "rm -rf /",
            "rm -rf /*",
            "rm\t-rf\t/",
            "rm -rf /tmp/..",
            "rm -rf /./",
            "rm -rf /et?",
            "rm -rf ~root",
            "vim -c ':!rm -rf /'",
            "--action=exec=rm -rf /",
            "sudo rm -fr ~",
            "rm -r -f $HOME",
            "rm -rf --no-preserve-root / ",
            "RM -RF /etc",
            "dd if=/dev/zero of=/dev/sda",
            "dd of=/dev/sda if=x",
            "mkfs.ext4 /dev/sda1",
            "del /f /s /q c:\\",
            "cd x; rm -rf /usr",
            "bash -c 'rm -rf /'",
            ":(){ :|:& };:",
        ] {
            assert!(is_destructive(bad), "{bad}");
        }
        for good in [
            "rm -rf /tmp/build",
            "rm -rf /work/*",
            "rm -rf ../build",
            "rm -rf ./build/*",
            "rm -rf /t?",
            "rm -rf a/..",
            "rm -rf ./.",
            "rm -rf ./x",
            "rm file",
            "confirm -r /",
            "dd if=a of=b",
            "rm -rf build/*",
            "the form -rf / is",
            "add if=/dev",
            "please remove",
            "rm -f /work/x",
            "del x",
            "",
            "rm -rf node_modules",
        ] {
            assert!(!is_destructive(good), "{good}");
        }
    }

    #[test]
    fn paths_of_the_system_are_known() {
        for bad in
            ["/etc/passwd", "/usr/bin/x", "~/.ssh/authorized_keys", "/root/x", "/dev/sda", "//etc/x", "/work/../etc/x"]
        {
            assert!(is_system_path(bad), "{bad}");
        }
        for good in ["/dev/null", "/work/x", "/tmp/x", "x", "etc/passwd", "/dev/shm/x", "/var/tmp/x", "/data/x"] {
            assert!(!is_system_path(good), "{good}");
        }
    }
}
