//! The word that was probably meant.

/// The candidate nearest to `word`, unless it is so far that it would only confuse.
pub(super) fn nearest<'a>(
    word: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    let furthest = (word.len() / 3).max(2);
    candidates
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= furthest)
        .min()
        .map(|(_, candidate)| candidate)
}

/// How many characters must be inserted, removed or replaced to make `from` into `to`
/// (Levenshtein's distance), one row of the table at a time.
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.chars().count()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.chars().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_levenshteins() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", ""), 3);
        assert_eq!(distance("same", "same"), 0);
    }

    #[test]
    fn only_a_near_word_is_suggested() {
        let words = ["probe_period", "push_rate", "join"];
        let near = |word| nearest(word, words.into_iter());
        assert_eq!(near("probe-period"), Some("probe_period"));
        assert_eq!(near("jion"), Some("join"));
        assert_eq!(near("encryption"), None);
    }
}
