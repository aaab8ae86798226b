//! What tools take.

use serde_json::{Value, json};

use super::{input, text, texts, with};

fn environment() -> Value {
    json!({
        "type": "object", "additionalProperties": { "type": "string" },
        "description": "Environment variables on top of the minimal environment",
    })
}

fn limits() -> Value {
    let amount = |description: &str| json!({ "type": ["number", "null"], "description": description });
    json!({
        "type": "object", "additionalProperties": false,
        "description": "Limits; what is left out has its default, what is above the ceiling is refused",
        "properties": {
            "wall_ms": amount("Time on the clock in milliseconds; 30000 by default"),
            "cpu_ms": amount("Time on the processors in milliseconds"),
            "memory_mb": amount("Memory of the whole tree in MiB; 512 by default"),
            "cpus": amount("Processors; 1.0 by default"),
            "pids": amount("Processes and threads at once; 64 by default"),
            "disk_mb": amount("MiB that can be written; 100 by default"),
            "inodes": amount("Files and folders that can be made; 20000 by default"),
            "output_kb": amount("KiB kept of each output, head and tail; 100 by default"),
        },
    })
}

fn policy(default: &str) -> Value {
    json!({
        "enum": ["off", "report", "guard", "strict"], "default": default,
        "description": "What the static check refuses: nothing (off, report), what is critical (guard), all that is doubtful (strict)",
    })
}

fn language() -> Value {
    text("python (default), bash, node, typescript, c, cpp, rust, go, java, ruby, perl, php, lua or r")
}

fn files() -> Value {
    json!({
        "type": "array", "description": "Files placed in /work beforehand",
        "items": {
            "type": "object", "required": ["path"],
            "properties": {
                "path": text("Below /work, such as data/input.csv"),
                "text": text("Content, if it is text"),
                "base64": text("Content, if it is not"),
            },
        },
    })
}

fn network() -> Value {
    json!({
        "enum": ["none", "open"], "default": "none",
        "description": "`open` is a way out, where the server's settings allow it; never to the host itself",
    })
}

/// What a run takes beside its program.
fn common() -> Value {
    json!({
        "args": texts("Arguments of the program"),
        "stdin": text("What it reads on standard input"),
        "files": files(),
        "env": environment(),
        "limits": limits(),
        "network": network(),
        "policy": policy("report"),
        "allow_imports": texts("If not empty, the code may import nothing else"),
        "deny_imports": texts("What the code may not import"),
        "policy_file": { "type": ["object", "null"], "description": "Lists and rules on top of the built-in ones" },
        "review": { "type": "boolean", "description": "Let a model review the program first, if one is set up" },
        "collect": texts("Globs of files to return with their content, such as out/*.csv or **"),
        "image": { "type": ["string", "null"], "description": "An imported image to run in" },
        "backend": { "enum": ["native", "docker", "e2b"], "description": "By the settings of the server if absent." },
        "cold": { "type": "boolean", "description": "Start a fresh interpreter even if one waits" },
    })
}

pub(in crate::mcp) fn run() -> Value {
    let own = json!({
        "code": text("The program"),
        "language": language(),
        "file_name": { "type": ["string", "null"], "description": "Name of the program's file in /work" },
    });
    input(with(own, common()), &["code"])
}

pub(in crate::mcp) fn exec() -> Value {
    input(with(json!({ "argv": texts("The program and its arguments") }), common()), &["argv"])
}

pub(in crate::mcp) fn check() -> Value {
    let own = json!({
        "code": text("The program"),
        "language": language(),
        "argv": texts("A command in place of code"),
        "policy": policy("guard"),
    });
    let Value::Object(mut all) = with(own, common()) else { return Value::Null };
    let asked =
        ["code", "language", "argv", "policy", "files", "allow_imports", "deny_imports", "policy_file", "review"];
    all.retain(|name, _| asked.contains(&name.as_str()));
    input(Value::Object(all), &[])
}

pub(in crate::mcp) fn judge() -> Value {
    let anything = |description: &str| json!({ "description": description });
    let case = json!({
        "type": "object",
        "properties": {
            "name": text("Shown in the answer"),
            "args": { "type": ["array", "null"], "description": "Arguments of `entry`; {\"$py\": \"(1, {2})\"} for what JSON cannot say" },
            "kwargs": { "type": ["object", "null"], "description": "Arguments by name" },
            "expected": anything("What must come back; null is None"),
            "expected_type": { "type": ["string", "null"], "description": "Such as int or list[str]" },
            "expected_exception": { "type": ["string", "null"], "description": "The exception that must be raised" },
            "expected_message": { "type": ["string", "null"], "description": "A regular expression for its message" },
            "stdin": { "type": ["string", "null"], "description": "What the program reads" },
            "stdout": { "type": ["string", "null"], "description": "What it must write" },
            "exit_code": { "type": ["integer", "null"], "description": "How it must exit; 0 by default" },
            "argv": texts("Arguments of the program"),
            "test": { "type": ["string", "null"], "description": "A test program: assert lines, check(candidate), unittest or pytest" },
            "test_setup": { "type": ["string", "null"], "description": "Trusted code that the test needs" },
            "runner": { "enum": ["auto", "script", "check", "unittest", "pytest"] },
            "compare": { "type": ["object", "null"], "description": "How answers are compared: {\"kind\": \"exact|float|unordered|rstrip|lines|tokens|regex|json|checker\", …}" },
            "weight": { "type": ["number", "null"], "description": "Its part of the score; 1 by default" },
            "timeout_ms": { "type": ["number", "null"], "description": "Its own time limit" },
            "hidden": { "type": "boolean", "description": "Show its verdict and nothing else" },
            "group": { "type": ["string", "null"], "description": "The subtask it belongs to" },
        },
    });
    let properties = json!({
        "code": text("The code under test"),
        "language": language(),
        "entry": text("What cases call: f, Class.method or Class().method"),
        "cases": { "type": "array", "items": case, "description": "What the code is run against" },
        "setup": text("Code that is run before it"),
        "module": text("What tests import the code by, beside `solution` and `main`"),
        "task_id": anything("Your own name for the task, given back with the answer"),
        "limits": limits(),
        "files": files(),
        "env": environment(),
        "policy": policy("report"),
        "network": network(),
        "stop": { "enum": ["never", "first_failure"], "default": "never" },
        "groups": { "type": "object", "description": "Subtasks: {name: {points, score: minimum|sum}}" },
        "determinism": { "type": "object", "description": "{hash_seed, timezone, locale, threads, clock: wall|cpu}" },
        "extract": { "enum": ["none", "fenced"], "description": "`fenced`: the code is in the last fenced block of `code`" },
        "sharing": { "enum": ["where_needed", "never"], "description": "Whether a test may share a process with the code" },
    });
    input(properties, &["code", "cases"])
}

fn session() -> Value {
    json!({ "session": text("The session's id, as session_create returned it") })
}

pub(in crate::mcp) fn session_only() -> Value {
    input(session(), &["session"])
}

pub(in crate::mcp) fn nothing() -> Value {
    input(json!({}), &[])
}

pub(in crate::mcp) fn session_create() -> Value {
    let number = |description: &str| json!({ "type": ["integer", "null"], "minimum": 0, "description": description });
    let properties = json!({
        "ttl_ms": number("How long it lives, in milliseconds; an hour by default"),
        "idle_ms": number("After so long without a process or a call it ends"),
        "limits": limits(),
        "network": network(),
        "env": environment(),
        "from": { "type": ["string", "null"], "description": "A snapshot to begin with" },
        "image": { "type": ["string", "null"], "description": "An imported image to begin with" },
        "backend": { "enum": ["native", "docker", "e2b"], "description": "By the settings of the server if absent." },
        "metadata": { "type": "object", "additionalProperties": { "type": "string" }, "description": "Words of your own" },
    });
    input(properties, &[])
}

pub(in crate::mcp) fn session_run() -> Value {
    let own = json!({
        "code": text("The code of this cell"),
        "language": text("python (default) or node"),
        "context": { "type": ["string", "null"], "description": "Which interpreter, if there is more than one" },
        "env": environment(),
        "cwd": { "type": ["string", "null"], "description": "Where the interpreter goes first, and stays" },
        "limits": limits(),
        "policy": policy("report"),
    });
    input(with(session(), own), &["session", "code"])
}

pub(in crate::mcp) fn session_exec() -> Value {
    let own = json!({
        "argv": texts("The program and its arguments"),
        "env": environment(),
        "stdin": text("What it reads on standard input"),
        "cwd": { "type": ["string", "null"], "description": "Where it begins; /work by default" },
        "user": { "enum": ["user", "root"], "default": "user", "description": "Who it is inside" },
        "limits": limits(),
        "policy": policy("report"),
    });
    input(with(session(), own), &["session", "argv"])
}

pub(in crate::mcp) fn session_write_file() -> Value {
    let own = json!({
        "path": text("Where, such as src/main.py; relative paths begin at /work"),
        "text": text("Content, if it is text"),
        "base64": text("Content, if it is not"),
        "executable": { "type": "boolean", "description": "Whether it may be executed" },
    });
    input(with(session(), own), &["session", "path"])
}

pub(in crate::mcp) fn session_read_file() -> Value {
    let own = json!({
        "path": text("Which; relative paths begin at /work"),
        "offset": { "type": "integer", "minimum": 0, "description": "From which byte on" },
        "most_bytes": { "type": "integer", "minimum": 1, "description": "At most so many; 262144 by default, 8388608 at most" },
    });
    input(with(session(), own), &["session", "path"])
}

pub(in crate::mcp) fn session_ls() -> Value {
    let own = json!({
        "path": text("Which folder; /work by default"),
        "depth": { "type": "integer", "minimum": 1, "description": "How far down; 1 by default" },
    });
    input(with(session(), own), &["session"])
}

pub(in crate::mcp) fn session_snapshot() -> Value {
    let own = json!({
        "name": { "type": ["string", "null"], "description": "A name to find it by" },
        "note": text("Words of your own"),
        "kill": { "type": "boolean", "description": "End processes that are writing; otherwise they are an error" },
    });
    input(with(session(), own), &["session"])
}

pub(in crate::mcp) fn session_rollback() -> Value {
    input(with(session(), json!({ "snapshot": text("Id or name of the snapshot") })), &["session", "snapshot"])
}

pub(in crate::mcp) fn session_fork() -> Value {
    let own = json!({
        "count": { "type": "integer", "minimum": 1, "maximum": 64, "description": "How many copies; 1 by default" },
        "kill": { "type": "boolean", "description": "End processes that are writing; otherwise they are an error" },
    });
    input(with(session(), own), &["session"])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use engine::{CellSpec, CommandSpec, SessionSpec, SnapshotSpec};
    use serde::Serialize;
    use types::ExecRequest;

    use super::*;

    fn names(value: &Value) -> BTreeSet<String> {
        value.as_object().unwrap().keys().cloned().collect()
    }

    /// Fields of the schema and of the type, without those that another tool has or none should.
    fn assert_same<T: Serialize + Default>(schema: &Value, beside: &[&str], left_out: &[&str]) {
        let mut own = names(&serde_json::to_value(T::default()).unwrap());
        own.extend(beside.iter().map(|name| (*name).to_owned()));
        own.retain(|name| !left_out.contains(&name.as_str()));
        assert_eq!(names(&schema["properties"]), own);
    }

    #[test]
    fn every_field_of_a_request_can_be_given() {
        assert_same::<ExecRequest>(&run(), &[], &["argv"]);
        assert_same::<ExecRequest>(&exec(), &[], &["code", "language", "file_name"]);
        assert_same::<SessionSpec>(&session_create(), &[], &[]);
        assert_same::<CellSpec>(&session_run(), &["session"], &[]);
        // Commands in the background have no tool.
        assert_same::<CommandSpec>(&session_exec(), &["session"], &["stdin_open", "terminal", "tag"]);
        assert_same::<SnapshotSpec>(&session_snapshot(), &["session"], &[]);
        assert_same::<types::LimitsSpec>(&limits(), &[], &[]);
    }
}
