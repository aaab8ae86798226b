//! What tools take and give, as JSON Schema. Written by hand, because a model reads every word of it; tests hold it to the
//! types: each field of a request is here, and real answers fit (tests/mcp).

use serde_json::{Map, Value, json};

/// An object with these properties and no others.
fn input(properties: Value, required: &[&str]) -> Value {
    let mut schema = output(properties, required);
    schema["additionalProperties"] = false.into();
    schema
}

/// An object that has at least these properties.
fn output(properties: Value, required: &[&str]) -> Value {
    let mut schema = json!({ "type": "object", "required": required });
    schema["properties"] = properties;
    schema
}

/// The properties of `own`, and then of `common` those that `own` has not.
fn with(own: Value, common: Value) -> Value {
    let mut all = Map::new();
    for properties in [own, common] {
        let Value::Object(properties) = properties else { continue };
        for (name, schema) in properties {
            all.entry(name).or_insert(schema);
        }
    }
    Value::Object(all)
}

fn texts(description: &str) -> Value {
    json!({ "type": "array", "items": { "type": "string" }, "description": description })
}

fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

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
        "backend": { "enum": ["native", "docker", "e2b"], "default": "native" },
        "cold": { "type": "boolean", "description": "Start a fresh interpreter even if one waits" },
    })
}

pub(super) fn run() -> Value {
    let own = json!({
        "code": text("The program"),
        "language": language(),
        "file_name": { "type": ["string", "null"], "description": "Name of the program's file in /work" },
    });
    input(with(own, common()), &["code"])
}

pub(super) fn exec() -> Value {
    input(with(json!({ "argv": texts("The program and its arguments") }), common()), &["argv"])
}

pub(super) fn check() -> Value {
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

pub(super) fn judge() -> Value {
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

pub(super) fn session_only() -> Value {
    input(session(), &["session"])
}

pub(super) fn nothing() -> Value {
    input(json!({}), &[])
}

pub(super) fn session_create() -> Value {
    let number = |description: &str| json!({ "type": ["integer", "null"], "minimum": 0, "description": description });
    let properties = json!({
        "ttl_ms": number("How long it lives, in milliseconds; an hour by default"),
        "idle_ms": number("After so long without a process or a call it ends"),
        "limits": limits(),
        "network": network(),
        "env": environment(),
        "from": { "type": ["string", "null"], "description": "A snapshot to begin with" },
        "image": { "type": ["string", "null"], "description": "An imported image to begin with" },
        "backend": { "enum": ["native", "docker", "e2b"], "default": "native" },
        "metadata": { "type": "object", "additionalProperties": { "type": "string" }, "description": "Words of your own" },
    });
    input(properties, &[])
}

pub(super) fn session_run() -> Value {
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

pub(super) fn session_exec() -> Value {
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

pub(super) fn session_write_file() -> Value {
    let own = json!({
        "path": text("Where, such as src/main.py; relative paths begin at /work"),
        "text": text("Content, if it is text"),
        "base64": text("Content, if it is not"),
        "executable": { "type": "boolean", "description": "Whether it may be executed" },
    });
    input(with(session(), own), &["session", "path"])
}

pub(super) fn session_read_file() -> Value {
    let own = json!({
        "path": text("Which; relative paths begin at /work"),
        "offset": { "type": "integer", "minimum": 0, "description": "From which byte on" },
        "most_bytes": { "type": "integer", "minimum": 1, "description": "At most so many; 262144 by default, 8388608 at most" },
    });
    input(with(session(), own), &["session", "path"])
}

pub(super) fn session_ls() -> Value {
    let own = json!({
        "path": text("Which folder; /work by default"),
        "depth": { "type": "integer", "minimum": 1, "description": "How far down; 1 by default" },
    });
    input(with(session(), own), &["session"])
}

pub(super) fn session_snapshot() -> Value {
    let own = json!({
        "name": { "type": ["string", "null"], "description": "A name to find it by" },
        "note": text("Words of your own"),
        "kill": { "type": "boolean", "description": "End processes that are writing; otherwise they are an error" },
    });
    input(with(session(), own), &["session"])
}

pub(super) fn session_rollback() -> Value {
    input(with(session(), json!({ "snapshot": text("Id or name of the snapshot") })), &["session", "snapshot"])
}

pub(super) fn session_fork() -> Value {
    let own = json!({
        "count": { "type": "integer", "minimum": 1, "maximum": 64, "description": "How many copies; 1 by default" },
        "kill": { "type": "boolean", "description": "End processes that are writing; otherwise they are an error" },
    });
    input(with(session(), own), &["session"])
}

fn outcome() -> Value {
    json!({
        "type": "object", "required": ["kind"],
        "description": "How it ended: exited {code}, signaled {signal}, limit_exceeded {limit}, refused {rule} or cancelled",
        "properties": {
            "kind": { "enum": ["exited", "signaled", "limit_exceeded", "refused", "cancelled"] },
            "code": { "type": "integer" },
            "signal": { "type": "integer" },
            "limit": { "enum": ["wall", "cpu", "memory", "disk", "inodes", "pids"] },
            "rule": { "type": "string" },
        },
    })
}

fn usage() -> Value {
    output(
        json!({
            "wall_ms": { "type": "number" },
            "cpu_ms": { "type": "number" },
            "peak_memory_bytes": { "type": "integer" },
        }),
        &["wall_ms", "cpu_ms", "peak_memory_bytes"],
    )
}

fn objects(description: &str) -> Value {
    json!({ "type": "array", "items": { "type": "object" }, "description": description })
}

fn feedback() -> Value {
    objects("What to repair: {kind, message, hint, line?, case?}")
}

fn findings() -> Value {
    objects("What the static check saw: {rule, severity, points, line, column, message, blocks}")
}

fn isolation() -> Value {
    json!({ "type": "object", "description": "Layers between it and the host, and those that are missing" })
}

fn result_properties() -> Value {
    json!({
        "id": { "type": "string" },
        "ok": { "type": "boolean", "description": "Whether it exited with code 0" },
        "outcome": outcome(),
        "language": { "type": ["string", "null"] },
        "backend": { "type": "string" },
        "start": { "enum": ["warm", "cold"] },
        "compile": { "type": ["object", "null"], "description": "The compiler's own step: {ok, outcome, stdout, stderr, usage}" },
        "limits_hit": { "type": "array", "items": { "type": "string" } },
        "stdout": { "type": "string" },
        "stderr": { "type": "string" },
        "stdout_bytes": { "type": "integer" },
        "stderr_bytes": { "type": "integer" },
        "stdout_truncated": { "type": "boolean" },
        "stderr_truncated": { "type": "boolean" },
        "usage": usage(),
        "exception": { "type": ["object", "null"], "description": "{type, message, line, traceback}" },
        "files": objects("Files made or changed under /work: {path, bytes, sha256, change, base64?}"),
        "findings": findings(),
        "feedback": feedback(),
        "isolation": isolation(),
    })
}

const RESULT: [&str; 16] = [
    "id",
    "ok",
    "outcome",
    "backend",
    "start",
    "limits_hit",
    "stdout",
    "stderr",
    "stdout_bytes",
    "stderr_bytes",
    "usage",
    "files",
    "findings",
    "feedback",
    "isolation",
    "exception",
];

pub(super) fn exec_result() -> Value {
    output(result_properties(), &RESULT)
}

pub(super) fn cell_result() -> Value {
    let own = json!({
        "context": { "type": "string" },
        "execution_count": { "type": "integer" },
        "results": objects("What it showed, by MIME type; an image is {\"content\": n}: the n-th item of the content"),
        "main_result": { "type": ["integer", "null"], "description": "Which of results is the last expression's value" },
        "results_dropped": { "type": "integer" },
        "context_lost": { "type": "boolean", "description": "Whether the interpreter ended with it" },
    });
    let required: Vec<&str> =
        RESULT.into_iter().chain(["context", "execution_count", "results", "context_lost"]).collect();
    output(with(own, result_properties()), &required)
}

pub(super) fn check_result() -> Value {
    let properties = json!({
        "ok": { "type": "boolean", "description": "Whether nothing blocks and the syntax is right" },
        "language": { "type": ["string", "null"] },
        "policy": { "type": "string" },
        "findings": findings(),
        "syntax_error": { "type": ["object", "null"], "description": "{line, column, message}" },
        "points": { "type": "integer" },
    });
    output(properties, &["ok", "policy", "findings", "points"])
}

pub(super) fn judged() -> Value {
    let case = output(
        json!({
            "name": { "type": "string" },
            "passed": { "type": "boolean" },
            "verdict": { "type": "string" },
            "score": { "type": "number" },
            "output": { "type": "string" },
            "detail": { "type": "string" },
            "wall_ms": { "type": "number" },
            "trust": { "enum": ["separate", "shared"] },
        }),
        &["name", "passed", "verdict", "score"],
    );
    let properties = json!({
        "id": { "type": "string" },
        "score": { "type": "number", "minimum": 0, "maximum": 1 },
        "passed": { "type": "integer" },
        "total": { "type": "integer" },
        "all_passed": { "type": "boolean" },
        "cases": { "type": "array", "items": case },
        "feedback": feedback(),
        "findings": findings(),
        "usage": usage(),
        "isolation": isolation(),
    });
    output(properties, &["id", "score", "passed", "total", "all_passed", "cases", "feedback"])
}

pub(super) fn session_info() -> Value {
    let properties = json!({
        "id": { "type": "string", "description": "What the other session tools take as `session`" },
        "state": { "enum": ["running", "paused"] },
        "backend": { "type": "string" },
        "image": { "type": ["string", "null"] },
        "from": { "type": ["string", "null"] },
        "created": { "type": "string" },
        "expires": { "type": "string" },
        "idle_ms": { "type": ["integer", "null"] },
        "limits": { "type": "object" },
        "network": { "type": "string" },
        "metadata": { "type": "object" },
        "processes": { "type": "integer" },
        "isolation": isolation(),
    });
    output(properties, &["id", "state", "created", "expires", "limits", "network", "processes", "isolation"])
}

pub(super) fn session_list() -> Value {
    output(json!({ "sessions": { "type": "array", "items": session_info() } }), &["sessions"])
}

pub(super) fn file_entry() -> Value {
    let properties = json!({
        "name": { "type": "string" },
        "path": { "type": "string" },
        "type": { "enum": ["file", "folder", "link", "other"] },
        "bytes": { "type": "integer" },
        "mode": { "type": "integer" },
        "uid": { "type": "integer" },
        "gid": { "type": "integer" },
        "modified_ms": { "type": "integer" },
        "target": { "type": "string" },
    });
    output(properties, &["name", "path", "type", "bytes"])
}

pub(super) fn entries() -> Value {
    output(json!({ "entries": { "type": "array", "items": file_entry() } }), &["entries"])
}

pub(super) fn file_content() -> Value {
    let properties = json!({
        "path": { "type": "string" },
        "bytes": { "type": "integer", "description": "Size of the whole file" },
        "offset": { "type": "integer" },
        "truncated": { "type": "boolean", "description": "Whether there is more after this part" },
        "text": { "type": "string" },
        "base64": { "type": "string" },
        "mime_type": { "type": "string" },
        "image": { "type": "object", "description": "Which item of the content is the image: {content: n}" },
    });
    output(properties, &["path", "bytes", "offset", "truncated"])
}

pub(super) fn snapshot() -> Value {
    let properties = json!({
        "id": { "type": "string", "description": "What session_rollback takes as `snapshot`" },
        "name": { "type": ["string", "null"] },
        "note": { "type": "string" },
        "session": { "type": "string" },
        "created_ms": { "type": "integer" },
        "bytes": { "type": ["integer", "null"] },
    });
    output(properties, &["id", "name", "session", "created_ms"])
}

pub(super) fn killed() -> Value {
    output(json!({ "id": { "type": "string" }, "killed": { "type": "boolean" } }), &["id", "killed"])
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
