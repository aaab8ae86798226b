//! Where packages come from.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

/// Whoever has packages, if nobody names others: Python's index, and mirrors of distributions.
const USUAL_INDEX: [&str; 2] = ["pypi.org", "files.pythonhosted.org"];
const USUAL_MIRRORS: [&str; 2] = ["deb.debian.org", "archive.ubuntu.com"];

/// Where packages come from. Nothing of it is taken from the environment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Sources {
    /// Index of Python packages, in place of pip's own.
    pub index_url: Option<String>,
    /// Registry of Node packages, in place of npm's own.
    pub npm_registry: Option<String>,
    /// Mirror of the host's own distribution, in place of its usual one.
    pub apt_mirror: Option<String>,
    /// Proxy for all of them.
    pub proxy: Option<String>,
    /// Certificates of the authorities to trust, as PEM: the name of a file.
    pub ca_bundle: Option<std::path::PathBuf>,
    /// Where projects are cloned from whose patches are tested: an address with `{owner}` and `{name}` in it. No image
    /// depends on it.
    #[serde(skip)]
    pub repositories: Option<String>,
}

impl Sources {
    /// These, and `others` where these say nothing.
    #[must_use]
    pub fn or(self, others: &Self) -> Self {
        Self {
            index_url: self.index_url.or_else(|| others.index_url.clone()),
            npm_registry: self.npm_registry.or_else(|| others.npm_registry.clone()),
            apt_mirror: self.apt_mirror.or_else(|| others.apt_mirror.clone()),
            proxy: self.proxy.or_else(|| others.proxy.clone()),
            ca_bundle: self.ca_bundle.or_else(|| others.ca_bundle.clone()),
            repositories: self.repositories.or_else(|| others.repositories.clone()),
        }
    }

    /// What installers in a sandbox are told of them; `authorities` is where they find the certificates, if there are any.
    #[must_use]
    pub fn environment(&self, authorities: &str) -> BTreeMap<String, String> {
        let mut env = BTreeMap::new();
        let mut set = |names: &[&str], value: &str| {
            env.extend(names.iter().map(|name| ((*name).to_owned(), value.to_owned())));
        };
        set(&["PIP_NO_INPUT", "PIP_DISABLE_PIP_VERSION_CHECK", "PIP_NO_CACHE_DIR"], "1");
        set(&["npm_config_update_notifier", "npm_config_audit", "npm_config_fund"], "false");
        if let Some(url) = &self.index_url {
            set(&["PIP_INDEX_URL"], url);
            // Who names an index without TLS means it.
            if let Some(host) = url.strip_prefix("http://").and_then(|rest| rest.split(['/', '@']).next()) {
                set(&["PIP_TRUSTED_HOST"], host);
            }
        }
        if let Some(url) = &self.npm_registry {
            set(&["npm_config_registry"], url);
        }
        if let Some(url) = &self.apt_mirror {
            set(&["SAGGAR_APT_MIRROR"], url);
        }
        if let Some(url) = &self.proxy {
            set(&["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"], url);
        }
        if self.ca_bundle.is_some() {
            let names = ["PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "npm_config_cafile"];
            set(&names, authorities);
        }
        env
    }

    /// Names and ports of whoever has packages. Those may be private addresses, which only the owner of the machine names.
    pub(crate) fn services(&self) -> Vec<(String, u16)> {
        let named = [&self.index_url, &self.npm_registry, &self.apt_mirror, &self.proxy, &self.repositories];
        let mut services: Vec<_> = named.into_iter().flatten().filter_map(|url| service(url)).collect();
        if self.index_url.is_none() {
            services.extend(USUAL_INDEX.map(|name| (name.to_owned(), 443)));
        }
        if self.apt_mirror.is_none() {
            services.extend(USUAL_MIRRORS.map(|name| (name.to_owned(), 80)));
        }
        services
    }
}

/// Where the owner of a Debian or Ubuntu puts certificates of authorities that he trusts beside the usual ones.
const HOUSE: &str = "/usr/local/share/ca-certificates";
/// What may come of them.
const MOST_CERTIFICATES: usize = 1 << 20;

/// Certificates of the authorities that the owner of this host has added to the usual ones, as PEM.
pub(super) fn authorities_of_the_house() -> Option<String> {
    authorities_in(Path::new(HOUSE))
}

fn authorities_in(folder: &Path) -> Option<String> {
    let entries = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let mut files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|ending| ending == "crt")).collect();
    files.sort();
    let mut all = String::new();
    for text in files.iter().filter_map(|path| std::fs::read_to_string(path).ok()) {
        if text.contains("-----BEGIN CERTIFICATE-----") && all.len() + text.len() < MOST_CERTIFICATES {
            all.push_str(text.trim_end());
            all.push('\n');
        }
    }
    Some(all).filter(|all| !all.is_empty())
}

/// The name and port of an address such as `https://user@host:8080/simple`.
fn service(url: &str) -> Option<(String, u16)> {
    let (scheme, rest) = url.split_once("://")?;
    let usual = match scheme {
        "https" => 443,
        "http" => 80,
        _ => return None,
    };
    let place = rest.split(['/', '?', '#']).next()?;
    let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
    if let Some(rest) = place.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        return Some((address.to_owned(), port.strip_prefix(':').map_or(Some(usual), |port| port.parse().ok())?));
    }
    match place.rsplit_once(':') {
        Some((name, port)) => Some((name.to_owned(), port.parse().ok()?)),
        None => Some((place.to_owned(), usual)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_its_service() {
        let cases = [
            ("https://packages.example/simple", Some(("packages.example", 443))),
            ("http://name:secret@packages.example:8080/simple", Some(("packages.example", 8080))),
            ("http://[fd00::1]:81/x", Some(("fd00::1", 81))),
            ("https://[fd00::1]/x", Some(("fd00::1", 443))),
            ("file:///srv/packages", None),
            ("packages.example", None),
            ("https://packages.example:many/", None),
        ];
        for (url, wanted) in cases {
            assert_eq!(service(url), wanted.map(|(name, port)| (name.to_owned(), port)), "{url}");
        }
    }

    #[test]
    fn authorities_of_the_house_are_certificates_and_nothing_else() {
        let folder = std::env::temp_dir().join(format!("saggar-authorities-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let pem = |name: &str| format!("-----BEGIN CERTIFICATE-----\n{name}\n-----END CERTIFICATE-----\n");
        for (file, text) in
            [("b.crt", pem("b")), ("a.crt", pem("a")), ("notes.txt", pem("c")), ("d.crt", "x".to_owned())]
        {
            std::fs::write(folder.join(file), text).unwrap();
        }
        let found = authorities_in(&folder);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found, Some(pem("a") + &pem("b")));
        assert_eq!(authorities_in(&folder), None);
    }

    #[test]
    fn sources_come_from_where_they_are_said_and_nowhere_else() {
        let settings = Sources { proxy: Some("http://p".to_owned()), ..Sources::default() };
        let said = Sources { index_url: Some("http://i".to_owned()), ..Sources::default() };
        let env = said.or(&settings).environment("/work/a.pem");
        assert_eq!((env["PIP_INDEX_URL"].as_str(), env["https_proxy"].as_str()), ("http://i", "http://p"));
        assert!(
            !Sources::default()
                .environment("/work/a.pem")
                .keys()
                .any(|name| name.contains("proxy") || name.contains("CERT"))
        );
    }
}
