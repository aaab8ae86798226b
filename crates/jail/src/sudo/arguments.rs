//! What the words after `sudo` mean. Those flags are known that scripts use; any other is refused by name.

/// What is to be done.
#[derive(Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub(super) struct Arguments {
    /// As whom; root if nobody is named.
    pub(super) user: Option<String>,
    /// The whole environment goes along.
    pub(super) keep_env: bool,
    /// The words are for a shell, or there is one if there are none.
    pub(super) shell: bool,
    /// The shell is one that somebody logs in with, in his own folder.
    pub(super) login: bool,
    /// Nothing is to be started: `-v`, `-k`, `-l`.
    pub(super) idle: bool,
    /// Variables for the program.
    pub(super) env: Vec<(String, String)>,
    pub(super) words: Vec<String>,
}

/// Why the words make no sense.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    Flag(String),
    NoValue(String),
    Nothing,
}

/// Reads the words.
pub(super) fn parse(words: impl IntoIterator<Item = String>) -> Result<Arguments, Wrong> {
    let mut arguments = Arguments::default();
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next_if(|word| word.len() > 1 && word.starts_with('-')) {
        if word == "--" {
            break;
        }
        if let Some(long) = word.strip_prefix("--") {
            let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            match name {
                "user" => {
                    let value = value.map(str::to_owned).or_else(|| words.next());
                    arguments.user = Some(value.ok_or_else(|| Wrong::NoValue(word.clone()))?);
                }
                "preserve-env" => arguments.keep_env = true,
                "shell" => arguments.shell = true,
                "login" => arguments.login = true,
                "validate" | "list" | "reset-timestamp" => arguments.idle = true,
                "non-interactive" | "set-home" | "stdin" => {}
                _ => return Err(Wrong::Flag(word)),
            }
            continue;
        }
        let mut letters = word[1..].chars();
        while let Some(letter) = letters.next() {
            match letter {
                'u' => {
                    let rest = letters.as_str();
                    let value = if rest.is_empty() { words.next() } else { Some(rest.to_owned()) };
                    arguments.user = Some(value.ok_or_else(|| Wrong::NoValue("-u".to_owned()))?);
                    break;
                }
                'E' => arguments.keep_env = true,
                's' => arguments.shell = true,
                'i' => arguments.login = true,
                'v' | 'k' | 'K' | 'l' => arguments.idle = true,
                // Nobody is asked for a password here.
                'n' | 'S' | 'H' => {}
                other => return Err(Wrong::Flag(format!("-{other}"))),
            }
        }
    }
    while let Some((name, value)) = words.peek().and_then(|word| assignment(word)) {
        arguments.env.push((name, value));
        words.next();
    }
    arguments.words = words.collect();
    let needs_words = !(arguments.shell || arguments.login || arguments.idle);
    if needs_words && arguments.words.is_empty() { Err(Wrong::Nothing) } else { Ok(arguments) }
}

fn assignment(word: &str) -> Option<(String, String)> {
    let (name, value) = word.split_once('=')?;
    let is_name = |name: &str| {
        !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    is_name(name).then(|| (name.to_owned(), value.to_owned()))
}

/// Words as a shell reads them back.
pub(super) fn quoted(words: &[String]) -> String {
    let quote = |word: &String| format!("'{}'", word.replace('\'', "'\\''"));
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Arguments, Wrong> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn words_of_scripts_are_understood() {
        let plain = parsed("apt-get install -y jq").unwrap();
        assert_eq!(plain.words, ["apt-get", "install", "-y", "jq"]);
        let all = parsed("-nEu postgres A=1 B=x=y psql").unwrap();
        assert_eq!((all.user.as_deref(), all.keep_env), (Some("postgres"), true));
        assert_eq!(all.env, [("A".into(), "1".into()), ("B".into(), "x=y".into())]);
        assert_eq!(all.words, ["psql"]);
        assert_eq!(parsed("-E -- psql -u x").unwrap().words, ["psql", "-u", "x"]);
        assert_eq!(parsed("--user=user id").unwrap().user.as_deref(), Some("user"));
        assert_eq!(parsed("-uuser id").unwrap().user.as_deref(), Some("user"));
        assert!(parsed("-s").unwrap().shell && parsed("-i").unwrap().login && parsed("-v").unwrap().idle);
        assert_eq!(parsed(""), Err(Wrong::Nothing));
        assert_eq!(parsed("-z id"), Err(Wrong::Flag("-z".into())));
        assert_eq!(parsed("-u"), Err(Wrong::NoValue("-u".into())));
        assert_eq!(quoted(&["it's".into(), "a b".into()]), "'it'\\''s' 'a b'");
    }
}
