//! What is known of programs by their names.

use crate::language::Language;

/// A command whose name is known.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) name: String,
    /// Whether what it runs comes from its standard input.
    pub(super) reads_program: bool,
    /// What it prints, if that is known.
    pub(super) says: Option<String>,
}

/// Programs that start the program their arguments name, how many words of their own they take, and flags of theirs that
/// take a word.
const WRAPPERS: &[(&str, usize, &[&str])] = &[
    ("sudo", 0, &["-u", "-g", "-C", "-h", "-p", "-r", "-t", "-U", "-D"]),
    ("doas", 0, &["-u", "-C"]),
    ("nohup", 0, &[]),
    ("exec", 0, &["-a"]),
    ("command", 0, &[]),
    ("builtin", 0, &[]),
    ("busybox", 0, &[]),
    ("toybox", 0, &[]),
    ("setsid", 0, &[]),
    ("stdbuf", 0, &["-i", "-o", "-e"]),
    ("nice", 0, &["-n"]),
    ("ionice", 0, &["-c", "-n", "-p"]),
    ("time", 0, &["-o", "-f"]),
    ("timeout", 1, &["-k", "-s"]),
    ("env", 0, &["-u", "-C", "-S"]),
    ("chroot", 1, &[]),
    ("strace", 0, &["-e", "-o", "-p", "-s", "-u"]),
    ("watch", 0, &["-n"]),
    ("flock", 1, &["-w", "-E"]),
    ("unshare", 0, &[]),
    ("unbuffer", 0, &[]),
    ("coproc", 0, &[]),
    ("runuser", 0, &["-u", "-g", "-G"]),
    ("setpriv", 0, &["--reuid", "--regid", "--groups", "--inh-caps", "--bounding-set"]),
    ("taskset", 1, &[]),
    ("chrt", 1, &[]),
    ("prlimit", 0, &["-p", "--pid"]),
    ("systemd-run", 0, &["-p", "-u", "--unit", "--property"]),
    ("fakeroot", 0, &[]),
];

/// Programs that a pattern may mean.
const MEANT: &[&str] = &["rm", "dd", "mkfs", "shred", "wipefs", "bash", "sh", "dash", "python3", "curl", "wget", "nc"];

/// The program that a pattern in place of a name means: `/bin/r?`.
pub(super) fn meant(name: &str) -> Option<&'static str> {
    let is_pattern = name.contains(['?', '*', '[']) && name.len() <= 32;
    MEANT.iter().copied().find(|meant| is_pattern && fits(name.as_bytes(), meant.as_bytes()))
}

/// Whether a name fits a pattern of `?`, `*` and `[ ]`.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => (0..=name.len()).any(|skip| fits(rest, &name[skip..])),
        (Some((b'?', rest)), Some((_, name))) => fits(rest, name),
        (Some((b'[', rest)), Some((first, name))) => match rest.iter().position(|byte| *byte == b']') {
            Some(end) => (rest[..end].contains(first) || rest[..end].contains(&b'-')) && fits(&rest[end + 1..], name),
            None => false,
        },
        (Some((a, rest)), Some((b, name))) => a == b && fits(rest, name),
        _ => false,
    }
}

/// The words of the program that is really started.
pub(super) fn unwrap(words: &[Option<String>]) -> &[Option<String>] {
    let mut words = words;
    for _ in 0..8 {
        let Some((Some(first), rest)) = words.split_first() else { return words };
        let name = first.rsplit('/').next().unwrap_or(first);
        let Some((_, own, with_word)) = WRAPPERS.iter().find(|(wrapper, ..)| *wrapper == name) else { return words };
        if name == "command" && rest.first().is_some_and(|word| matches!(word.as_deref(), Some("-v" | "-V"))) {
            return words;
        }
        match rest.get(flags(rest, with_word, name == "env") + own..) {
            Some(inner) if !inner.is_empty() => words = inner,
            _ => return words,
        }
    }
    words
}

/// How many of these words are flags and what they take.
pub(super) fn flags(words: &[Option<String>], with_word: &[&str], assignments: bool) -> usize {
    let mut skip = 0;
    while let Some(Some(word)) = words.get(skip) {
        if word.starts_with('-') {
            skip += 1 + usize::from(with_word.contains(&word.as_str()));
        } else if assignments && word.contains('=') {
            skip += 1;
        } else {
            break;
        }
    }
    skip
}

/// Flags of `xargs` and `parallel` that take a word.
pub(super) const XARGS: &[&str] =
    &["-I", "-i", "-n", "-L", "-P", "-s", "-d", "-E", "-a", "-j", "--max-args", "--max-procs"];

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

/// The text that an interpreter of another language gets to run.
pub(super) fn code_of(name: &str, rest: &[Option<String>]) -> Option<(Language, Option<String>)> {
    let (language, wanted): (_, &[&str]) = match name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.') {
        "python" | "pypy" => (Language::Python, &["-c"]),
        "node" | "nodejs" | "bun" => (Language::JavaScript, &["-e", "--eval", "-p", "--print", "-pe"]),
        _ => return None,
    };
    for (place, word) in rest.iter().enumerate() {
        let Some(word) = word.as_deref() else { continue };
        let next = || rest.get(place + 1).cloned().flatten();
        if wanted.contains(&word) {
            return Some((language, next()));
        }
        // `-m timeit code`
        if language == Language::Python && word == "-m" {
            let runs = next().is_some_and(|module| module == "timeit");
            let code = rest.iter().skip(place + 2).flatten().filter(|word| !word.starts_with('-')).cloned();
            return runs.then(|| (language, Some(code.collect::<Vec<_>>().join("\n"))));
        }
        if let Some(code) = word.strip_prefix("--eval=").or_else(|| word.strip_prefix("--print=")) {
            return Some((language, Some(code.to_owned())));
        }
        // `-Sc code`, `-ccode`
        if let (Language::Python, Some(flags)) = (language, word.strip_prefix('-')) {
            let own = flags.find(|c: char| !"bBdEhiIOPqRsSuvVx".contains(c)).unwrap_or(flags.len());
            if let Some(code) = flags.get(own..).and_then(|rest| rest.strip_prefix('c')) {
                return Some((language, if code.is_empty() { next() } else { Some(code.to_owned()) }));
            }
        } else {
            break;
        }
    }
    None
}

/// The language of what an interpreter reads from its standard input, if it is no shell.
pub(super) fn language_of(name: &str) -> Option<Language> {
    match name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.') {
        "python" | "pypy" => Some(Language::Python),
        "node" | "nodejs" => Some(Language::JavaScript),
        _ => None,
    }
}

fn is_standard_input(word: &str) -> bool {
    matches!(word, "-" | "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0")
}

/// Whether the program runs its standard input: it has no file and no text to run.
pub(super) fn reads_program(name: &str, rest: &[Option<String>]) -> bool {
    if matches!(name, "source" | ".") {
        return rest.first().is_some_and(|word| word.as_deref().is_some_and(is_standard_input));
    }
    if !is_interpreter(name) {
        return false;
    }
    let takes_text = |word: &str| {
        if is_shell(name) {
            !word.starts_with("--") && word.contains('c')
        } else {
            matches!(word, "-c" | "-e" | "-m" | "-p" | "--eval")
        }
    };
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        match word.as_deref() {
            Some("-s") => return true,
            Some(word) if is_standard_input(word) => return true,
            Some(word) if word.starts_with(['-', '+']) => {
                if takes_text(word) {
                    return false;
                }
                if is_shell(name) && matches!(word, "-o" | "+o" | "-O" | "+O" | "--rcfile" | "--init-file") {
                    words.next();
                }
            }
            _ => return false,
        }
    }
    true
}
