//! What tools give.

use serde_json::{Value, json};

use super::{output, with};

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

pub(in crate::mcp) fn exec_result() -> Value {
    output(result_properties(), &RESULT)
}

pub(in crate::mcp) fn cell_result() -> Value {
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

pub(in crate::mcp) fn check_result() -> Value {
    let properties = json!({
        "ok": { "type": "boolean", "description": "Whether nothing blocks and the syntax is right" },
        "language": { "type": ["string", "null"] },
        "policy": { "type": "string" },
        "findings": findings(),
        "syntax_error": { "type": ["object", "null"], "description": "{line, column, message}" },
        "points": { "type": "integer" },
        "refused_by": { "type": ["string", "null"], "description": "The rule that blocks" },
    });
    output(properties, &["ok", "policy", "findings", "points"])
}

pub(in crate::mcp) fn judged() -> Value {
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

pub(in crate::mcp) fn session_info() -> Value {
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

pub(in crate::mcp) fn session_list() -> Value {
    output(json!({ "sessions": { "type": "array", "items": session_info() } }), &["sessions"])
}

pub(in crate::mcp) fn file_entry() -> Value {
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

pub(in crate::mcp) fn entries() -> Value {
    output(json!({ "entries": { "type": "array", "items": file_entry() } }), &["entries"])
}

pub(in crate::mcp) fn file_content() -> Value {
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

pub(in crate::mcp) fn snapshot() -> Value {
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

pub(in crate::mcp) fn killed() -> Value {
    output(json!({ "id": { "type": "string" }, "killed": { "type": "boolean" } }), &["id", "killed"])
}
