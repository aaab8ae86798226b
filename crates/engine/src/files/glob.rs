//! Globs over paths below `/work`: `*` and `?` within a name, `**` across folders.

/// A pattern such as `**`, `*.csv` or `out/**/*.png`.
#[derive(Debug, Clone)]
pub(crate) struct Glob(Vec<String>);

impl Glob {
    pub(crate) fn new(pattern: &str) -> Self {
        Self(pattern.trim_start_matches("./").split('/').map(str::to_owned).collect())
    }

    /// Whether the whole of `path` matches.
    pub(crate) fn matches(&self, path: &str) -> bool {
        let parts: Vec<&str> = path.split('/').collect();
        folders(&self.0, &parts)
    }
}

/// Row by row over the pattern: the time is the product of both lengths, whatever the pattern.
fn folders(pattern: &[String], parts: &[&str]) -> bool {
    let mut reach = vec![false; parts.len() + 1];
    reach[0] = true;
    for piece in pattern {
        let mut next = vec![false; parts.len() + 1];
        if piece == "**" {
            let first = reach.iter().position(|r| *r).unwrap_or(parts.len() + 1);
            next.iter_mut().skip(first).for_each(|slot| *slot = true);
        } else {
            for (i, part) in parts.iter().enumerate() {
                next[i + 1] = reach[i] && name(piece.as_bytes(), part.as_bytes());
            }
        }
        reach = next;
    }
    reach[parts.len()]
}

/// The classical two-finger match: back up to the last star, never further.
fn name(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t, mut star) = (0, 0, None);
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&c) if c == b'?' || c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    p = at + 1;
                    t = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_a_shell() {
        for (pattern, path, wanted) in [
            ("**", "a/b/c.txt", true),
            ("*", "a.txt", true),
            ("*", "a/b.txt", false),
            ("*.csv", "data.csv", true),
            ("*.csv", "data.csv.bak", false),
            ("out/**", "out/x/y", true),
            ("out/**", "in/x", false),
            ("**/*.png", "p.png", true),
            ("**/*.png", "a/b/p.png", true),
            ("a?c", "abc", true),
            ("a*b*c", "aXXbYYc", true),
            ("./a", "a", true),
        ] {
            assert_eq!(Glob::new(pattern).matches(path), wanted, "{pattern} {path}");
        }
    }

    #[test]
    fn no_pattern_takes_exponential_time() {
        let pattern = "a*".repeat(200) + "b";
        assert!(!Glob::new(&pattern).matches(&"a".repeat(2000)));
        assert!(!Glob::new(&("**/".repeat(100) + "b")).matches(&("a/".repeat(60) + "a")));
    }
}
