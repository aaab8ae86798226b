//! Checkers: a task's own programs that say how good an answer is. Each question has a sandbox of its own.

use engine::{Built, Delivery};
use types::{ExecRequest, FileContent, InputFile, RelPath, Source};

use super::error::JudgeError;
use super::ground::Ground;
use super::result::{Finished, Verdict};
use super::value::shorter;

/// How much below 1 still is all of it.
const ALL: f64 = 1.0 - 1e-9;

/// The checkers of one task, each compiled once.
pub(crate) struct Checkers<'g> {
    ground: &'g Ground,
    built: Vec<(String, String, Option<Built>)>,
}

impl<'g> Checkers<'g> {
    pub(crate) fn new(ground: &'g Ground) -> Self {
        Self { ground, built: Vec::new() }
    }

    /// Asks a checker about an input, an output and the right answer.
    ///
    /// One that fails has not accepted the output: what it was given is what tested code wrote.
    pub(crate) async fn ask(
        &mut self,
        (language, code): (&str, &str),
        [input, output, answer]: [&str; 3],
    ) -> Result<Finished, JudgeError> {
        let file = |name: &str, text: &str| {
            let path = RelPath::new(name).map_err(engine::RunError::from)?;
            Ok::<_, JudgeError>(InputFile { path, content: FileContent::Text(text.to_owned()) })
        };
        let request = ExecRequest {
            language: Some(language.to_owned()),
            code: Some(Source(code.as_bytes().to_vec())),
            args: ["input", "output", "answer"].map(str::to_owned).to_vec(),
            files: vec![file("input", input)?, file("output", output)?, file("answer", answer)?],
            limits: self.ground.task.limits.clone(),
            review: false,
            ..self.ground.base.clone()
        };
        let ground = self.ground;
        let delivery = Delivery { built: Some(self.slot(language, code)), ..Delivery::default() };
        let result = ground.engine.execute(&ground.caller, request, delivery).await?;
        ground.note(&result);
        if let Some(compile) = result.compile.as_ref().filter(|compile| !compile.ok) {
            let why = format!("it does not compile: {}", shorter(&compile.stderr.trim(), 500));
            return Err(JudgeError::Checker { why });
        }
        let number = |word: &str| word.parse::<f64>().ok();
        // A second number on a line of its own may be the one that was meant: the first could be what tested code wrote.
        let numbers = result.stdout.lines().filter(|line| number(line.trim()).is_some()).count();
        let said = result.stdout.split_whitespace().next().and_then(number).filter(|_| numbers <= 1);
        match said.filter(|score| result.ok && (0.0..=1.0).contains(score)) {
            Some(score) if score >= ALL => Ok(Finished::pass(String::new())),
            Some(score) => {
                let rest = result.stdout.split_once(char::is_whitespace).map_or("", |(_, rest)| rest.trim());
                let rest = if rest.is_empty() { String::new() } else { format!(": {}", shorter(&rest, 500)) };
                let detail = format!("the checker gives {score}{rest}");
                Ok(Finished { score, ..Finished::new(Verdict::WrongAnswer, detail) })
            }
            None => Ok(Finished::new(Verdict::WrongAnswer, "the checker could not make anything of the output")),
        }
    }

    fn slot(&mut self, language: &str, code: &str) -> &mut Option<Built> {
        let known = self.built.iter().position(|(l, c, _)| l == language && c == code);
        let index = known.unwrap_or_else(|| {
            self.built.push((language.to_owned(), code.to_owned(), None));
            self.built.len() - 1
        });
        &mut self.built[index].2
    }
}
