//! Stems of English words, so that `cows` is linked with `cow` and `eating` with `ate`.
//!
//! An S-stemmer (Harman, "How effective is suffixing?", JASIS 1991) with -ing and -ed, and
//! a table of irregular forms. Stems are keys, not words: `live` and `living` are `liv`.

/// Forms that no rule takes to their stem.
const IRREGULAR: &[(&str, &str)] = &[
    ("men", "man"),
    ("women", "woman"),
    ("children", "child"),
    ("people", "person"),
    ("feet", "foot"),
    ("teeth", "tooth"),
    ("mice", "mouse"),
    ("wives", "wife"),
    ("lives", "life"),
    ("knives", "knife"),
    ("leaves", "leaf"),
    ("went", "go"),
    ("gone", "go"),
    ("goes", "go"),
    ("ate", "eat"),
    ("eaten", "eat"),
    ("ran", "run"),
    ("sat", "sit"),
    ("stood", "stand"),
    ("held", "hold"),
    ("made", "make"),
    ("took", "take"),
    ("taken", "take"),
    ("gave", "give"),
    ("given", "give"),
    ("got", "get"),
    ("said", "say"),
    ("saw", "see"),
    ("seen", "see"),
    ("came", "come"),
    ("wore", "wear"),
    ("worn", "wear"),
    ("rode", "ride"),
    ("ridden", "ride"),
    ("wrote", "write"),
    ("written", "write"),
    ("won", "win"),
    ("lost", "lose"),
    ("bought", "buy"),
    ("sold", "sell"),
    ("found", "find"),
    ("told", "tell"),
    ("led", "lead"),
    ("kept", "keep"),
    ("built", "build"),
    ("became", "become"),
    ("began", "begin"),
    ("begun", "begin"),
    ("grew", "grow"),
    ("grown", "grow"),
    ("knew", "know"),
    ("known", "know"),
    ("paid", "pay"),
    ("better", "good"),
    ("best", "good"),
    ("worse", "bad"),
    ("worst", "bad"),
];

/// The stem of a word in lower case: irregular forms by a table; plural and third person
/// by the S-stemmer (Harman 1991); -ing and -ed; and no final e, which these leave or not.
pub(crate) fn stem(word: &str) -> String {
    // A stem from the table goes through the rules as well: `taken` and `takes` are
    // `tak`.
    let regular = IRREGULAR.iter().find(|(form, _)| *form == word);
    let word = regular.map_or(word, |&(_, stem)| stem);
    let mut stem = singular(word);
    for ending in ["ing", "ed"] {
        let Some(rest) = stem.strip_suffix(ending) else { continue };
        // `string` and `breed` have no such ending.
        let is_ending = rest.chars().count() >= 3
            && rest.contains(['a', 'e', 'i', 'o', 'u', 'y'])
            && !stem.ends_with("eed");
        if is_ending {
            stem = match rest.strip_suffix('i') {
                // `cried` is `cry`, like `cries`.
                Some(start) => format!("{start}y"),
                None => single(rest).to_owned(),
            };
            break;
        }
    }
    if stem.chars().count() > 3 && stem.ends_with('e') {
        stem.pop();
    }
    stem
}

fn singular(word: &str) -> String {
    let ends = |endings: &[&str]| endings.iter().any(|ending| word.ends_with(ending));
    // Too short for an ending: `is`, `bus`.
    if word.chars().count() <= 3 {
        return word.to_owned();
    }
    if let Some(start) = word.strip_suffix("ies")
        && !ends(&["eies", "aies"])
    {
        return format!("{start}y");
    }
    if let Some(start) = word.strip_suffix("es")
        && ends(&["ches", "shes", "sses", "xes", "zes"])
    {
        return start.to_owned();
    }
    match word.strip_suffix('s') {
        Some(start) if !ends(&["us", "ss", "is"]) => start.to_owned(),
        _ => word.to_owned(),
    }
}

/// Without the doubling of `running`.
fn single(word: &str) -> &str {
    let mut back = word.chars().rev();
    match (back.next(), back.next()) {
        (Some(a), Some(b)) if a == b && !matches!(a, 'l' | 's' | 'z' | 'e' | 'o') => {
            &word[..word.len() - a.len_utf8()]
        }
        _ => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_one_word_have_one_stem() {
        let words: [&[&str]; 12] = [
            &["cow", "cows"],
            &["smile", "smiles", "smiling", "smiled"],
            &["run", "runs", "running", "ran"],
            &["carry", "carries", "carried", "carrying"],
            &["box", "boxes", "boxing", "boxed"],
            &["make", "makes", "making", "made"],
            &["woman", "women"],
            &["play", "plays", "played", "playing"],
            &["call", "calls", "called", "calling"],
            &["agree", "agrees", "agreeing"],
            &["go", "goes", "went", "gone"],
            &["analysis"],
        ];
        for forms in words {
            let stems: Vec<String> = forms.iter().map(|form| stem(form)).collect();
            assert!(
                stems.iter().all(|other| *other == stems[0]),
                "{forms:?} {stems:?}"
            );
        }
        for word in ["string", "red", "feed", "need", "bus", "glass", "his", "é", ""] {
            assert_eq!(stem(word), word);
        }
    }
}
