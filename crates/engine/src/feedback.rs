//! What a model needs to repair its code: what happened, and what to try.
//!
//! Made from how the run ended and from the interpreter's own record, never from words in the output: a program that
//! prints `TypeError` has no `TypeError`.

use types::{Exception, ExecResult, Feedback, Finding, LimitKind, Limits, Outcome};

/// Reasons that are said back; all are among the findings.
const MOST_REASONS: usize = 10;

/// Exceptions and what usually mends them.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("NameError", "a name is used before it is defined, or misspelt; define or import it first"),
    (
        "UnboundLocalError",
        "a local variable is read before it is assigned; assign it first or declare it global or nonlocal",
    ),
    ("TypeError", "a value has the wrong type for this operation or call; check the arguments and their order"),
    ("ValueError", "a value has the right type but not a usable content; check or convert the input first"),
    ("IndexError", "an index is outside the sequence; check its length, and off-by-one errors in loops"),
    ("KeyError", "the key is not in the dictionary; use .get() or test with `in` first"),
    ("AttributeError", "the object has no such attribute; check its type, and whether it is None"),
    (
        "ModuleNotFoundError",
        "the module is not installed here and nothing can be downloaded; use the standard library or another installed package",
    ),
    ("ImportError", "the name cannot be imported from this module; check its spelling and the module's version"),
    ("IndentationError", "the indentation is not consistent; use four spaces for each level and no tabs"),
    ("TabError", "tabs and spaces are mixed; use four spaces for each level"),
    (
        "SyntaxError",
        "the code cannot be parsed at this line; look for a missing bracket, quote, colon or comma here or just before",
    ),
    ("ZeroDivisionError", "a divisor is zero; test for it before dividing"),
    ("RecursionError", "the recursion does not end or is too deep; check the base case, or use a loop"),
    ("TimeoutError", "an operation timed out; there is no network here, and waiting costs wall time"),
    ("MemoryError", "the memory limit was reached; process the data in parts, or keep less of it"),
    ("AssertionError", "an assertion does not hold; compare what the code computes with what the assertion expects"),
    ("FileNotFoundError", "the file does not exist in the sandbox; inputs are in /work, the working directory"),
    ("PermissionError", "the sandbox forbids this; only /work and /tmp can be written"),
    (
        "UnicodeDecodeError",
        "the bytes are not text in this encoding; open the file in binary mode or name its encoding",
    ),
    ("UnicodeEncodeError", "a character does not exist in this encoding; use UTF-8"),
    ("UnicodeError", "the text cannot be converted in this encoding; use UTF-8 or name the right one"),
    ("EOFError", "the program reads more input than there is; check how much it is given"),
    ("StopIteration", "an iterator is exhausted; give next() a default or use a for loop"),
    ("OverflowError", "a number is too large for this operation; use integers or check the range"),
    ("NotImplementedError", "a method is declared but not written; write it"),
    ("JSONDecodeError", "the text is not JSON; print it to see what it is"),
    ("BrokenPipeError", "the other end of a pipe is closed; stop writing to it"),
    ("ConnectionRefusedError", "there is no network in the sandbox but its own loopback"),
    ("ReferenceError", "a name is used before it is defined, or misspelt; declare it or require its module"),
    ("RangeError", "a value is outside its range, or the recursion does not end"),
    ("OSError", "the operating system refused this; the message says why"),
];

/// Signals that say something about the program.
const SIGNALS: &[(i32, &str, &str)] = &[
    (
        4,
        "SIGILL",
        "the program ran an instruction that does not exist; it may be built for another processor, or hit a trap",
    ),
    (6, "SIGABRT", "the program aborted itself: a failed assertion, a corrupted heap, or an uncaught C++ exception"),
    (
        7,
        "SIGBUS",
        "the program touched memory beyond the end of a mapped file, or the disk limit left no room behind a mapping",
    ),
    (8, "SIGFPE", "an integer was divided by zero or overflowed"),
    (9, "SIGKILL", "the program was killed, by itself or another process of the run"),
    (
        11,
        "SIGSEGV",
        "the program touched memory that is not its own: a null or stale pointer, an index out of bounds, or endless recursion",
    ),
    (13, "SIGPIPE", "the program wrote to a pipe whose reader was gone"),
    (15, "SIGTERM", "the program was asked to end, by itself or another process of the run"),
    (31, "SIGSYS", "the program used a system call of another architecture, which the sandbox does not allow"),
];

/// Everything worth saying about how a run ended.
pub(crate) fn for_result(result: &ExecResult, limits: &Limits, remarks: &[String]) -> Vec<Feedback> {
    let mut feedback = Vec::new();
    if let Some(compile) = result.compile.as_ref().filter(|compile| !compile.ok) {
        feedback.push(for_compile(compile));
    } else {
        feedback.extend(for_outcome(&result.outcome, limits));
    }
    feedback.extend(result.exception.as_ref().map(for_exception));
    for limit in &result.limits_hit {
        if result.outcome != (Outcome::LimitExceeded { limit: *limit }) {
            feedback.push(for_limit(*limit, limits));
        }
    }
    if result.stdout_truncated || result.stderr_truncated {
        feedback.push(new(
            "output_truncated",
            format!("output was cut to {} bytes per stream", limits.output),
            "print less; results belong into a file in /work",
        ));
    }
    feedback.extend(remarks.iter().map(|remark| {
        new("files", remark.clone(), "only regular files with plain names under /work are brought back")
    }));
    feedback
}

/// Why nothing was run: what blocks and what a reviewer remarked, each once.
pub(crate) fn for_refusal(findings: &[Finding]) -> Vec<Feedback> {
    let mut feedback: Vec<Feedback> = Vec::new();
    for finding in findings.iter().filter(|finding| finding.blocks || finding.rule.starts_with("review.")) {
        let is_told = |told: &Feedback| told.kind == finding.rule && told.message == finding.message;
        if feedback.len() < MOST_REASONS && !feedback.iter().any(is_told) {
            feedback.push(for_finding(finding));
        }
    }
    feedback
}

fn for_compile(compile: &types::Compile) -> Feedback {
    let first = |text: &str| text.lines().find(|line| line.contains("error")).map(str::to_owned);
    let message = first(&compile.stderr).or_else(|| first(&compile.stdout));
    let message = message.unwrap_or_else(|| match &compile.outcome {
        Outcome::LimitExceeded { limit } => format!("the compiler reached its {} limit", limit.name()),
        _ => "the code does not compile".to_owned(),
    });
    new(
        "compile_error",
        message.chars().take(500).collect(),
        "the compiler's messages are in `compile.stderr`; mend the first one first",
    )
}

fn for_outcome(outcome: &Outcome, limits: &Limits) -> Option<Feedback> {
    match outcome {
        Outcome::Exited { .. } | Outcome::Cancelled | Outcome::Refused { .. } => None,
        Outcome::LimitExceeded { limit } => Some(for_limit(*limit, limits)),
        Outcome::Signaled { signal } => {
            let known = SIGNALS.iter().find(|(number, ..)| number == signal);
            let (name, hint) =
                known.map_or(("a signal", "the program was ended from outside its own code"), |(_, n, h)| (n, h));
            Some(new("signal", format!("the program was ended by signal {signal} ({name})"), hint))
        }
    }
}

/// What a finding that refused a program, or came with that, means for whoever repairs it.
fn for_finding(finding: &Finding) -> Feedback {
    let hint = match finding.rule.as_str() {
        "review.failed" => "the program was not judged: ask again later, or see to the model's server",
        "review.unreadable" => "make it shorter, or plain UTF-8",
        _ => "write it without what was found, or make plain what that is for",
    };
    let line = finding.file.is_none().then_some(finding.line);
    Feedback { line, ..new(&finding.rule, finding.message.clone(), hint) }
}

fn for_limit(limit: LimitKind, limits: &Limits) -> Feedback {
    let (kind, message, hint) = match limit {
        LimitKind::Wall => (
            "time_limit",
            format!("the program did not end within {} s", limits.wall.as_secs_f64()),
            "look for an endless loop, a wait for input or network that never comes, or a slow algorithm",
        ),
        LimitKind::Cpu => (
            "cpu_limit",
            format!("the program used more than {} s of processor time", limits.cpu.unwrap_or_default().as_secs_f64()),
            "look for an endless loop or a slow algorithm",
        ),
        LimitKind::Memory => (
            "out_of_memory",
            format!("the program and its files reached the memory limit of {}", size(limits.memory)),
            "process the data in parts, or keep less of it; files in /work and /tmp count too",
        ),
        LimitKind::Disk => (
            "disk_limit",
            format!("files reached the disk limit of {}", size(limits.disk)),
            "write less, or delete what is no longer needed",
        ),
        LimitKind::Inodes => (
            "inode_limit",
            format!("the limit of {} files and folders was reached", limits.inodes),
            "make fewer files; put many small ones into one",
        ),
        LimitKind::Pids => (
            "process_limit",
            format!("the limit of {} processes and threads was reached", limits.pids),
            "start fewer processes and threads, and wait for those that ended",
        ),
    };
    new(kind, message, hint)
}

/// In whole units only: a limit is told as it was set.
fn size(bytes: u64) -> String {
    let fitting = [(20, "MiB"), (10, "KiB")].into_iter().find(|(bits, _)| bytes >> bits << bits == bytes);
    fitting.map_or_else(|| format!("{bytes} bytes"), |(bits, unit)| format!("{} {unit}", bytes >> bits))
}

/// What usually mends an exception of this class.
#[must_use]
pub fn hint_for_exception(kind: &str) -> &'static str {
    let known = EXCEPTIONS.iter().find(|(name, _)| *name == kind);
    known.map_or("the traceback names the line; mend it there or where its values come from", |(_, hint)| hint)
}

fn for_exception(exception: &Exception) -> Feedback {
    let hint = hint_for_exception(&exception.kind);
    let message: String = format!("{}: {}", exception.kind, exception.message).chars().take(500).collect();
    Feedback { line: exception.line, ..new(&exception.kind, message.trim_end_matches(": ").to_owned(), hint) }
}

fn new(kind: &str, message: String, hint: &str) -> Feedback {
    Feedback { kind: kind.to_owned(), message, hint: hint.to_owned(), line: None, case: None }
}
