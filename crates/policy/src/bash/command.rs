//! What is known of programs by their names.

/// A command whose name is known.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) name: String,
    /// Whether what it runs comes from its standard input.
    pub(super) reads_program: bool,
}

/// Programs that start the program their arguments name, and how many words of their own they take.
const WRAPPERS: &[(&str, usize)] = &[
    ("sudo", 0),
    ("doas", 0),
    ("nohup", 0),
    ("exec", 0),
    ("command", 0),
    ("builtin", 0),
    ("busybox", 0),
    ("toybox", 0),
    ("setsid", 0),
    ("stdbuf", 0),
    ("nice", 0),
    ("ionice", 0),
    ("time", 0),
    ("timeout", 1),
    ("env", 0),
    ("chroot", 1),
    ("strace", 0),
    ("watch", 0),
    ("unbuffer", 0),
];

/// Flags of wrappers that take a word.
const WITH_WORD: &[&str] = &["-n", "-u", "-g", "-k", "-s", "-o", "-e", "-i", "-C", "-h", "-p"];

/// The words of the program that is really started.
pub(super) fn unwrap(words: &[Option<String>]) -> &[Option<String>] {
    let mut words = words;
    for _ in 0..8 {
        let Some((Some(first), rest)) = words.split_first() else { return words };
        let name = first.rsplit('/').next().unwrap_or(first);
        let Some((_, own)) = WRAPPERS.iter().find(|(wrapper, _)| *wrapper == name) else { return words };
        let mut skip = 0;
        while let Some(Some(word)) = rest.get(skip) {
            if name == "env" && word.contains('=') && !word.starts_with('-') {
                skip += 1;
            } else if word.starts_with('-') {
                let takes = WITH_WORD.contains(&word.as_str()) && name != "env" && name != "stdbuf" && name != "exec";
                skip += 1 + usize::from(takes);
            } else {
                break;
            }
        }
        match rest.get(skip + own..) {
            Some(inner) if !inner.is_empty() => words = inner,
            _ => return words,
        }
    }
    words
}

pub(super) fn is_shell(name: &str) -> bool {
    matches!(name, "sh" | "bash" | "zsh" | "dash" | "ksh" | "ash" | "fish" | "csh" | "tcsh" | "rbash")
}

pub(super) fn is_interpreter(name: &str) -> bool {
    is_shell(name)
        || matches!(name, "perl" | "ruby" | "php" | "node" | "lua")
        || name.strip_prefix("python").is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

/// Programs that bring text from elsewhere, or out of hiding.
pub(super) fn fetches(name: &str) -> bool {
    matches!(
        name,
        "curl" | "wget" | "nc" | "ncat" | "netcat" | "socat" | "base64" | "base32" | "xxd" | "openssl" | "ftp"
    )
}

/// Whether the program runs its standard input: it has no file and no text to run.
pub(super) fn reads_program(name: &str, rest: &[Option<String>]) -> bool {
    if !is_interpreter(name) {
        return false;
    }
    let takes_text = |word: &str| {
        matches!(word, "-c" | "-e" | "-m" | "-p" | "--eval")
            || (is_shell(name) && !word.starts_with("--") && word.contains('c'))
    };
    for word in rest {
        match word.as_deref() {
            Some("-s" | "-") => return true,
            Some(word) if word.starts_with('-') => {
                if takes_text(word) {
                    return false;
                }
            }
            _ => return false,
        }
    }
    true
}
