//! Repositories in images of data sets, on a backend that keeps images itself: the image has the environment and the
//! project, installed in its own place.
//!
//! The project's folder belongs to root there, with whatever history the image has. A copy without that history is made
//! once, kept as a snapshot, and shows in the place of the image's own.

use engine::ImageFacts;
use types::{BackendKind, ErrorCode};

use super::site::{Ground, IMAGE_TREE, Site, TREE, name};
use super::workshop::{GIT_SETTINGS, Prepared, TIME, Workshop, git_environment, limits, script};
use crate::swe::SweError;

/// Where the images of data sets have the programs of their environment.
const PROGRAMS: [&str; 2] = ["/opt/miniconda3/envs/testbed/bin", "/opt/miniconda3/condabin"];

/// Where every system has its own.
const USUAL: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// The image's work tree, with one commit as its history. What the image has changed in it is part of it; what it has
/// made beside it is no work of a patch.
const SCRIPT: &str = r#"set -e
exec 2>&1
from="$1" commit="$2" tree="$3"
[ -d "$from/.git" ] || { echo "the image has no repository in $from"; exit 1; }
printf '%s' "$GIT_SETTINGS" > "$HOME/.gitconfig"
mkdir "$tree"
for entry in "$from"/* "$from"/.[!.]* "$from"/..?*; do
  { [ -e "$entry" ] || [ -L "$entry" ]; } || continue
  [ "${entry##*/}" = .git ] || cp -a "$entry" "$tree/"
done
cd "$tree"
git init -q .
git fetch -q --no-tags --no-recurse-submodules --depth=1 "file://$from" "$commit"
git reset -q FETCH_HEAD
git checkout -q --detach
[ "$(git rev-parse HEAD)" = "$commit" ]
git diff --quiet HEAD || git commit -q -a -m SWE-bench
rm -rf .git/FETCH_HEAD .git/ORIG_HEAD .git/logs .git/hooks .git/branches .git/refs/heads/*
mkdir -p .git/info
git ls-files --others --exclude-standard --directory | sed 's|^|/|' >> .git/info/exclude
"#;

/// Where Python looks for packages that this user may put there, if it looks anywhere.
const PACKAGES: &str = r#"python -c '
import os, site, sysconfig
own = site.getusersitepackages() if site.ENABLE_USER_SITE else ""
all = sysconfig.get_paths()["purelib"]
print(all if os.access(all, os.W_OK) else own)'"#;

impl Workshop {
    /// What a daemon knows of an image.
    pub async fn image(&self, image: &str) -> Result<ImageFacts, SweError> {
        let found = self.engine().image_facts(self.caller(), BackendKind::Docker, image).await;
        found.map_err(|error| match error.code() {
            ErrorCode::NotFound => SweError::NoImage { image: image.to_owned() },
            _ => error.into(),
        })
    }

    /// The repository of an image at its commit; made if it is not there yet.
    pub async fn image_tree(&self, image: &str, commit: &str) -> Result<Prepared, SweError> {
        let facts = self.image(image).await?;
        let tree = name("image", &[&facts.digest, SCRIPT, commit]);
        let _alone = self.alone(&tree).await;
        let own = |folders: &[&str]| folders.iter().map(|&folder| folder.to_owned()).collect::<Vec<_>>();
        let usual = if facts.path.is_empty() { own(&USUAL) } else { facts.path };
        let path = own(&PROGRAMS).into_iter().chain(usual).collect();
        let prepared = Prepared { from: tree.clone(), trees: Vec::new(), packages: None, path: Some(path) };
        if self.is_kept(&tree) && self.is_there(&tree).await? {
            return Ok(prepared);
        }
        let mut env = git_environment(false);
        env.insert("GIT_SETTINGS".to_owned(), GIT_SETTINGS.to_owned());
        let ground = Ground {
            backend: BackendKind::Docker,
            image: Some(facts.digest),
            env,
            limits: limits(),
            time: TIME * 2,
            ..Ground::default()
        };
        let site = Site::open(self.engine(), self.caller(), ground).await?;
        let said = site.run(script(SCRIPT, &[IMAGE_TREE, commit, TREE])).await?;
        if !said.is_ok() {
            let (image, why) = (image.to_owned(), said.last(3));
            return Err(SweError::Image { image, commit: commit.to_owned(), why });
        }
        self.count();
        site.keep(&tree, &format!("{commit} of {image}")).await?;
        Ok(prepared)
    }

    /// Whether the daemon still has what was kept there; its owner may have removed it, or it is another daemon.
    async fn is_there(&self, tree: &str) -> Result<bool, SweError> {
        let kept = self.engine().snapshot(self.caller(), tree)?;
        let digest = kept.state.rsplit('@').next().unwrap_or_default().to_owned();
        match self.image(&digest).await {
            Ok(_) => Ok(true),
            Err(SweError::NoImage { .. }) => {
                self.engine().delete_snapshot(self.caller(), tree).await?;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Where the reporter can be put in a sandbox that was made of an image.
    pub async fn image_packages(&self, site: &Site) -> Result<Option<String>, SweError> {
        let said = site.run(script(PACKAGES, &[])).await?;
        let path = said.out.trim();
        Ok((said.is_ok() && path.starts_with('/')).then(|| path.to_owned()))
    }
}

/// The image of an instance, as SWE-bench names them.
#[must_use]
pub fn image_name(instance: &str) -> String {
    let machine = if cfg!(target_arch = "aarch64") { "arm64" } else { "x86_64" };
    format!("swebench/sweb.eval.{machine}.{}:latest", instance.to_lowercase().replace("__", "_1776_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn images_have_the_names_that_the_data_sets_give_them() {
        assert_eq!(image_name("pallets__Flask-5014"), "swebench/sweb.eval.x86_64.pallets_1776_flask-5014:latest");
    }
}
