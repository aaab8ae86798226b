//! From a request as written to one that can be carried out.

use std::collections::BTreeMap;

use types::{BackendKind, ExecRequest, FileContent, InputFile, Limits, Network, RelPath};

use crate::error::{RunError, unsupported_backend};
use crate::files::Glob;
use crate::language::{self, Found, Recipe};
use crate::settings::Settings;

/// A request with nothing left to decide.
pub(crate) struct Admitted {
    pub(crate) program: Program,
    pub(crate) args: Vec<String>,
    pub(crate) files: Vec<InputFile>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) limits: Limits,
    pub(crate) inline: Vec<Glob>,
    /// Host trees beyond the system's own that the sandbox shows.
    pub(crate) roots: Vec<String>,
    /// Folders of found interpreters, for the sandbox's PATH.
    pub(crate) path: Vec<String>,
    /// Whether nothing made ahead of need will do.
    pub(crate) cold: bool,
}

/// What runs.
pub(crate) enum Program {
    /// Code, by a recipe.
    Code { recipe: &'static Recipe, found: Found, runner: Option<Found>, file: RelPath, code: Vec<u8> },
    /// A command.
    Command(Vec<String>),
}

/// Checks a request against the settings.
pub(crate) fn admit(request: ExecRequest, settings: &Settings) -> Result<Admitted, RunError> {
    match request.backend {
        BackendKind::Native => {}
        kind @ (BackendKind::Docker | BackendKind::E2b) => return Err(unsupported_backend(kind)),
    }
    if request.network == Network::Open {
        return Err(RunError::Unsupported { what: "network `open`".to_owned() });
    }
    if request.image.is_some() {
        return Err(RunError::Unsupported { what: "an image".to_owned() });
    }
    check_words(&request)?;
    let limits = request.limits.resolve(&settings.defaults, &settings.ceiling)?;
    let language = request.language.as_deref();
    let (program, interpreters) = match (request.code, request.argv) {
        (Some(code), None) => by_recipe(language.unwrap_or("python"), code.0, request.file_name, settings)?,
        (None, Some(argv)) if argv.first().is_some_and(|name| !name.is_empty()) => {
            (Program::Command(argv), language::visible_interpreters(settings))
        }
        (None, Some(_)) => return Err(RunError::Request("the command is empty")),
        (None, None) => return Err(RunError::Request("there is nothing to run: give `code` or `argv`")),
        (Some(_), Some(_)) => return Err(RunError::Request("give `code` or `argv`, not both")),
    };
    let mut roots: Vec<String> = interpreters.iter().flat_map(|found| found.roots.iter().cloned()).collect();
    roots.sort();
    roots.dedup();
    let path = interpreters.iter().filter_map(|found| found.own_folder().map(str::to_owned)).collect();
    Ok(Admitted {
        program,
        args: request.args,
        files: request.files,
        env: request.env,
        limits,
        inline: request.collect.iter().map(|pattern| Glob::new(pattern)).collect(),
        roots,
        path,
        cold: request.cold,
    })
}

fn by_recipe(
    language: &str,
    code: Vec<u8>,
    file: Option<RelPath>,
    settings: &Settings,
) -> Result<(Program, Vec<Found>), RunError> {
    let recipe = language::recipe(language).ok_or_else(|| RunError::UnknownLanguage(language.to_owned()))?;
    let find = |chosen: &str, programs: &[&'static str]| {
        language::find(chosen, programs, settings)
            .ok_or_else(|| RunError::InterpreterMissing { language: recipe.name, programs: programs.join(", ") })
    };
    let found = find(recipe.name, recipe.programs)?;
    let runner = recipe.run.program.map(|program| find(program, &[program])).transpose()?;
    // Compilers go by endings: a name that says something else is not used.
    let fits = |file: &RelPath| recipe.endings.iter().any(|ending| file.as_str().ends_with(&format!(".{ending}")));
    let file = match file.filter(fits) {
        Some(file) => file,
        None => RelPath::new(recipe.file)?,
    };
    let interpreters = [Some(found.clone()), runner.clone()].into_iter().flatten().collect();
    Ok((Program::Code { recipe, found, runner, file, code }, interpreters))
}

/// Strings that the kernel cannot carry are refused here, where the caller can still be told which.
fn check_words(request: &ExecRequest) -> Result<(), RunError> {
    let words = request.args.iter().chain(request.argv.iter().flatten());
    if words.chain(request.env.values()).any(|word| word.contains('\0')) {
        return Err(RunError::Request("arguments and environment must not contain NUL"));
    }
    if request.env.keys().any(|name| name.is_empty() || name.contains(['=', '\0'])) {
        return Err(RunError::Request("names in the environment must be non-empty and without `=`"));
    }
    let bad = |file: &InputFile| matches!(&file.content, FileContent::Base64(text) if decode(text).is_none());
    if request.files.iter().any(bad) {
        return Err(RunError::Request("a file's `base64` is not base64"));
    }
    Ok(())
}

/// A file's bytes from the wire.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(text).ok()
}
