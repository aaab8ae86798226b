//! The static check of a request: which parts are read, by which lists, and what comes of it.

use std::collections::HashSet;
use std::sync::Arc;

use policy::{Imports, ImportsOf, Language, Options, Report};
use types::{CheckResult, ExecRequest, FileContent, Finding, ImportLists, Policy, PolicyFile, Severity, SyntaxError};

use crate::admission;
use crate::command;
use crate::error::RunError;
use crate::language::{self, Found};
use crate::settings::Settings;

/// Code that this version reads, every later one does.
const OLDEST_PYTHON: (u8, u8) = (3, 7);

/// Words that the lists and rules of a request may have, and bytes of them all. The owner's own are as long as he likes.
const MOST_WORDS: usize = 2000;
const MOST_LISTED: usize = 64 << 10;

/// What was seen in a request.
#[derive(Debug)]
pub struct Checked {
    /// The findings, and whether they refuse it.
    pub report: Report,
    /// By this policy: the request's, or the settings' if that is stricter.
    pub policy: Policy,
    /// The recipe's name; `None` for a command.
    pub language: Option<&'static str>,
}

impl Checked {
    /// The wire form.
    #[must_use]
    pub fn result(&self) -> CheckResult {
        let Report { findings, syntax_error, points, refused_by } = &self.report;
        CheckResult {
            ok: refused_by.is_none() && syntax_error.is_none(),
            language: self.language.map(str::to_owned),
            policy: self.policy,
            findings: findings.clone(),
            syntax_error: syntax_error.as_ref().map(|error| SyntaxError {
                line: error.line,
                column: error.column,
                message: error.message.clone(),
            }),
            points: *points,
            refused_by: refused_by.clone(),
        }
    }
}

/// Reads a request's code, the files that come with it and its command. Nothing is executed.
pub fn check(request: &ExecRequest, settings: &Settings) -> Result<Checked, RunError> {
    let policy = request.policy.max(settings.policy.least);
    let own = request.policy_file.as_ref();
    if settings.policy.least >= Policy::Guard && own.is_some_and(|own| !own.ignore.is_empty()) {
        return Err(RunError::Request("the settings hold every request to a policy: `ignore` is not allowed"));
    }
    let words = words_of(request);
    if words.len() > MOST_WORDS || words.iter().sum::<usize>() > MOST_LISTED {
        return Err(RunError::Request("the lists and rules of a request may have 2,000 words and 64 KiB in all"));
    }
    let language = match (&request.code, request.language.as_deref()) {
        (Some(_), name) => {
            let name = name.unwrap_or("python");
            Some(language::recipe(name).ok_or_else(|| RunError::UnknownLanguage(name.to_owned()))?.name)
        }
        (None, _) => None,
    };
    let mut parts = Vec::new();
    if policy != Policy::Off {
        let reader = Reader { request, settings, own, policy, modules: Arc::new(modules(request)) };
        if let (Some(code), Some(name)) = (&request.code, language) {
            parts.push(reader.code(&code.0, name));
        }
        parts.extend(request.files.iter().filter_map(|file| reader.file(file.path.as_str(), &file.content)));
        if let Some(argv) = &request.argv {
            parts.push(policy::check_command(argv, &reader.options(None)));
        }
    }
    let mut report = Report::join(parts, policy);
    // The list is the owner's: it holds whatever the policy.
    if let Some(finding) = command::refused(request, settings) {
        report.refused_by = Some(finding.rule.clone());
        report.findings.insert(0, finding);
    }
    Ok(Checked { report, policy, language })
}

/// How much there is to read.
pub(crate) fn bytes_of(request: &ExecRequest) -> usize {
    let files = request.files.iter().map(|file| match &file.content {
        FileContent::Text(text) | FileContent::Base64(text) => text.len(),
        FileContent::Host(_) => 0,
    });
    request.code.as_ref().map_or(0, |code| code.0.len()) + files.sum::<usize>()
}

/// A copy of what the check looks at.
pub(crate) fn only_checked(request: &ExecRequest) -> ExecRequest {
    let read = |file: &&types::InputFile| Language::by_file_name(file.path.as_str()).is_some();
    ExecRequest {
        language: request.language.clone(),
        code: request.code.clone(),
        argv: request.argv.clone(),
        files: request.files.iter().filter(read).cloned().collect(),
        env: request.env.clone(),
        image: request.image.clone(),
        policy: request.policy,
        allow_imports: request.allow_imports.clone(),
        deny_imports: request.deny_imports.clone(),
        policy_file: request.policy_file.clone(),
        ..ExecRequest::default()
    }
}

/// Reads the parts of one request.
struct Reader<'a> {
    request: &'a ExecRequest,
    settings: &'a Settings,
    own: Option<&'a PolicyFile>,
    policy: Policy,
    /// Modules that are files of this run: no list has to name them.
    modules: Arc<HashSet<String>>,
}

impl Reader<'_> {
    fn code(&self, code: &[u8], name: &'static str) -> Report {
        match Language::by_name(name) {
            Some(language) => self.read(code, language, None),
            None => unread(&format!("there is no static check for {name}"), None),
        }
    }

    /// A file that comes with the code, if it is code too.
    fn file(&self, path: &str, content: &FileContent) -> Option<Report> {
        let language = Language::by_file_name(path)?;
        let bytes = match content {
            FileContent::Text(text) => text.as_bytes().to_vec(),
            FileContent::Base64(text) => admission::decode(text)?,
            FileContent::Host(_) => {
                return Some(unread(&format!("`{path}` is too large for a static check"), Some(path)));
            }
        };
        let mut report = self.read(&bytes, language, Some(path));
        for finding in &mut report.findings {
            finding.file = Some(path.to_owned());
        }
        report.syntax_error = None;
        Some(report)
    }

    /// What any Python reads is read without asking which one is here: looking for it costs more than reading.
    fn read(&self, code: &[u8], language: Language, file: Option<&str>) -> Report {
        let mut options = self.options(file);
        options.version = Some(OLDEST_PYTHON);
        let report = policy::check(code, language, &options);
        if language != Language::Python || report.syntax_error.is_none() {
            return report;
        }
        options.version = language::program_of("python", self.settings).as_ref().and_then(Found::python_version);
        policy::check(code, language, &options)
    }

    /// How one part is judged. A trusted file has only the lists that are meant for such.
    fn options(&self, file: Option<&str>) -> Options {
        let owners = &self.settings.policy.file;
        let mut lists = Vec::new();
        let is_tool = |policy: &PolicyFile| file.is_some_and(|file| policy.tools.files.iter().any(|tool| tool == file));
        // Who may trust a file on the owner's behalf is the owner; a request trusts on its own behalf only.
        for (policy, asked) in [(Some(owners), None), (self.own, Some(self.request))] {
            if policy.is_some_and(is_tool) {
                let tools = policy.map(|policy| &policy.tools);
                lists.extend(
                    tools.map(|tools| Imports { allow: tools.allow_imports.clone(), deny: tools.deny_imports.clone() }),
                );
                continue;
            }
            lists.extend(
                policy.map(|policy| Imports { allow: policy.allow_imports.clone(), deny: policy.deny_imports.clone() }),
            );
            lists.extend(
                asked.map(|request| Imports {
                    allow: request.allow_imports.clone(),
                    deny: request.deny_imports.clone(),
                }),
            );
            let own = file.and_then(|file| policy.and_then(|policy| policy.files.get(file)));
            lists.extend(own.map(|ImportLists { allow_imports, deny_imports }| Imports {
                allow: allow_imports.clone(),
                deny: deny_imports.clone(),
            }));
        }
        Options {
            policy: self.policy,
            version: None,
            imports: ImportsOf { lists, own: Arc::clone(&self.modules) },
            rules: owners.rules.iter().chain(self.own.iter().flat_map(|own| &own.rules)).cloned().collect(),
            ignore: owners.ignore.iter().chain(self.own.iter().flat_map(|own| &own.ignore)).cloned().collect(),
        }
    }
}

/// Modules that are files of a run.
fn modules(request: &ExecRequest) -> HashSet<String> {
    let stem = |path: &str| path.rsplit_once('.').map_or(path, |(stem, _)| stem).to_owned();
    let first = |path: &str| path.split('/').next().unwrap_or(path).to_owned();
    let files = request.files.iter().map(|file| file.path.as_str());
    files.filter(|path| Language::by_file_name(path).is_some()).map(|path| first(&stem(path))).collect()
}

/// How long each word of a request's lists and rules is.
fn words_of(request: &ExecRequest) -> Vec<usize> {
    let lists = |allow: &[String], deny: &[String]| allow.iter().chain(deny).map(String::len).collect::<Vec<_>>();
    let mut words = lists(&request.allow_imports, &request.deny_imports);
    if let Some(file) = &request.policy_file {
        words.extend(lists(&file.allow_imports, &file.deny_imports));
        words.extend(lists(&file.tools.allow_imports, &file.tools.deny_imports));
        words.extend(lists(&file.tools.files, &file.ignore));
        words.extend(file.commands.iter().flatten().map(String::len));
        for (name, ImportLists { allow_imports, deny_imports }) in &file.files {
            words.push(name.len());
            words.extend(lists(allow_imports, deny_imports));
        }
        for rule in &file.rules {
            words.push(rule.id.len() + rule.message.as_ref().map_or(0, String::len));
            words.extend(rule.names.iter().map(String::len));
        }
    }
    words
}

/// Code that is not read: that must not look like a check that passed.
fn unread(why: &str, file: Option<&str>) -> Report {
    let finding = Finding {
        rule: "policy.unread".to_owned(),
        severity: Severity::Medium,
        points: 0,
        line: 1,
        column: 1,
        message: format!("{why}: nothing was judged"),
        blocks: false,
        file: file.map(str::to_owned),
    };
    Report { findings: vec![finding], ..Report::default() }
}

#[cfg(test)]
mod tests {
    use types::{InputFile, OwnMatch, OwnRule, RelPath, Source};

    use super::*;

    fn request() -> ExecRequest {
        ExecRequest { code: Some(Source(b"import json".to_vec())), policy: Policy::Guard, ..ExecRequest::default() }
    }

    #[test]
    fn lists_and_rules_of_a_request_have_a_bound() {
        let settings = Settings::default();
        let words = |count: usize| (0..count).map(|number| format!("m{number}")).collect::<Vec<_>>();
        let many = ExecRequest { allow_imports: words(1500), deny_imports: words(1500), ..request() };
        assert!(matches!(check(&many, &settings), Err(RunError::Request(_))));
        let rule = OwnRule {
            id: "house.x".to_owned(),
            language: None,
            severity: Severity::Low,
            points: None,
            message: Some("x".repeat(MOST_LISTED)),
            matches: OwnMatch::Call,
            names: words(1),
        };
        let long = PolicyFile { rules: vec![rule], ..PolicyFile::default() };
        let long = ExecRequest { policy_file: Some(long), ..request() };
        assert!(matches!(check(&long, &settings), Err(RunError::Request(_))));
        let few = ExecRequest { allow_imports: vec!["json".to_owned()], deny_imports: words(1000), ..request() };
        assert_eq!(check(&few, &settings).unwrap().report.refused_by, None);
    }

    #[test]
    fn a_file_of_the_run_may_be_imported_whatever_the_list_and_however_many_there_are() {
        let file = |number: usize| InputFile {
            path: RelPath::new(format!("own{number}.py")).unwrap(),
            content: FileContent::Text("import own0".to_owned()),
        };
        let many = ExecRequest {
            code: Some(Source(b"import own7, own1999, json".to_vec())),
            files: (0..2000).map(file).collect(),
            allow_imports: vec!["json".to_owned()],
            ..request()
        };
        assert_eq!(check(&many, &Settings::default()).unwrap().report.refused_by, None);
    }
}
