//! The allow-list of commands: by the program that would really be started, not by what it calls itself.

use std::fs;
use std::path::{Path, PathBuf};

use types::{BackendKind, ExecRequest, Finding, Severity};

use crate::language;
use crate::settings::Settings;

/// Folders that every sandbox shows as the host has them.
const SYSTEM: &[&str] = &["/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin"];

/// A finding if a list is set and the request's command is not on it.
pub(crate) fn refused(request: &ExecRequest, settings: &Settings) -> Option<Finding> {
    let name = request.argv.as_ref()?.first()?;
    let own = request.policy_file.as_ref().and_then(|file| file.commands.as_ref());
    let lists = [settings.policy.commands.as_ref(), settings.policy.file.commands.as_ref(), own];
    let mut lists = lists.into_iter().flatten().peekable();
    lists.peek()?;
    if request.backend.unwrap_or(settings.backend) != BackendKind::Native || request.image.is_some() {
        // What programs an image has is its owner's choice; here only names can be compared.
        let on_list = |list: &Vec<String>| !request.env.contains_key("PATH") && list.contains(name);
        return if lists.all(on_list) { None } else { Some(finding(name)) };
    }
    let folders = folders(settings);
    let asked: Option<Vec<PathBuf>> = request.env.get("PATH").map(|path| path.split(':').map(PathBuf::from).collect());
    let program = identity(name, asked.as_ref().unwrap_or(&folders), &folders);
    let on_list = |list: &Vec<String>| {
        program.is_some() && list.iter().any(|entry| identity(entry, &folders, &folders) == program)
    };
    if lists.all(on_list) { None } else { Some(finding(name)) }
}

/// Where a name is looked for, if the request does not say: as a run would.
fn folders(settings: &Settings) -> Vec<PathBuf> {
    let found = language::visible_interpreters(settings);
    let own = found.iter().filter_map(|found| found.own_folder().map(PathBuf::from)).collect::<Vec<_>>();
    own.into_iter().chain(SYSTEM.iter().map(PathBuf::from)).collect()
}

/// The real folder and the name of a program. `None` if it is not there, or if something that the run itself brings
/// could stand in its place.
fn identity(name: &str, path: &[PathBuf], trusted: &[PathBuf]) -> Option<(PathBuf, String)> {
    let real = |folder: &Path| fs::canonicalize(folder).ok();
    let trusted: Vec<PathBuf> = trusted.iter().filter_map(|folder| real(folder)).collect();
    let in_folder = |folder: &Path, name: &str| {
        let folder = real(folder).filter(|folder| trusted.contains(folder))?;
        folder.join(name).is_file().then(|| (folder.clone(), name.to_owned()))
    };
    if let Some((folder, name)) = name.rsplit_once('/') {
        return if folder.starts_with('/') || folder.is_empty() { in_folder(Path::new(folder), name) } else { None };
    }
    for folder in path {
        // A folder that is not the host's may hold anything by the time the program is looked for.
        let known = real(folder).is_none_or(|folder| trusted.contains(&folder)) && is_system(folder, &trusted);
        if !known {
            return None;
        }
        if let Some(found) = in_folder(folder, name) {
            return Some(found);
        }
    }
    None
}

/// One of the trusted folders, or one of the system's that does not exist here.
fn is_system(folder: &Path, trusted: &[PathBuf]) -> bool {
    SYSTEM.iter().any(|system| folder == Path::new(system))
        || fs::canonicalize(folder).is_ok_and(|folder| trusted.contains(&folder))
}

fn finding(name: &str) -> Finding {
    let shown: String = name.chars().take(80).map(|c| if c.is_control() { ' ' } else { c }).collect();
    Finding {
        rule: "exec.command.not_allowed".to_owned(),
        severity: Severity::Critical,
        points: 10,
        line: 1,
        column: 1,
        message: format!("`{shown}` is not a program on the list of allowed commands"),
        blocks: true,
        file: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy_settings::PolicySettings;

    fn refused_with(list: &[&str], argv: &[&str], path: Option<&str>) -> bool {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let settings = Settings {
            policy: PolicySettings { commands: Some(words(list)), ..PolicySettings::default() },
            ..Settings::default()
        };
        let env = path.map(|path| ("PATH".to_owned(), path.to_owned())).into_iter().collect();
        let request = ExecRequest { argv: Some(words(argv)), env, ..ExecRequest::default() };
        refused(&request, &settings).is_some()
    }

    #[test]
    fn a_command_is_known_by_its_program_and_not_by_its_name() {
        assert!(!refused_with(&["ls"], &["ls", "-l"], None));
        assert!(!refused_with(&["ls"], &["/bin/ls"], None));
        assert!(!refused_with(&["/usr/bin/ls"], &["ls"], None));
        for (argv, path) in [
            (&["cat"][..], None),
            (&["/tmp/x/ls"], None),
            (&["./ls"], None),
            (&["work/ls"], None),
            (&["ls"], Some("/work:/usr/bin")),
            (&["ls"], Some("")),
            (&["ls"], Some("bin:/usr/bin")),
            (&["no-such-program"], None),
        ] {
            assert!(refused_with(&["ls", "no-such-program"], argv, path), "{argv:?} {path:?}");
        }
        assert!(!refused_with(&["ls"], &["ls"], Some("/usr/local/bin:/usr/bin:/bin")));
        assert!(refused_with(&[], &["ls"], None));
    }
}
