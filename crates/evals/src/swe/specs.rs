//! How the twelve projects of SWE-bench are installed and tested, by version: for rows that do not say so themselves.

use std::collections::BTreeMap;

/// What a project needs in one version.
#[derive(Debug, Clone, Default)]
pub(super) struct Spec {
    pub(super) python: (u8, u8),
    pub(super) packages: Vec<String>,
    pub(super) requirements: Vec<String>,
    pub(super) pre_install: Vec<String>,
    pub(super) install: Vec<String>,
    pub(super) test: String,
    pub(super) env: BTreeMap<String, String>,
}

const PYTEST: &str = "pytest -rA";
const DJANGO: &str = "./tests/runtests.py --verbosity 2 --settings=test_sqlite --parallel 1";
const SYMPY: &str = "PYTHONWARNINGS='ignore::UserWarning,ignore::SyntaxWarning' bin/test -C --verbose";
const EDITABLE: &str = "python -m pip install -e .";

/// What is known of a project in a version; nothing where it is none of the twelve.
pub(super) fn of(repo: &str, version: &str) -> Option<Spec> {
    let number = number(version);
    let spec = match repo {
        "astropy/astropy" => astropy(number),
        "django/django" => {
            let python = match number {
                (0..=3, _) => (3, 6),
                (4, 0) => (3, 8),
                (4, _) => (3, 9),
                _ => (3, 11),
            };
            let test = if number <= (1, 9) { "./tests/runtests.py --verbosity 2" } else { DJANGO };
            Spec { requirements: one("tests/requirements/py3.txt"), ..spec(python, "setuptools wheel", EDITABLE, test) }
        }
        "matplotlib/matplotlib" => matplotlib(number),
        "mwaskom/seaborn" => {
            let pandas = if number >= (0, 12) { "pandas==2.0.0" } else { "pandas==1.3.5" };
            let packages = format!(
                "contourpy==1.1.0 cycler==0.11.0 fonttools==4.42.1 importlib-resources==6.0.1 kiwisolver==1.4.5 matplotlib==3.7.2 numpy==1.25.2 packaging==23.1 {pandas} pillow==10.0.0 pyparsing==3.0.9 pytest python-dateutil==2.8.2 pytz==2023.3.post1 scipy==1.11.2 six==1.16.0 tzdata==2023.1 zipp==3.16.2 flit-core setuptools wheel"
            );
            let install = if number >= (0, 12) { "python -m pip install -e .[dev]" } else { EDITABLE };
            spec((3, 9), &packages, install, "pytest --no-header -rA")
        }
        "pallets/flask" => {
            let (python, werkzeug) = match number {
                (0..=1, _) | (2, 0) => {
                    ((3, 9), "Werkzeug==2.3.7 Jinja2==3.0.1 itsdangerous==2.1.2 click==8.0.1 MarkupSafe==2.1.3")
                }
                (2, 1) => ((3, 10), "Werkzeug==2.3.7 Jinja2==3.0.1 itsdangerous==2.1.2 click==8.1.3 MarkupSafe==2.1.1"),
                _ => ((3, 11), "Werkzeug==2.3.7 Jinja2==3.1.2 itsdangerous==2.1.2 click==8.1.3 MarkupSafe==2.1.2"),
            };
            let packages =
                format!("setuptools==70.0.0 wheel flit-core pytest==7.3.0 asgiref python-dotenv blinker {werkzeug}");
            spec(python, &packages, EDITABLE, PYTEST)
        }
        "psf/requests" => spec((3, 9), "pytest==7.4.4 setuptools wheel", "python -m pip install .", PYTEST),
        "pydata/xarray" => {
            let packages = "numpy==1.23.0 packaging==23.1 pandas==1.5.3 pytest==7.4.0 python-dateutil==2.8.2 pytz==2023.3 six==1.16.0 scipy==1.11.1 setuptools==68.0.0 setuptools-scm==7.1.0 wheel dask==2022.8.1 cftime pyyaml";
            spec((3, 10), packages, EDITABLE, PYTEST)
        }
        "pylint-dev/pylint" => {
            let setuptools = if number >= (3, 0) { "setuptools==66.1.1" } else { "setuptools==62.6.0" };
            let astroid = if number >= (3, 0) { "astroid==3.0.0a6" } else { "" };
            let packages = format!("{setuptools} wheel setuptools-scm==7.1.0 {astroid}");
            Spec { requirements: one("requirements_test.txt"), ..spec((3, 9), &packages, EDITABLE, PYTEST) }
        }
        "pytest-dev/pytest" => {
            let packages = match number {
                (4, 0..=3) => {
                    "atomicwrites==1.4.1 attrs==23.1.0 more-itertools==10.1.0 pluggy==0.9.0 py==1.11.0 setuptools==68.0.0 six==1.16.0"
                }
                (4, _) => {
                    "atomicwrites==1.4.1 attrs==23.1.0 more-itertools==10.1.0 pluggy==0.11.0 py==1.11.0 setuptools==68.0.0 six==1.16.0 wcwidth==0.2.6 importlib-metadata packaging"
                }
                (5, _) => {
                    "atomicwrites==1.4.1 attrs==23.1.0 more-itertools==10.1.0 packaging==23.1 pluggy==0.13.1 py==1.11.0 wcwidth==0.2.6"
                }
                (6, _) => {
                    "attrs==23.1.0 iniconfig==2.0.0 more-itertools==10.1.0 packaging==23.1 pluggy==0.13.1 py==1.11.0 toml==0.10.2"
                }
                (7, _) => "attrs==23.1.0 iniconfig==2.0.0 packaging==23.1 pluggy==0.13.1 py==1.11.0 tomli==2.0.1",
                _ => "exceptiongroup==1.1.3 iniconfig==2.0.0 packaging==23.1 pluggy==1.3.0 tomli==2.0.1",
            };
            // Development of 6.3 had a mistake there for a while.
            let pre = if number == (6, 3) { one("sed -i 's/>=>=/>=/' setup.cfg") } else { Vec::new() };
            let packages = format!("{packages} setuptools wheel setuptools-scm");
            Spec { pre_install: pre, ..spec((3, 9), &packages, EDITABLE, PYTEST) }
        }
        "scikit-learn/scikit-learn" => {
            let (python, packages) = if number >= (1, 0) {
                // The first of these versions that pip has for this Python.
                (
                    (3, 9),
                    "numpy==1.19.5 scipy==1.5.4 cython==3.0.10 pandas==1.4.4 matplotlib==3.6.2 pytest==7.4.4 joblib==1.4.2 threadpoolctl==3.5.0 setuptools==75.1.0 wheel==0.44.0",
                )
            } else {
                (
                    (3, 6),
                    "numpy==1.19.2 scipy==1.5.2 cython==0.29.24 pandas==1.1.5 matplotlib==3.3.4 pytest==6.2.4 joblib==1.1.1 setuptools==58.0.4 wheel==0.37.1",
                )
            };
            spec(python, packages, "python -m pip install -v --no-use-pep517 --no-build-isolation -e .", PYTEST)
        }
        "sphinx-doc/sphinx" => {
            let python = if number >= (8, 0) { (3, 10) } else { (3, 9) };
            let packages = if number >= (7, 0) {
                "setuptools wheel flit-core cython"
            } else {
                "Jinja2==3.0.3 markupsafe==2.0.1 setuptools wheel flit-core cython"
            };
            let pins = "sed -i 's/Jinja2>=2.3/Jinja2<3.0/; s/sphinxcontrib-applehelp/sphinxcontrib-applehelp<=1.0.7/; s/sphinxcontrib-devhelp/sphinxcontrib-devhelp<=1.0.5/; s/sphinxcontrib-qthelp/sphinxcontrib-qthelp<=1.0.6/; s/alabaster>=0.7,<0.8/alabaster>=0.7,<0.7.12/; s/sphinxcontrib-htmlhelp>=2.0.0/sphinxcontrib-htmlhelp>=2.0.0,<=2.0.4/; s/sphinxcontrib-serializinghtml>=1.1.5/sphinxcontrib-serializinghtml>=1.1.5,<=1.1.9/' setup.py";
            let pre_install = if number < (4, 5) { one(pins) } else { Vec::new() };
            let test = "python -X dev -m pytest -rA --durations 25";
            Spec { pre_install, ..spec(python, packages, "python -m pip install -e .[test]", test) }
        }
        "sympy/sympy" => spec((3, 9), "mpmath==1.3.0 setuptools wheel", EDITABLE, SYMPY),
        _ => return None,
    };
    Some(with_version(spec, repo, version))
}

/// What is compiled is compiled by the versions of its time.
fn astropy(number: (u32, u32)) -> Spec {
    let install = "python -m pip install -e .[test] --verbose";
    if number <= (1, 3) {
        let packages = "attrs==17.3.0 cython==0.27.3 execnet==1.5.0 hypothesis==3.44.2 jinja2==2.10 markupsafe==1.0 numpy==1.16.0 packaging==16.8 pluggy==0.6.0 psutil==5.4.2 py==1.11.0 pytest==3.3.1 pytest-arraydiff==0.1 pytest-astropy==0.2.1 pytest-cov==2.5.1 pytest-doctestplus==0.1.2 pytest-forked==0.2 pytest-mock==1.6.3 pytest-openfiles==0.2.0 pytest-remotedata==0.2.0 pytest-xdist==1.20.1 pyyaml==3.12 six==1.16.0 sortedcontainers==1.5.9 setuptools==38.2.4 wheel==0.37.1";
        return spec((3, 6), packages, install, "pytest -rA -vv -o console_output_style=classic --tb=no");
    }
    let common = "attrs==23.1.0 exceptiongroup==1.1.3 execnet==2.0.2 hypothesis==6.82.6 iniconfig==2.0.0 numpy==1.25.2 packaging==23.1 pluggy==1.3.0 psutil==5.9.5 pyerfa==2.0.0.3 pytest-arraydiff==0.5.0 pytest-astropy-header==0.2.2 pytest-astropy==0.10.0 pytest-cov==4.1.0 pytest-doctestplus==1.0.0 pytest-filter-subpackage==0.1.2 pytest-mock==3.11.1 pytest-openfiles==0.5.0 pytest-remotedata==0.4.0 pytest-xdist==3.3.1 PyYAML==6.0.1 sortedcontainers==2.4.0 tomli==2.0.1 wheel==0.44.0";
    if number < (4, 0) {
        let packages = format!("{common} pytest==7.1.2 setuptools==58.0.0 cython==0.29.36 jinja2==3.1.4");
        return spec((3, 9), &packages, install, PYTEST);
    }
    let python = if number >= (5, 3) { (3, 10) } else { (3, 9) };
    let pre = "sed -i 's/requires = \\[\"setuptools\",/requires = [\"setuptools==68.0.0\",/' pyproject.toml";
    let packages = format!("{common} pytest==7.4.0 setuptools==68.0.0");
    Spec { pre_install: one(pre), ..spec(python, &packages, install, PYTEST) }
}

/// Versions since 3.3 fetch `FreeType` and Qhull while they are built: tests compare pictures made with these.
fn matplotlib(number: (u32, u32)) -> Spec {
    let (python, packages) = match number {
        (0..=2, _) | (3, 0) => (
            (3, 7),
            "cycler==0.11.0 kiwisolver==1.4.5 numpy==1.21.6 pillow==9.5.0 pyparsing==3.1.4 python-dateutil==2.9.0.post0 pytest==7.4.4 pytest-rerunfailures==13.0 pytest-timeout==2.3.1 setuptools==65.6.3 wheel==0.38.4",
        ),
        (3, 1..=4) => (
            (3, 8),
            "certifi cycler==0.12.1 kiwisolver==1.4.7 numpy==1.24.4 pillow==10.4.0 pyparsing==2.4.7 python-dateutil==2.9.0.post0 pytest==8.3.4 pytest-rerunfailures==14.0 pytest-timeout==2.3.1 pandas==2.0.3 setuptools==69.5.1 setuptools-scm==7.1.0 wheel==0.44.0",
        ),
        _ => (
            (3, 11),
            "certifi contourpy==1.1.0 cycler==0.11.0 fonttools==4.42.1 kiwisolver==1.4.5 numpy==1.25.2 packaging==23.1 pillow==10.0.0 pyparsing==3.0.9 python-dateutil==2.8.2 pybind11==2.13.6 pytest==8.3.4 pytest-rerunfailures==15.0 pytest-timeout==2.3.1 pandas==2.2.3 psutil setuptools==68.1.2 setuptools-scm==7.1.0 setuptools-scm-git-archive wheel==0.45.1",
        ),
    };
    let install = if number >= (3, 8) { "python -m pip install --no-build-isolation -e \".[dev]\"" } else { EDITABLE };
    spec(python, packages, install, PYTEST)
}

/// Any project of SWE-smith, whose rows do not say it.
pub(super) fn smith() -> Spec {
    let test = "pytest --disable-warnings --color=no --tb=no --verbose";
    spec((3, 10), "pytest setuptools wheel", EDITABLE, test)
}

/// Projects that ask git for their version, which has no tags here.
fn with_version(mut spec: Spec, repo: &str, version: &str) -> Spec {
    let asks = ["pytest-dev/pytest", "pydata/xarray", "matplotlib/matplotlib", "astropy/astropy"];
    if asks.contains(&repo) && !version.is_empty() {
        spec.env.insert("SETUPTOOLS_SCM_PRETEND_VERSION".to_owned(), format!("{version}.0"));
    }
    spec
}

fn spec(python: (u8, u8), packages: &str, install: &str, test: &str) -> Spec {
    let packages = packages.split_whitespace().map(str::to_owned).collect();
    Spec { python, packages, install: one(install), test: test.to_owned(), ..Spec::default() }
}

fn one(text: &str) -> Vec<String> {
    vec![text.to_owned()]
}

fn number(version: &str) -> (u32, u32) {
    let mut parts = version.trim_start_matches('v').split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

/// Files as the runner of a project names them.
pub(super) fn arguments(repo: &str, files: &[String]) -> Vec<String> {
    if repo != "django/django" {
        return files.to_vec();
    }
    let module = |file: &String| {
        let file = file.strip_suffix(".py").unwrap_or(file);
        file.strip_prefix("tests/").unwrap_or(file).replace('/', ".")
    };
    files.iter().map(module).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_project_has_an_interpreter_and_a_test_command_in_every_version() {
        let repos = [
            "astropy/astropy",
            "django/django",
            "matplotlib/matplotlib",
            "mwaskom/seaborn",
            "pallets/flask",
            "psf/requests",
            "pydata/xarray",
            "pylint-dev/pylint",
            "pytest-dev/pytest",
            "scikit-learn/scikit-learn",
            "sphinx-doc/sphinx",
            "sympy/sympy",
        ];
        for repo in repos {
            for version in ["0.11", "1.3", "2.3", "3.2", "4.2", "5.0", "7.1", "8.0", ""] {
                let spec = of(repo, version).unwrap();
                assert!(spec.python >= (3, 6) && !spec.test.is_empty() && !spec.install.is_empty(), "{repo} {version}");
            }
        }
        assert!(of("x/y", "1.0").is_none());
    }
}
