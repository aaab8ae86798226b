//! Who there is: the sandbox's own list of users.

use std::fs;

/// A user of the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Person {
    pub(super) name: String,
    pub(super) user: u32,
    pub(super) group: u32,
    pub(super) home: String,
    pub(super) shell: String,
}

/// The one who is called so; `#7` is the one with that number.
pub(super) fn find(name: &str) -> Option<Person> {
    let list = fs::read_to_string("/etc/passwd").unwrap_or_default();
    find_in(&list, name)
}

/// The one with this number, or somebody without a name.
pub(super) fn numbered(user: u32) -> Person {
    find(&format!("#{user}")).unwrap_or_else(|| Person {
        name: user.to_string(),
        user,
        group: user,
        home: "/".to_owned(),
        shell: "/bin/sh".to_owned(),
    })
}

fn find_in(list: &str, name: &str) -> Option<Person> {
    let number = name.strip_prefix('#').and_then(|number| number.parse::<u32>().ok());
    let found = list.lines().filter_map(parse).find(|person| match number {
        Some(number) => person.user == number,
        None => person.name == name,
    });
    // Root is there, whatever an image's list says.
    let root =
        || Person { name: "root".to_owned(), user: 0, group: 0, home: "/root".to_owned(), shell: "/bin/sh".to_owned() };
    found.or_else(|| (name == "root" || number == Some(0)).then(root))
}

fn parse(line: &str) -> Option<Person> {
    let fields: Vec<&str> = line.split(':').collect();
    let [name, _, user, group, _, home, shell] = fields[..] else { return None };
    let shell = if shell.is_empty() { "/bin/sh" } else { shell };
    Some(Person {
        name: name.to_owned(),
        user: user.parse().ok()?,
        group: group.parse().ok()?,
        home: home.to_owned(),
        shell: shell.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_found_by_name_and_by_number() {
        let list = "user:x:1000:1001:user:/home/user:/bin/bash\nnonsense\nodd:x:7:8:::\n";
        assert_eq!(find_in(list, "user").map(|person| (person.user, person.group)), Some((1000, 1001)));
        assert_eq!(
            find_in(list, "#7").map(|person| (person.name, person.shell)),
            Some(("odd".into(), "/bin/sh".into()))
        );
        assert_eq!(find_in(list, "root").map(|person| person.home), Some("/root".into()));
        assert_eq!(find_in(list, "nobody"), None);
    }
}
