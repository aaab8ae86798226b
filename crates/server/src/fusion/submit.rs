//! `/submit`: a completion against the cases that come with it, as `SandboxFusion`'s `CommonOJDataset` judges them.

use engine::{Caller, Engine};
use evals::judge::{Compare, compare_outputs};
use serde_json::Value;
use tokio::sync::watch;

use super::Trouble;
use super::extract::extract;
use super::language;
use super::run::run_code_again;
use super::wire::{Case, Config, Evaluated, RunCode, RunCodeAnswer, Status, Submit, Tested};

/// Longer inputs and outputs of cases that passed are told by their ends.
const MOST_TOLD: usize = 1000;

/// Judges a submission.
pub(super) async fn submit(
    engine: &Engine,
    caller: &Caller,
    request: Submit,
    give_up: &watch::Receiver<bool>,
) -> Result<Evaluated, Trouble> {
    let Submit { dataset, id, completion, config } = request;
    let language = checked(&dataset, &config)?.to_owned();
    let cases = cases(&config)?;
    let code = extract(&completion, &language);
    // In its order: without a compiler there is more time for the program.
    let usual = if language::is_compiled(&language) { 10.0 } else { 20.0 };
    let mut run = RunCode {
        compile_timeout: config.compile_timeout.filter(|time| *time > 0.0).unwrap_or(10.0),
        run_timeout: config.run_timeout.filter(|time| *time > 0.0).unwrap_or(usual),
        memory_limit_mb: -1.0,
        code: code.clone(),
        stdin: None,
        language,
        files: std::collections::BTreeMap::new(),
        fetch_files: Vec::new(),
    };
    let mut built = None;
    let mut tests = Vec::new();
    for mut case in cases {
        run.stdin = case.input.get("stdin").cloned();
        let answer = run_code_again(engine, caller, &run, give_up.clone(), &mut built).await?;
        if answer.status == Status::SandboxError {
            // Neither right nor wrong can be said.
            return Err(Trouble::Unsupported(format!("a case could not be run: {}", answer.message)));
        }
        let passed = passes(&answer, &case);
        if passed && !config.extra.return_full_case {
            shorten(&mut case);
        }
        tests.push(Tested { passed, exec_info: answer, test_info: case });
        if !passed && !config.extra.run_all_cases {
            break;
        }
    }
    Ok(Evaluated {
        id,
        // No case at all is no proof of anything.
        accepted: !tests.is_empty() && tests.iter().all(|test| test.passed),
        extracted_code: code,
        full_code: None,
        test_code: None,
        tests,
        extracted_type: None,
        extra: None,
    })
}

/// The language, if this is something that can be judged.
fn checked<'a>(dataset: &str, config: &'a Config) -> Result<&'a str, Trouble> {
    let wrong = |why: String| Err(Trouble::Unsupported(why));
    let dataset: String = dataset.chars().take(100).collect();
    if config.provided_data.as_ref().is_none_or(Value::is_null) {
        return wrong(format!("there is no data set `{dataset}` here: send its row in config.provided_data"));
    }
    match config.dataset_type.as_deref() {
        None | Some("CommonOJDataset") => {}
        Some(other) => {
            let other: String = other.chars().take(100).collect();
            return wrong(format!("`{other}` is not judged here; CommonOJDataset is"));
        }
    }
    if config.custom_extract_logic.is_some() {
        return wrong("config.custom_extract_logic is code for the server, which runs none of its clients'".to_owned());
    }
    match config.language.as_deref() {
        None => wrong("config.language must be there".to_owned()),
        Some(language) => Ok(language),
    }
}

/// The cases of the row: a list, or a list as text.
fn cases(config: &Config) -> Result<Vec<Case>, Trouble> {
    let wrong = |why: String| Trouble::Unsupported(format!("config.provided_data cannot be used: {why}"));
    let test = config.provided_data.as_ref().and_then(|row| row.get("test"));
    let test = match test {
        Some(Value::String(text)) => serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?,
        Some(list) => list.clone(),
        None => return Err(wrong("it must be an object with `test`".to_owned())),
    };
    let cases: Vec<Case> = serde_json::from_value(test).map_err(|error| wrong(error.to_string()))?;
    if cases.iter().any(|case| !case.input.contains_key("stdin") || !case.output.contains_key("stdout")) {
        return Err(wrong("each case needs input.stdin and output.stdout".to_owned()));
    }
    Ok(cases)
}

fn passes(answer: &RunCodeAnswer, case: &Case) -> bool {
    let got = answer.run_result.as_ref().and_then(|step| step.stdout.as_deref()).unwrap_or_default();
    let expected = case.output.get("stdout").map(String::as_str).unwrap_or_default();
    answer.status == Status::Success && compare_outputs(expected, got, &Compare::Sandboxfusion).is_ok()
}

fn shorten(case: &mut Case) {
    for text in case.input.values_mut().chain(case.output.values_mut()).filter(|text| text.len() > MOST_TOLD) {
        let head = text.floor_char_boundary(MOST_TOLD / 2);
        let tail = text.ceil_char_boundary(text.len() - MOST_TOLD / 2);
        *text = format!("{}...{}", &text[..head], &text[tail..]);
    }
}
