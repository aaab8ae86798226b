//! Rows of the data sets that people have, as tasks.

use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value as Json, json};

use super::error::JudgeError;
use super::extract::extract_code;
use super::task::{Case, Compare, Extract, Task};

/// APPS and those after it give each test this long.
const CONTEST_MS: f64 = 6000.0;
/// `HumanEval`'s own evaluator and MBPP's give each program this long, and are used with more on slow machines.
const PROGRAM_MS: f64 = 10_000.0;

impl Task {
    /// Reads a task of our own or a row of a known data set, by what fields it has.
    pub fn from_any(text: &str) -> Result<Self, JudgeError> {
        let row: Row = serde_json::from_str(text).map_err(JudgeError::Task)?;
        let mut task = if row.cases.is_some() {
            Self::from_json(text)?
        } else if row.test.is_some() && row.entry_point.is_some() {
            row.humaneval()?
        } else if row.test_list.is_some() {
            row.mbpp()?
        } else {
            row.contest(text)?
        };
        if task.extract == Extract::Fenced {
            task.code = extract_code(&task.code, task.language());
            task.extract = Extract::None;
        }
        task.check()?;
        Ok(task)
    }
}

/// Every field that tells one kind of row from another.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Row {
    task_id: Option<Json>,
    question_id: Option<Json>,
    id: Option<Json>,
    language: Option<String>,
    cases: Option<Box<RawValue>>,
    completion: Option<String>,
    code: Option<String>,
    solution: Option<String>,
    canonical_solution: Option<String>,
    prompt: Option<Json>,
    test: Option<String>,
    entry_point: Option<String>,
    test_list: Option<Vec<String>>,
    test_setup_code: Option<String>,
    test_imports: Option<Vec<String>>,
    starter_code: Option<String>,
    input_output: Option<Json>,
    ground_truth: Option<Json>,
    inputs: Option<Json>,
    outputs: Option<Json>,
    fn_name: Option<String>,
    assert_case: Option<Json>,
    public_test_cases: Option<Json>,
    private_test_cases: Option<Json>,
    verification_info: Option<Json>,
    metadata: Option<Json>,
    comparator: Option<String>,
}

impl Row {
    fn name(&self) -> Option<Json> {
        self.task_id.clone().or_else(|| self.question_id.clone()).or_else(|| self.id.clone())
    }

    fn language(&self) -> &str {
        self.language.as_deref().unwrap_or("python")
    }

    /// What is to be judged: a model's completion before the row's own solution.
    fn program(&self) -> Result<String, JudgeError> {
        let found = [&self.completion, &self.code, &self.solution, &self.canonical_solution];
        let text = found.into_iter().flatten().next();
        let text = text.ok_or_else(|| JudgeError::Row("it has neither `completion` nor `code`".to_owned()))?;
        Ok(if text.contains("```") { extract_code(text, self.language()) } else { text.clone() })
    }

    fn humaneval(self) -> Result<Task, JudgeError> {
        let prompt = self.prompt.as_ref().and_then(Json::as_str).unwrap_or_default().to_owned();
        let entry = self.entry_point.clone().unwrap_or_default();
        // The prompt's own helpers are the test's, whatever the completion makes of them.
        let test_setup = Some(prompt.clone()).filter(|prompt| !prompt.is_empty());
        let test = self.test.clone();
        let case = Case { test, test_setup, timeout_ms: Some(PROGRAM_MS), ..Case::default() };
        let code = format!("{prompt}{}{}", if prompt.ends_with('\n') { "" } else { "\n" }, self.program()?);
        Ok(Task { task_id: self.name(), code, entry, cases: vec![case], ..Task::default() })
    }

    fn mbpp(self) -> Result<Task, JudgeError> {
        let mut lines = self.test_imports.clone().unwrap_or_default();
        lines.extend(self.test_setup_code.clone());
        let test_setup = Some(lines.join("\n")).filter(|setup| !setup.trim().is_empty());
        let case = |(index, test): (usize, String)| Case {
            name: format!("assert {}", index + 1),
            test: Some(test),
            test_setup: test_setup.clone(),
            timeout_ms: Some(PROGRAM_MS),
            ..Case::default()
        };
        let tests = self.test_list.clone().unwrap_or_default();
        let cases = tests.into_iter().enumerate().map(case).collect();
        Ok(Task { task_id: self.name(), code: self.program()?, cases, ..Task::default() })
    }

    /// `{inputs, outputs, fn_name}`, wherever the row has it, or a list of tests.
    fn contest(mut self, text: &str) -> Result<Task, JudgeError> {
        let nested = |json: Option<Json>| match json {
            Some(Json::String(text)) => serde_json::from_str::<Json>(&text).ok(),
            other => other,
        };
        if let Some(inner) = nested(self.input_output.take()).or_else(|| nested(self.ground_truth.take())) {
            self.inputs = inner.get("inputs").cloned();
            self.outputs = inner.get("outputs").cloned();
            self.assert_case = inner.get("assert_case").cloned();
            self.fn_name = inner.get("fn_name").and_then(Json::as_str).map(str::to_owned);
        }
        let mut tests = Vec::new();
        for (list, hidden) in [(self.public_test_cases.take(), false), (self.private_test_cases.take(), true)] {
            let Some(list) = list else { continue };
            let Some(Json::Array(list)) = nested(Some(list)) else {
                return Err(JudgeError::Row(
                    "packed tests are not unpacked: they can hold code; give them as JSON".to_owned(),
                ));
            };
            tests.extend(list.into_iter().map(|test| (test, hidden)));
        }
        if let Some(info) = nested(self.verification_info.take()) {
            self.language = info.get("language").and_then(Json::as_str).map(str::to_owned).or(self.language);
            let list = info.get("test_cases").and_then(Json::as_array).cloned().unwrap_or_default();
            tests.extend(list.into_iter().map(|test| (test, false)));
        }
        if let Some(metadata) = nested(self.metadata.take()) {
            self.fn_name = metadata.get("func_name").and_then(Json::as_str).map(str::to_owned).or(self.fn_name);
        }
        if let (Some(inputs), Some(outputs)) = (self.inputs.take(), self.outputs.take()) {
            tests.extend(pairs(inputs, outputs)?);
        }
        let code = self.program()?;
        let entry = self.fn_name.clone().map(|name| method_of(&code, &name)).unwrap_or_default();
        let mut cases = self.asserts();
        let compare = self.comparator(text)?;
        for (index, (test, hidden)) in tests.into_iter().enumerate() {
            let case = if entry.is_empty() { stdin_case(&test) } else { call_case(&test)? };
            let name = (index + 1).to_string();
            cases.push(Case { name, hidden, compare: compare.clone(), timeout_ms: Some(CONTEST_MS), ..case });
        }
        if cases.is_empty() {
            return Err(JudgeError::Row("it has no `cases`, and no tests of a known kind".to_owned()));
        }
        Ok(Task { task_id: self.name(), language: self.language.clone(), code, entry, cases, ..Task::default() })
    }

    fn asserts(&self) -> Vec<Case> {
        let lines = match &self.assert_case {
            Some(Json::String(text)) => vec![text.clone()],
            Some(Json::Array(lines)) => lines.iter().filter_map(Json::as_str).map(str::to_owned).collect(),
            _ => Vec::new(),
        };
        let case = |test| Case { test: Some(test), timeout_ms: Some(PROGRAM_MS), ..Case::default() };
        lines.into_iter().map(case).collect()
    }

    /// By name, or as the row's own ecosystem compares.
    fn comparator(&self, text: &str) -> Result<Option<Compare>, JudgeError> {
        let name = match &self.comparator {
            Some(name) => name.as_str(),
            None if text.contains("\"public_test_cases\"") => "livecodebench",
            None if text.contains("\"input_output\"") => "apps",
            // verl and open-r1 compare outputs as we do.
            None if self.fn_name.is_some() => "json",
            None => return Ok(None),
        };
        let compare = serde_json::from_value(json!({ "kind": name }));
        compare.map(Some).map_err(|_| JudgeError::Row(format!("there is no comparator `{name}`")))
    }
}

/// Contest code keeps its function in a class `Solution` as often as not.
fn method_of(code: &str, name: &str) -> String {
    let has = |start: &str| code.lines().any(|line| line.trim_end().starts_with(start));
    if has("class Solution") && !has(&format!("def {name}(")) { format!("Solution().{name}") } else { name.to_owned() }
}

fn pairs(inputs: Json, outputs: Json) -> Result<Vec<(Json, bool)>, JudgeError> {
    let (Json::Array(inputs), Json::Array(outputs)) = (inputs, outputs) else {
        return Err(JudgeError::Row("`inputs` and `outputs` must be lists".to_owned()));
    };
    if inputs.len() != outputs.len() {
        return Err(JudgeError::Row("`inputs` and `outputs` differ in length".to_owned()));
    }
    Ok(inputs
        .into_iter()
        .zip(outputs)
        .map(|(input, output)| (json!({"input": input, "output": output}), false))
        .collect())
}

/// Lines may be one text or a list of texts.
fn text_of(json: Option<&Json>) -> String {
    match json {
        Some(Json::String(text)) => text.clone(),
        Some(Json::Array(lines)) => lines.iter().map(|line| text_of(Some(line))).collect::<Vec<_>>().join("\n"),
        Some(Json::Null) | None => String::new(),
        Some(other) => other.to_string(),
    }
}

fn stdin_case(test: &Json) -> Case {
    let (stdin, stdout) = (text_of(test.get("input")), text_of(test.get("output")));
    Case { stdin: Some(stdin), stdout: Some(stdout), ..Case::default() }
}

/// Arguments are a list, or JSON values on a line each; the answer is a value, or JSON in a text.
fn call_case(test: &Json) -> Result<Case, JudgeError> {
    let args = match test.get("input") {
        Some(Json::Array(args)) => args.clone(),
        Some(Json::String(lines)) => {
            let lines = lines.lines().filter(|line| !line.trim().is_empty());
            let args: Result<Vec<Json>, _> = lines.map(serde_json::from_str).collect();
            args.map_err(|_| JudgeError::Row("an argument is not JSON".to_owned()))?
        }
        _ => return Err(JudgeError::Row("a test of a function has no arguments".to_owned())),
    };
    let expected = match test.get("output") {
        Some(Json::String(text)) => serde_json::from_str(text).unwrap_or_else(|_| Json::String(text.clone())),
        Some(other) => other.clone(),
        None => Json::Null,
    };
    let raw = |json: &Json| to_raw_value(json).map_err(JudgeError::Task);
    Ok(Case { args: Some(raw(&Json::Array(args))?), expected: Some(raw(&expected)?), ..Case::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(row: &Json) -> Task {
        Task::from_any(&row.to_string()).unwrap()
    }

    #[test]
    fn rows_of_known_data_sets_become_tasks() {
        let row = task(&json!({"task_id": "X/1", "prompt": "def f(x):\n    \"\"\"Doc.\"\"\"\n", "entry_point": "f",
            "completion": "    return x\n", "test": "def check(candidate):\n    assert candidate(1) == 1\n"}));
        assert_eq!(row.code, "def f(x):\n    \"\"\"Doc.\"\"\"\n    return x\n");
        assert_eq!((row.entry.as_str(), row.cases.len()), ("f", 1));
        let row = task(
            &json!({"task_id": 2, "code": "def f(x): return x", "test_list": ["assert f(1) == 1", "assert f(2) == 2"]}),
        );
        assert_eq!(row.cases.len(), 2);
        let row = task(&json!({"completion": "```python\nprint(input())\n```",
            "input_output": "{\"inputs\": [\"1\\n\"], \"outputs\": [\"1\\n\"]}"}));
        assert_eq!((row.code.as_str(), row.cases[0].stdin.as_deref()), ("print(input())\n", Some("1\n")));
        assert_eq!(row.cases[0].compare, Some(Compare::Apps));
        let row = task(&json!({"code": "class Solution:\n    def f(self, a, b): return a + b",
            "public_test_cases": [{"input": "1\n2", "output": "3", "testtype": "functional"}],
            "metadata": "{\"func_name\": \"f\"}"}));
        assert_eq!((row.entry.as_str(), row.cases.len()), ("Solution().f", 1));
        let row = task(
            &json!({"code": "def f(a): return a", "ground_truth": {"inputs": [[1]], "outputs": [1], "fn_name": "f"}}),
        );
        assert_eq!(row.cases[0].compare, Some(Compare::Json));
    }

    #[test]
    fn packed_tests_and_rows_without_tests_are_refused() {
        for row in [
            json!({"code": "x"}),
            json!({"code": "x", "private_test_cases": "eJwBAAD"}),
            json!({"inputs": ["1"], "outputs": ["1"]}),
            json!({"code": "x", "inputs": ["1"], "outputs": []}),
        ] {
            assert!(matches!(Task::from_any(&row.to_string()), Err(JudgeError::Row(_))), "{row}");
        }
    }
}
