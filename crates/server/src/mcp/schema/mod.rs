//! What tools take and give, as JSON Schema. Written by hand, because a model reads every word of it; tests hold it to the
//! types: each field of a request is here, and real answers fit (tests/mcp).

mod gives;
mod takes;

use serde_json::{Map, Value, json};

pub(super) use gives::{
    cell_result, check_result, entries, exec_result, file_content, file_entry, judged, killed, session_info,
    session_list, snapshot,
};
pub(super) use takes::{
    check, exec, judge, nothing, run, session_create, session_exec, session_fork, session_ls, session_only,
    session_read_file, session_rollback, session_run, session_snapshot, session_write_file,
};

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
