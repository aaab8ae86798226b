//! What a program is worth: by the judge's cases, or by an evaluator's numbers. Never by its own word.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use types::{FileContent, InputFile, RelPath};

use super::bundle;
use super::error::EvolveError;
use super::member::Evaluation;
use super::prompt::cut;
use super::scoring::{EvaluatorSpec, Scoring};
use super::stage::Stage;
use super::task::Spec;
use crate::judge::{Evaluator, Judge, Judged, Measured, Task, Trust, Verdict, for_prompt};

/// What is kept of an evaluator's texts.
const MOST_TEXT: usize = 2_000;

/// Tries programs.
pub(crate) struct Evaluating {
    judge: Arc<Judge>,
    how: How,
    /// Whether programs are trees of files.
    is_tree: bool,
    repeat: u32,
}

enum How {
    Cases(Box<Task>),
    Numbers { evaluator: Box<Evaluator>, task: Box<Task>, score: Option<String>, stages: Vec<Stage> },
}

impl Evaluating {
    pub(crate) fn new(judge: Arc<Judge>, spec: &Spec) -> Self {
        let how = match &spec.scoring {
            Scoring::Cases(task) => How::Cases(task.clone()),
            Scoring::Evaluator(evaluator) => {
                let EvaluatorSpec { source, files, task, thresholds, stages, score } = (**evaluator).clone();
                let suffix = spec.suffix().to_owned();
                let evaluator = Box::new(Evaluator { source, files, functions: Vec::new(), thresholds, suffix });
                How::Numbers { evaluator, task: Box::new(task), score, stages }
            }
        };
        Self { judge, how, is_tree: spec.main.is_some(), repeat: spec.repeat }
    }

    /// Tries a program, as often as the task wants it: the middle of the scores counts, and how far they are apart.
    pub(crate) async fn evaluate(&self, code: &str) -> Result<Evaluation, EvolveError> {
        let mut tries = Vec::new();
        for _ in 0..self.repeat {
            let _pass = self.judge.turn().await?;
            tries.push(self.once(code).await?);
        }
        tries.sort_by(|a, b| a.rank().total_cmp(&b.rank()));
        let spread = tries.last().map_or(0.0, |last| last.score) - tries.first().map_or(0.0, |first| first.score);
        let middle = tries.len() / 2;
        Ok(Evaluation { spread, ..tries.swap_remove(middle) })
    }

    /// The same, by an evaluator that has seen no other program.
    pub(crate) async fn evaluate_afresh(&self, code: &str) -> Result<Evaluation, EvolveError> {
        self.judge.dismiss_evaluators();
        self.evaluate(code).await
    }

    async fn once(&self, code: &str) -> Result<Evaluation, EvolveError> {
        match &self.how {
            How::Cases(task) => Ok(by_cases(&Box::pin(self.judge.judge(&self.filled(task, code)?)).await?)),
            How::Numbers { evaluator, task, score, stages } if stages.is_empty() => {
                let task = self.filled(task, code)?;
                Ok(by_numbers(&Box::pin(self.judge.measure(&task, evaluator)).await?, score.as_deref()))
            }
            How::Numbers { evaluator, task, score, stages } => {
                let measured = self.staged(&self.filled(task, code)?, evaluator, stages, score.as_deref()).await?;
                Ok(by_numbers(&measured, score.as_deref()))
            }
        }
    }

    /// Stage by stage, each with limits and sandboxes of its own, as long as the program is worth the next.
    async fn staged(
        &self,
        task: &Task,
        evaluator: &Evaluator,
        stages: &[Stage],
        score: Option<&str>,
    ) -> Result<Measured, EvolveError> {
        let mut all: Option<Measured> = None;
        for stage in stages {
            let task = Task { limits: stage.over(&task.limits), ..task.clone() };
            let evaluator = Evaluator { functions: stage.functions.clone(), ..evaluator.clone() };
            let told = Box::pin(self.judge.measure(&task, &evaluator)).await?;
            let passed = told.verdict == Verdict::Pass
                && stage.threshold.is_none_or(|least| overall(&told, score).is_some_and(|score| score >= least));
            all = Some(match all {
                Some(before) => over(before, told),
                None => told,
            });
            if !passed {
                break;
            }
        }
        all.ok_or_else(|| EvolveError::Task("it has no stage".to_owned()))
    }

    /// The judge's task with a program in it: its text, or the files of its tree.
    fn filled(&self, task: &Task, code: &str) -> Result<Task, EvolveError> {
        let Some(files) = bundle::split(code).filter(|_| self.is_tree) else {
            return Ok(Task { code: code.to_owned(), ..task.clone() });
        };
        let file = |(path, text): &(&str, &str)| {
            let path =
                RelPath::new(*path).map_err(|_| EvolveError::Task(format!("`{path}` leads out of the program")))?;
            Ok(InputFile { path, content: FileContent::Text((*text).to_owned()) })
        };
        // The file that is run comes first.
        let tree = files.iter().skip(1).map(file).collect::<Result<_, EvolveError>>()?;
        let code = files.first().map(|(_, text)| (*text).to_owned()).unwrap_or_default();
        Ok(Task { code, tree, ..task.clone() })
    }
}

/// What a later stage says, over what was said before it. One that failed takes the numbers with it.
fn over(before: Measured, told: Measured) -> Measured {
    if told.verdict != Verdict::Pass {
        return told;
    }
    let (mut numbers, mut texts, mut no_numbers) = (before.numbers, before.texts, before.no_numbers);
    no_numbers.retain(|name| !told.numbers.contains_key(name));
    no_numbers.extend(told.no_numbers);
    numbers.extend(told.numbers);
    numbers.retain(|name, _| !no_numbers.contains(name));
    texts.extend(told.texts);
    let trust = if before.trust == Trust::Shared { Trust::Shared } else { told.trust };
    Measured { numbers, texts, no_numbers, trust, verdict: told.verdict, detail: told.detail }
}

/// The number that counts: the one that the task names, else `combined_score`, else the mean. Nothing if it is none.
fn overall(measured: &Measured, name: Option<&str>) -> Option<f64> {
    let Measured { numbers, no_numbers, .. } = measured;
    let wanted = name.unwrap_or("combined_score");
    match numbers.get(wanted) {
        Some(number) => Some(*number),
        None if name.is_some() || !no_numbers.is_empty() || numbers.is_empty() => None,
        None => Some(numbers.values().sum::<f64>() / numbers.len() as f64).filter(|mean| mean.is_finite()),
    }
}

fn by_cases(judged: &Judged) -> Evaluation {
    let (mut metrics, mut verdicts) = (BTreeMap::new(), BTreeMap::new());
    for (index, case) in judged.cases.iter().enumerate() {
        // Names are the task's, and may be there twice.
        let name =
            if metrics.contains_key(&case.name) { format!("{} #{}", case.name, index + 1) } else { case.name.clone() };
        metrics.insert(name.clone(), case.score);
        verdicts.insert(name, case.verdict.name().to_owned());
    }
    Evaluation {
        score: judged.score,
        passed: judged.passed,
        total: judged.total,
        metrics,
        verdicts,
        feedback: if judged.all_passed { String::new() } else { for_prompt(judged) },
        trust: trust(if judged.cases.iter().any(|case| case.trust == Trust::Shared) {
            Trust::Shared
        } else {
            Trust::Separate
        }),
        ..Evaluation::default()
    }
}

fn by_numbers(measured: &Measured, name: Option<&str>) -> Evaluation {
    let Measured { numbers, no_numbers, texts, verdict, detail, trust: trusted } = measured;
    let score = overall(measured, name);
    let mut feedback = String::new();
    if *verdict == Verdict::Pass {
        // Writing into memory does not fail.
        for (name, number) in numbers {
            let _ = writeln!(feedback, "{name}: {number}");
        }
        for name in no_numbers {
            let _ = writeln!(feedback, "{name}: not a finite number");
        }
        if score.is_none() {
            let _ = writeln!(feedback, "It was not scored: there is no number `{}`", name.unwrap_or("combined_score"));
        }
        for (name, text) in texts {
            let _ = writeln!(feedback, "{name}: {}", cut(text, MOST_TEXT));
        }
    } else {
        let _ = writeln!(feedback, "It was not scored ({}): {detail}", verdict.name());
    }
    let unscored = *verdict != Verdict::Pass || score.is_none();
    let score = score.unwrap_or(0.0);
    let verdicts = [("evaluate".to_owned(), verdict.name().to_owned())].into();
    let metrics = numbers.clone();
    Evaluation { score, metrics, verdicts, feedback, trust: trust(*trusted), unscored, ..Evaluation::default() }
}

fn trust(trust: Trust) -> String {
    match trust {
        Trust::Separate => "separate",
        Trust::Shared => "shared",
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(numbers: &[(&str, f64)], odd: &[&str]) -> Measured {
        Measured {
            numbers: numbers.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect(),
            no_numbers: odd.iter().map(|name| (*name).to_owned()).collect(),
            texts: BTreeMap::new(),
            verdict: Verdict::Pass,
            detail: String::new(),
            trust: Trust::Separate,
        }
    }

    #[test]
    fn a_number_that_is_none_is_no_score_and_not_left_out_of_a_mean() {
        assert_eq!(overall(&measured(&[("combined_score", 0.5), ("size", 9.0)], &[]), None), Some(0.5));
        assert_eq!(overall(&measured(&[("a", 0.5), ("b", 1.5)], &[]), None), Some(1.0));
        assert_eq!(overall(&measured(&[("size", 9.0)], &["combined_score"]), None), None);
        assert_eq!(overall(&measured(&[("b", 1.5)], &["a"]), None), None);
        // No loss is the best of losses: a number that is missing must not be taken for it.
        assert_eq!(overall(&measured(&[("a", 0.5)], &[]), Some("minus_loss")), None);
        assert!(by_numbers(&measured(&[("a", 0.5)], &[]), Some("minus_loss")).unscored);
    }

    #[test]
    fn a_later_stage_has_the_last_word() {
        let both =
            over(measured(&[("combined_score", 0.5), ("x", 1.0)], &[]), measured(&[("combined_score", 2.0)], &["x"]));
        assert_eq!((both.numbers.get("combined_score"), both.numbers.get("x")), (Some(&2.0), None));
        let failed = Measured { verdict: Verdict::Timeout, ..measured(&[], &[]) };
        assert!(by_numbers(&over(measured(&[("combined_score", 0.5)], &[]), failed), None).unscored);
    }
}
