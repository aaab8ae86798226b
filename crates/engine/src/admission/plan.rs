//! From a request as written to one that can be carried out.

use std::collections::BTreeMap;
use std::sync::Arc;

use types::{BackendKind, ExecRequest, FileContent, InputFile, Limits, Network, RelPath};

use crate::engine::{Caller, Standing};
use crate::error::RunError;
use crate::files::Glob;
use crate::image::{Base, HeldImage, Images};
use crate::language::{self, Found, Known, Recipe};
use crate::network::{Rules, WhoMay};
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
    /// What the root is made from in place of the system's own.
    pub(crate) image: Option<Arc<HeldImage>>,
    /// The same where the backend keeps images itself: their name there.
    pub(crate) reference: Option<String>,
    /// Its way out, if it has one.
    pub(crate) network: Option<Arc<Rules>>,
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
pub(crate) fn admit(
    request: ExecRequest,
    settings: &Settings,
    known: &Known,
    caller: &Caller,
) -> Result<Admitted, RunError> {
    let backend = request.backend.unwrap_or(settings.backend);
    let reference = reference(backend, request.image.as_deref(), settings, caller)?;
    check_words(&request)?;
    let limits = request.limits.resolve(&settings.defaults, &settings.ceiling)?;
    let language = request.language.as_deref();
    let own = request.image.as_deref().filter(|_| reference.is_none());
    let image = own.map(|name| hold(name, settings)).transpose()?;
    let has_own_programs = reference.is_some() || image.as_ref().is_some_and(|held| held.image.base == Base::Own);
    let whose = if has_own_programs { Whose::Image } else { Whose::Host(known) };
    let (program, interpreters) = match (request.code, request.argv) {
        (Some(code), None) => by_recipe(language.unwrap_or("python"), code.0, request.file_name, settings, whose)?,
        (None, Some(argv)) if argv.first().is_some_and(|name| !name.is_empty()) => {
            let visible = match whose {
                Whose::Host(_) => language::visible_interpreters(settings),
                Whose::Image => Vec::new(),
            };
            (Program::Command(argv), visible)
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
        image,
        reference,
        network: way_out(request.network, settings, caller)?,
        cold: request.cold,
    })
}

/// Whose programs a run uses.
#[derive(Debug, Clone, Copy)]
enum Whose<'a> {
    Host(&'a Known),
    /// Only the sandbox can tell where they are.
    Image,
}

/// What a sandbox may reach, if this caller may ask for it.
pub(crate) fn way_out(network: Network, settings: &Settings, caller: &Caller) -> Result<Option<Arc<Rules>>, RunError> {
    let may = match (network, settings.network.open) {
        (Network::None, _) => return Ok(None),
        (Network::Open, WhoMay::Nobody) => false,
        (Network::Open, WhoMay::Owner) => matches!(caller.standing, Standing::Owner | Standing::FirstKey),
        (Network::Open, WhoMay::Everybody) => true,
    };
    if may { Ok(Some(Arc::new(Rules::new(&settings.network)))) } else { Err(RunError::NetworkClosed) }
}

/// The image called `name`; its layers stay as long as somebody has it.
pub(crate) fn hold(name: &str, settings: &Settings) -> Result<Arc<HeldImage>, RunError> {
    Ok(Arc::new(Images::open(&settings.state)?.hold(name)?))
}

/// What the root is made from where the backend keeps images itself.
fn reference(
    backend: BackendKind,
    image: Option<&str>,
    settings: &Settings,
    caller: &Caller,
) -> Result<Option<String>, RunError> {
    match backend {
        BackendKind::Native => Ok(None),
        BackendKind::Docker => offered(image, settings, caller).map(Some),
        BackendKind::E2b => {
            let settings = &settings.e2b.backend;
            let template = image.filter(|image| !image.is_empty());
            let template = template.unwrap_or_else(|| settings.template());
            // The account there is the owner's.
            if caller.standing != Standing::Owner && !settings.offers(template) {
                return Err(RunError::ImageNotOffered(template.to_owned()));
            }
            Ok(Some(template.to_owned()))
        }
    }
}

/// The image of a Docker daemon that somebody gets who asks for one, or for none.
pub(crate) fn offered(image: Option<&str>, settings: &Settings, caller: &Caller) -> Result<String, RunError> {
    let image = image.or(settings.docker.image.as_deref());
    let image = image.filter(|image| !image.is_empty()).ok_or(RunError::ImageNeeded)?;
    // A daemon's images may hold what was never meant for whoever has a key.
    if caller.standing != Standing::Owner && !settings.docker.offers(image) {
        return Err(RunError::ImageNotOffered(image.to_owned()));
    }
    Ok(image.to_owned())
}

fn by_recipe(
    language: &str,
    code: Vec<u8>,
    file: Option<RelPath>,
    settings: &Settings,
    whose: Whose<'_>,
) -> Result<(Program, Vec<Found>), RunError> {
    let recipe = language::recipe(language).ok_or_else(|| RunError::UnknownLanguage(language.to_owned()))?;
    let find = |chosen: &str, programs: &[&'static str]| match whose {
        Whose::Host(known) => known
            .find(chosen, programs, settings)
            .ok_or_else(|| RunError::InterpreterMissing { language: recipe.name, programs: programs.join(", ") }),
        Whose::Image => Ok(Found::in_image(programs)),
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
