//! Finding a language's program on the host: the first real one on PATH, shims seen through, and the tree it lives in.

use std::env;
use std::fs;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Access, access};

use crate::settings::Settings;

/// Folders that every sandbox shows anyway.
const SYSTEM: &[&str] = &["/usr", "/bin", "/sbin", "/lib", "/lib64"];

/// Trees that belong together as a whole, wherever in them a program lies.
const WHOLE: &[&str] = &["/nix/store", "/home/linuxbrew/.linuxbrew"];

/// Folders that hold other people's things: never shown as a program's own tree.
const SHARED: &[&str] = &[
    "/", "/root", "/home", "/opt", "/var", "/tmp", "/etc", "/proc", "/sys", "/dev", "/run", "/boot", "/srv", "/mnt",
    "/media", "/var/tmp", "/var/lib", "/snap",
];

/// What people's homes have and programs' trees have not.
const SIGNS_OF_A_HOME: &[&str] = &[
    ".ssh",
    ".gnupg",
    ".bashrc",
    ".bash_history",
    ".profile",
    ".zshrc",
    ".config",
    ".local",
    ".cache",
    ".aws",
    ".netrc",
];

/// A program that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// How it is called, inside as on the host.
    pub program: String,
    /// Trees that must be visible for it to work, beyond the system's own.
    pub roots: Vec<String>,
    /// Names to look for on the sandbox's own PATH, where only that knows what there is.
    pub names: Vec<String>,
}

impl Found {
    /// One of these, wherever an image has it.
    pub(crate) fn in_image(programs: &[&str]) -> Self {
        let names: Vec<String> = programs.iter().map(|&name| name.to_owned()).collect();
        Self { program: names.first().cloned().unwrap_or_default(), roots: Vec::new(), names }
    }

    /// Its folder, if that is not one of the system's.
    pub(crate) fn own_folder(&self) -> Option<&str> {
        let folder = Path::new(&self.program).parent()?;
        // A name alone has no folder, and an empty word on a PATH would mean the working directory.
        if is_system(folder) || folder.as_os_str().is_empty() { None } else { folder.to_str() }
    }

    /// The version of a Python, told from the names of its files: starting it to ask would cost more than the question.
    pub(crate) fn python_version(&self) -> Option<(u8, u8)> {
        let program = fs::canonicalize(&self.program).ok()?;
        let by_name = program.file_name()?.to_str().and_then(python_name);
        by_name.or_else(|| {
            let library = program.parent()?.parent()?.join("lib");
            let names = fs::read_dir(library).ok()?.flatten().map(|entry| entry.file_name());
            let mut versions = names.filter_map(|name| python_name(name.to_str()?));
            // Two of them beside one program say nothing.
            versions.next().filter(|_| versions.next().is_none())
        })
    }
}

/// `python3.11` is 3.11.
fn python_name(name: &str) -> Option<(u8, u8)> {
    let (major, minor) = name.strip_prefix("python")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Looks for `programs`: as the settings name one of them, else on PATH.
pub(crate) fn find(language: &str, programs: &[&str], settings: &Settings) -> Option<Found> {
    // A relative path means the working directory, which may be somebody else's.
    let real = |path: &Path| real(path, settings).filter(|_| path.is_absolute());
    if let Some(path) = settings.interpreters.get(language) {
        return real(path);
    }
    let path = env::var_os("PATH")?;
    programs.iter().find_map(|name| env::split_paths(&path).find_map(|folder| real(&folder.join(name))))
}

/// Python and Node, for commands that may be either.
pub(crate) fn visible_interpreters(settings: &Settings) -> Vec<Found> {
    let found = [("python", &["python3", "python"][..]), ("node", &["node", "nodejs"][..])];
    found.into_iter().filter_map(|(language, programs)| find(language, programs, settings)).collect()
}

/// The real program behind `path`, or nothing if there is none that we may execute.
pub(super) fn real(path: &Path, settings: &Settings) -> Option<Found> {
    let path = see_through(path)?;
    if access(&path, Access::EXEC_OK).is_err() || !path.is_file() {
        return None;
    }
    let target = fs::canonicalize(&path).ok()?;
    let mut roots = Vec::new();
    let mut program = path.clone();
    if let Some(environment) = virtual_environment(&path, settings) {
        roots.push(environment);
    } else if !is_system(&path) {
        // The link may lie in a folder that is not shown; what it points to is.
        program.clone_from(&target);
    }
    if !is_system(&target) {
        roots.extend(own_trees(&target, settings));
    }
    let roots: Option<Vec<String>> = roots.into_iter().map(|root| root.to_str().map(str::to_owned)).collect();
    let mut roots = roots?;
    roots.sort();
    roots.dedup();
    Some(Found { program: program.to_str()?.to_owned(), roots, names: Vec::new() })
}

/// Follows what version managers put on PATH to what they would start.
fn see_through(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?;
    if let Some(root) = path.parent().filter(|folder| folder.ends_with("shims")).and_then(Path::parent) {
        return version_of(root).map(|version| root.join("versions").join(version).join("bin").join(name));
    }
    let target = fs::canonicalize(path).ok()?;
    match target.file_name()?.to_str()? {
        "rustup" => toolchain(name.to_str()?),
        // They start something that only they know.
        "snap" | "volta-shim" | "mise" | "asdf" => None,
        _ => Some(path.to_path_buf()),
    }
}

/// The version that pyenv and its kin start: from the environment, else their own file. A file in the working directory
/// is not asked: that may be somebody else's.
fn version_of(root: &Path) -> Option<String> {
    let asked = env::var("PYENV_VERSION").ok().filter(|_| root.ends_with(".pyenv"));
    let text = asked.or_else(|| small_file(&root.join("version")))?;
    let version = text.split([':', '\n', ' ']).find(|word| !word.is_empty())?;
    (version != "system" && !version.contains('/')).then(|| version.to_owned())
}

/// The program of rustup's default toolchain.
fn toolchain(name: &str) -> Option<PathBuf> {
    let home = env::var_os("RUSTUP_HOME").map(PathBuf::from).or_else(|| Some(home()?.join(".rustup")))?;
    let default = || {
        let settings: toml::Table = small_file(&home.join("settings.toml"))?.parse().ok()?;
        Some(settings.get("default_toolchain")?.as_str()?.to_owned())
    };
    let toolchain = env::var("RUSTUP_TOOLCHAIN").ok().or_else(default)?;
    (!toolchain.contains('/')).then(|| home.join("toolchains").join(toolchain).join("bin").join(name))
}

/// The root of the virtual environment that `path` is the interpreter of.
fn virtual_environment(path: &Path, settings: &Settings) -> Option<PathBuf> {
    let root = path.parent()?.parent()?;
    (root.join("pyvenv.cfg").is_file() && !is_shared(root, settings)).then(|| root.to_path_buf())
}

/// The smallest set of trees that holds `program` and what it loads.
fn own_trees(program: &Path, settings: &Settings) -> Vec<PathBuf> {
    if let Some(whole) = WHOLE.iter().find(|whole| program.starts_with(whole)) {
        return vec![PathBuf::from(whole)];
    }
    let folder = program.parent().unwrap_or(Path::new("/"));
    let prefix = if folder.ends_with("bin") { folder.parent().unwrap_or(folder) } else { folder };
    if !is_shared(prefix, settings) {
        return vec![prefix.to_path_buf()];
    }
    // Installed straight into a home or the like: the program itself and its library, nothing beside them.
    let libraries = fs::read_dir(prefix.join("lib")).into_iter().flatten().flatten();
    let library = |name: &str| name.starts_with("python") || name.starts_with("libpython") || name == "node_modules";
    libraries
        .filter(|entry| entry.file_name().to_str().is_some_and(library))
        .map(|entry| entry.path())
        .chain([program.to_path_buf()])
        .collect()
}

fn is_system(path: &Path) -> bool {
    SYSTEM.iter().any(|system| path.starts_with(system))
}

/// Whether a folder belongs to more than one program: a home, a top folder, anything that holds saggar's own state.
fn is_shared(path: &Path, settings: &Settings) -> bool {
    // Links could make a home look like something else.
    let Ok(path) = fs::canonicalize(path) else { return true };
    let path = path.as_path();
    let holds = |folder: &Path| {
        folder.starts_with(path) || fs::canonicalize(folder).is_ok_and(|folder| folder.starts_with(path))
    };
    SHARED.iter().any(|shared| path == Path::new(shared))
        || path.components().filter(|part| matches!(part, Component::Normal(_))).count() < 2
        || (path.starts_with("/home") && path.components().count() <= 3)
        || path.ends_with(".local")
        || holds(&settings.state)
        || home().is_some_and(|home| holds(&home))
        || SIGNS_OF_A_HOME.iter().any(|name| path.join(name).symlink_metadata().is_ok())
}

pub(super) fn home() -> Option<PathBuf> {
    env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute())
}

/// A settings file of a version manager; anything large is not one.
fn small_file(path: &Path) -> Option<String> {
    let mut text = String::new();
    fs::File::open(path).ok()?.take(64 << 10).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that ends with the test.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = env::temp_dir().join(format!("saggar-find-{}-{name}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(fs::canonicalize(path).unwrap())
        }

        /// A file with the folders above it.
        fn file(&self, path: &str) -> PathBuf {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            path
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    fn with_state(state: PathBuf) -> Settings {
        Settings { state, ..Settings::default() }
    }

    #[test]
    fn homes_and_top_folders_are_shared() {
        let settings = with_state(PathBuf::from("/nowhere/state"));
        for path in ["/", "/root", "/home", "/opt", "/srv", "/usr", "/no/such/folder"] {
            assert!(is_shared(Path::new(path), &settings), "{path}");
        }
        assert!(!is_shared(Path::new("/usr/lib"), &settings));
    }

    #[test]
    fn a_tree_of_its_own_is_shown_whole() {
        let scratch = Scratch::new("whole");
        let program = scratch.file("versions/3.11/bin/python3.11");
        let settings = with_state(PathBuf::from("/nowhere/state"));
        assert_eq!(own_trees(&program, &settings), [scratch.0.join("versions/3.11")]);
    }

    #[test]
    fn a_program_in_a_home_shows_itself_and_its_library_only() {
        let scratch = Scratch::new("home");
        let program = scratch.file("bin/python3");
        scratch.file(".ssh/id_ed25519");
        scratch.file("lib/python3.11/os.py");
        scratch.file("lib/secrets/key");
        let settings = with_state(PathBuf::from("/nowhere/state"));
        assert_eq!(own_trees(&program, &settings), [scratch.0.join("lib/python3.11"), program]);
    }

    #[test]
    fn a_tree_that_holds_the_state_folder_is_not_shown() {
        let scratch = Scratch::new("state");
        let program = scratch.file("prefix/bin/node");
        let key = scratch.file("prefix/share/saggar/api-key");
        let settings = with_state(key.parent().unwrap().to_path_buf());
        assert_eq!(own_trees(&program, &settings), [program]);
    }

    #[test]
    fn a_link_does_not_make_a_home_an_environment() {
        let scratch = Scratch::new("link");
        scratch.file("real/.bashrc");
        scratch.file("real/pyvenv.cfg");
        let program = scratch.file("real/bin/python3");
        std::os::unix::fs::symlink(scratch.0.join("real"), scratch.0.join("link")).unwrap();
        let settings = with_state(PathBuf::from("/nowhere/state"));
        assert_eq!(virtual_environment(&scratch.0.join("link/bin/python3"), &settings), None);
        assert_eq!(own_trees(&program, &settings), [program]);
    }
}
