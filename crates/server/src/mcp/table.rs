//! Every tool, as clients are told of it. Data only; what a tool does is in `runs` and `sessions`.

use rmcp::model::{JsonObject, ToolAnnotations};
use serde_json::Value;

use super::schema;
use crate::identity::Scope;

/// A tool.
pub(super) struct Tool {
    pub(super) name: &'static str,
    title: &'static str,
    description: &'static str,
    effect: Effect,
    /// Whether it can be given a way out to the network.
    open_world: bool,
    input: fn() -> Value,
    output: fn() -> Value,
}

/// What a tool does to what is there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// Nothing.
    Reads,
    /// Makes something new, or what is gone afterwards.
    Adds,
    /// Can change or remove what is there.
    Changes,
}

impl Tool {
    /// In the order of the contract.
    pub(super) const ALL: &'static [Self] = &[
        Self {
            name: "run",
            title: "Run a program",
            description: "Run one program in a fresh sandbox and return its exit code, stdout, stderr, exception and the \
files it made. Nothing of it is left afterwards; use the session tools to keep files or variables. The program runs in \
/work, without network unless `network` is `open`, and is killed at its limits: 30 s and 512 MiB unless `limits` says \
otherwise. Files that it writes are listed; name them in `collect` to get their content.",
            effect: Effect::Adds,
            open_world: true,
            input: schema::run,
            output: schema::exec_result,
        },
        Self {
            name: "exec",
            title: "Run a command",
            description: "Run one command, such as [\"pytest\", \"-q\"], in a fresh sandbox with the files given. No shell is \
involved: use [\"bash\", \"-c\", \"…\"] for pipes. Same answer and same limits as `run`.",
            effect: Effect::Adds,
            open_world: true,
            input: schema::exec,
            output: schema::exec_result,
        },
        Self {
            name: "check",
            title: "Check code without running it",
            description: "Say what a program would do, without running it: syntax errors, imports, dangerous calls, each with \
line, severity and rule, and whether `policy` would refuse it.",
            effect: Effect::Reads,
            open_world: false,
            input: schema::check,
            output: schema::check_result,
        },
        Self {
            name: "judge",
            title: "Score code against test cases",
            description: "Run code against cases and score it from 0 to 1. A case calls the function `entry` (`args`, \
`expected`), runs the program (`stdin`, `stdout`) or is a test of its own (`test`: assert lines, unittest or pytest). The \
answer has a verdict for each case and feedback on what to repair.",
            effect: Effect::Adds,
            open_world: true,
            input: schema::judge,
            output: schema::judged,
        },
        Self {
            name: "session_create",
            title: "Create a session",
            description: "Create a sandbox that stays: files in /work, interpreters with their variables, and processes are \
there for the next call. Returns its `id`, which the other session tools take as `session`. It ends after an hour unless \
`ttl_ms` says otherwise, or with `session_kill`.",
            effect: Effect::Adds,
            open_world: true,
            input: schema::session_create,
            output: schema::session_info,
        },
        Self {
            name: "session_run",
            title: "Run code in a session",
            description: "Run code in the session's interpreter, as in a notebook: variables and imports stay for the next \
call. The value of the last expression and everything shown (tables, matplotlib figures) come back as `results`; plots are \
returned as images. An exception ends the cell, not the interpreter.",
            effect: Effect::Changes,
            open_world: false,
            input: schema::session_run,
            output: schema::cell_result,
        },
        Self {
            name: "session_exec",
            title: "Run a command in a session",
            description: "Run a command in the session to its end, in /work unless `cwd` says otherwise. No shell is involved: \
use [\"bash\", \"-c\", \"…\"] for pipes, and `&` in it for what should go on running.",
            effect: Effect::Changes,
            open_world: false,
            input: schema::session_exec,
            output: schema::exec_result,
        },
        Self {
            name: "session_write_file",
            title: "Write a file in a session",
            description: "Make or replace a file of the session, with the folders above it. Relative paths begin at /work.",
            effect: Effect::Changes,
            open_world: false,
            input: schema::session_write_file,
            output: schema::file_entry,
        },
        Self {
            name: "session_read_file",
            title: "Read a file of a session",
            description: "Read a file of the session: text as text, images as images, anything else as base64. Long files come \
in parts: 256 KiB from `offset` unless `most_bytes` says otherwise; `truncated` tells that there is more.",
            effect: Effect::Reads,
            open_world: false,
            input: schema::session_read_file,
            output: schema::file_content,
        },
        Self {
            name: "session_ls",
            title: "List files of a session",
            description: "List what is in a folder of the session, /work if none is named; `depth` looks further down.",
            effect: Effect::Reads,
            open_world: false,
            input: schema::session_ls,
            output: schema::entries,
        },
        Self {
            name: "session_snapshot",
            title: "Keep a session's files as they are",
            description: "Keep the files of the session as they are now, in milliseconds, for `session_rollback` or for \
`session_create` with `from`. Processes go on; memory is not kept.",
            effect: Effect::Adds,
            open_world: false,
            input: schema::session_snapshot,
            output: schema::snapshot,
        },
        Self {
            name: "session_rollback",
            title: "Put a session's files back",
            description: "Put the files of the session back to a snapshot. All its processes and interpreters end, and what was \
written since is lost.",
            effect: Effect::Changes,
            open_world: false,
            input: schema::session_rollback,
            output: schema::session_info,
        },
        Self {
            name: "session_fork",
            title: "Copy a session",
            description: "Make copies of the session that begin with its files and without its processes, to try several things \
from one state.",
            effect: Effect::Adds,
            open_world: false,
            input: schema::session_fork,
            output: schema::session_list,
        },
        Self {
            name: "session_kill",
            title: "End a session",
            description: "End the session: its processes are killed and its files are gone. Snapshots stay.",
            effect: Effect::Changes,
            open_world: false,
            input: schema::session_only,
            output: schema::killed,
        },
        Self {
            name: "session_list",
            title: "List sessions",
            description: "List the sessions that live, oldest first.",
            effect: Effect::Reads,
            open_world: false,
            input: schema::nothing,
            output: schema::session_list,
        },
    ];

    /// The tool of this name. The command line's words for files are understood too.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        let name = match name {
            "session_put" => "session_write_file",
            "session_get" => "session_read_file",
            name => name,
        };
        Self::ALL.iter().find(|tool| tool.name == name)
    }

    /// What a key must be for to call it.
    pub(super) fn scope(&self) -> Scope {
        match self.name {
            "run" | "exec" | "check" => Scope::Run,
            "judge" => Scope::Judge,
            _ => Scope::Session,
        }
    }

    /// As the protocol tells of it.
    pub(super) fn listed(&self) -> rmcp::model::Tool {
        let annotations = ToolAnnotations::with_title(self.title)
            .read_only(self.effect == Effect::Reads)
            .destructive(self.effect == Effect::Changes)
            .idempotent(self.effect == Effect::Reads)
            .open_world(self.open_world);
        rmcp::model::Tool::new(self.name, self.description, object((self.input)()))
            .with_title(self.title)
            .with_raw_output_schema(object((self.output)()).into())
            .with_annotations(annotations)
    }
}

fn object(schema: Value) -> JsonObject {
    match schema {
        Value::Object(object) => object,
        _ => JsonObject::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_come_in_the_order_of_the_contract_and_say_what_they_take_and_give() {
        let names: Vec<&str> = Tool::ALL.iter().map(|tool| tool.name).collect();
        assert_eq!(names[..4], ["run", "exec", "check", "judge"]);
        assert!(names[4..].iter().all(|name| name.starts_with("session_")));
        for tool in Tool::ALL {
            let listed = tool.listed();
            assert_eq!(listed.input_schema["type"], "object", "{}", tool.name);
            assert_eq!(listed.input_schema["additionalProperties"], false, "{}", tool.name);
            assert_eq!(listed.output_schema.unwrap()["type"], "object", "{}", tool.name);
            assert!(tool.description.len() < 700, "{}", tool.name);
        }
    }
}
