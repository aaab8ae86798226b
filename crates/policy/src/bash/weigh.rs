//! How much there is to walk: what is walked more than once must be little.

use super::tree::{Command, List, Part, What, Word};

/// Whether a list is small enough to be walked more than once.
pub(super) fn weigh(list: &List, room: &mut usize) -> bool {
    list.iter().flat_map(|pipeline| &pipeline.commands).all(|command| weigh_command(command, room))
}

/// Whether a command is.
pub(super) fn weigh_command(command: &Command, room: &mut usize) -> bool {
    let redirects = command.redirects.iter().all(|redirect| weigh_word(&redirect.target, room));
    redirects
        && take(room, 4)
        && match &command.what {
            What::Simple { assignments, words } => {
                let set = assignments.iter().flat_map(|assignment| assignment.values.iter().chain(&assignment.index));
                words.iter().chain(set).all(|word| weigh_word(word, room))
            }
            What::Compound(lists) => lists.iter().all(|list| weigh(list, room)),
            What::For { words, body, .. } => words.iter().all(|word| weigh_word(word, room)) && weigh(body, room),
            What::Loop { test, body, .. } => weigh(test, room) && weigh(body, room),
            // Functions and texts of other files are not for loops.
            What::Function { .. } => false,
            What::Document(word) => weigh_word(word, room),
            What::Nothing(words) => words.iter().all(|word| weigh_word(word, room)),
        }
}

fn weigh_word(word: &Word, room: &mut usize) -> bool {
    word.parts.iter().all(|part| match part {
        Part::Text(text) => take(room, text.len() + 1),
        Part::Output(list) | Part::Into(list) => weigh(list, room),
        Part::Variable(_) | Part::Changed { .. } | Part::Unknown => take(room, 4),
    })
}

fn take(room: &mut usize, cost: usize) -> bool {
    let left = room.checked_sub(cost);
    *room = left.unwrap_or(0);
    left.is_some()
}
