//! Arguments of a call, read into the types of the contract. What is wrong with them is told to the model, not to the
//! protocol: so it can do better.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use types::{ErrorBody, ErrorCode};

use super::answer::Failed;

pub(super) type Arguments = Map<String, Value>;

/// All of them, as `T`.
pub(super) fn read<T: DeserializeOwned>(arguments: Arguments) -> Result<T, Failed> {
    serde_json::from_value(Value::Object(arguments)).map_err(|error| wrong(format!("the arguments are wrong: {error}")))
}

/// One that is text and must be there; the others stay.
pub(super) fn take_text(arguments: &mut Arguments, name: &str) -> Result<String, Failed> {
    match arguments.remove(name) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(wrong(format!("`{name}` must be text"))),
        None => Err(wrong(format!("`{name}` is missing"))),
    }
}

/// Fields that go with another tool.
pub(super) fn refuse(arguments: &Arguments, name: &str, instead: &str) -> Result<(), Failed> {
    if arguments.contains_key(name) {
        return Err(wrong(format!("`{name}` does not go here: {instead}")));
    }
    Ok(())
}

pub(super) fn wrong(message: String) -> Failed {
    let hint = "the tool's input schema says what each argument is".to_owned();
    Failed(ErrorBody { code: ErrorCode::InvalidRequest, message, hint })
}
