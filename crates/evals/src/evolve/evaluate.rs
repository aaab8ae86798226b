//! What a program is worth: by the judge's cases, or by an evaluator's numbers. Never by its own word.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use super::error::EvolveError;
use super::member::Evaluation;
use super::prompt::cut;
use super::task::{EvaluatorSpec, Scoring, Spec};
use crate::judge::{Evaluator, Judge, Judged, Measured, Task, Trust, Verdict, for_prompt};

/// What is kept of an evaluator's texts.
const MOST_TEXT: usize = 2_000;

/// Tries programs.
pub(crate) struct Evaluating {
    judge: Arc<Judge>,
    how: How,
    repeat: u32,
}

enum How {
    Cases(Box<Task>),
    Numbers { evaluator: Box<Evaluator>, task: Box<Task>, score: Option<String> },
}

impl Evaluating {
    pub(crate) fn new(judge: Arc<Judge>, spec: &Spec) -> Self {
        let how = match &spec.scoring {
            Scoring::Cases(task) => How::Cases(task.clone()),
            Scoring::Evaluator(evaluator) => {
                let EvaluatorSpec { source, files, task, thresholds, score } = (**evaluator).clone();
                let suffix = spec.suffix().to_owned();
                let evaluator = Box::new(Evaluator { source, files, thresholds, suffix });
                How::Numbers { evaluator, task: Box::new(task), score }
            }
        };
        Self { judge, how, repeat: spec.repeat }
    }

    /// Tries a program, as often as the task wants it: the middle of the scores counts, and how far they are apart.
    pub(crate) async fn evaluate(&self, code: &str) -> Result<Evaluation, EvolveError> {
        let mut tries = Vec::new();
        for _ in 0..self.repeat {
            tries.push(self.once(code).await?);
        }
        tries.sort_by(|a, b| a.rank().total_cmp(&b.rank()));
        let spread = tries.last().map_or(0.0, |last| last.score) - tries.first().map_or(0.0, |first| first.score);
        let middle = tries.len() / 2;
        Ok(Evaluation { spread, ..tries.swap_remove(middle) })
    }

    async fn once(&self, code: &str) -> Result<Evaluation, EvolveError> {
        match &self.how {
            How::Cases(task) => {
                let task = Task { code: code.to_owned(), ..(**task).clone() };
                Ok(by_cases(&Box::pin(self.judge.judge(&task)).await?))
            }
            How::Numbers { evaluator, task, score } => {
                let task = Task { code: code.to_owned(), ..(**task).clone() };
                Ok(by_numbers(&Box::pin(self.judge.measure(&task, evaluator)).await?, score.as_deref()))
            }
        }
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
    let Measured { numbers, texts, verdict, detail, trust: trusted } = measured;
    let mean = || numbers.values().sum::<f64>() / numbers.len().max(1) as f64;
    let named = numbers.get(name.unwrap_or("combined_score")).copied();
    let score = match name {
        Some(_) => named.unwrap_or(0.0),
        None => named.unwrap_or_else(mean),
    };
    let mut feedback = String::new();
    if *verdict == Verdict::Pass {
        // Writing into memory does not fail.
        for (name, number) in numbers {
            let _ = writeln!(feedback, "{name}: {number}");
        }
        for (name, text) in texts {
            let _ = writeln!(feedback, "{name}: {}", cut(text, MOST_TEXT));
        }
    } else {
        let _ = writeln!(feedback, "It was not scored ({}): {detail}", verdict.name());
    }
    let unscored = *verdict != Verdict::Pass || numbers.is_empty();
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
