//! Trees to measure on: generated ones always, real ones where they are at hand.

// Every bench and test takes what it needs.
#![allow(dead_code, unreachable_pub)]

use std::io::Read;
use std::path::PathBuf;

/// SplitMix64: a named generator, so that the corpus is the same everywhere.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// In [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

type Rules = &'static [(usize, &'static [&'static str])];

/// A small probabilistic grammar: phrase -> (weight, right sides). Lower-case symbols
/// are parts of speech and get a word.
const GRAMMAR: &[(&str, Rules)] = &[
    ("ROOT", &[(6, &["S"]), (4, &["SBARQ"])]),
    (
        "S",
        &[(5, &["NP", "VP", "."]), (2, &["NP", "VP"]), (1, &["PP", "NP", "VP", "."])],
    ),
    ("SBARQ", &[(4, &["WHNP", "SQ", "."]), (2, &["WHADVP", "SQ", "."])]),
    ("WHNP", &[(3, &["wp"]), (2, &["wdt", "nn"]), (1, &["wdt", "nns"])]),
    ("WHADVP", &[(1, &["wrb"])]),
    ("SQ", &[(3, &["vbz", "NP"]), (2, &["vbd", "NP", "VP"]), (1, &["VP"])]),
    (
        "NP",
        &[
            (5, &["dt", "nn"]),
            (4, &["nnp"]),
            (3, &["nnp", "nnp"]),
            (3, &["dt", "jj", "nn"]),
            (3, &["NP", "PP"]),
            (2, &["nns"]),
            (1, &["NP", "SBAR"]),
            (1, &["prp"]),
        ],
    ),
    (
        "VP",
        &[
            (4, &["vbd", "NP"]),
            (3, &["vbz", "NP", "PP"]),
            (2, &["md", "VP"]),
            (2, &["vbz", "ADVP"]),
            (1, &["vbd", "SBAR"]),
            (1, &["vbd"]),
        ],
    ),
    ("PP", &[(1, &["in", "NP"])]),
    ("SBAR", &[(1, &["in", "S"])]),
    ("ADVP", &[(1, &["rb"])]),
];

/// `n` sentences from the grammar, words drawn by Zipf's law from 8,000.
pub fn generated(n: usize, seed: u64) -> Vec<String> {
    let mut random = Random(seed);
    (0..n).map(|_| sentence(&mut random)).collect()
}

fn sentence(random: &mut Random) -> String {
    let mut text = String::new();
    // (symbol, depth); None closes a bracket.
    let mut todo = vec![Some(("ROOT", 0))];
    while let Some(next) = todo.pop() {
        let Some((symbol, depth)) = next else {
            text.push(')');
            continue;
        };
        if !text.is_empty() {
            text.push(' ');
        }
        text.push('(');
        let Some((_, rules)) = GRAMMAR.iter().find(|(left, _)| *left == symbol) else {
            let rank = (8000f64.powf(random.unit())) as usize;
            let word = if symbol == "." { ".".into() } else { format!("w{rank}") };
            text.push_str(&symbol.to_uppercase());
            text.push(' ');
            text.push_str(&word);
            text.push(')');
            continue;
        };
        text.push_str(symbol);
        todo.push(None);
        // Deep down only the first rules, which end soon, so that sentences end.
        let rules = if depth > 8 { &rules[..1] } else { rules };
        let mut pick = random.below(rules.iter().map(|r| r.0).sum());
        for (weight, right) in rules {
            if pick < *weight {
                todo.extend(right.iter().rev().map(|&s| Some((s, depth + 1))));
                break;
            }
            pick -= weight;
        }
    }
    text
}

/// One column of a real data set, or None (said on standard error) where it is absent.
pub fn real(file: &str, column: usize) -> Option<Vec<String>> {
    let mut text = String::new();
    let file = std::fs::File::open(find(file)?).expect("readable");
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).expect("gzip");
    let field = |line: &str| line.split('\t').nth(column).expect("column").to_owned();
    Some(text.lines().map(field).collect())
}

/// A real data set's text file as it stands, or None where it is absent.
pub fn plain(file: &str) -> Option<String> {
    Some(std::fs::read_to_string(find(file)?).expect("readable"))
}

fn find(file: &str) -> Option<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let path = root.ancestors().map(|dir| dir.join("shared/data").join(file));
    let path = path.into_iter().find(|p| p.is_file());
    if path.is_none() {
        eprintln!("skipped: no shared/data/{file} beside the project");
    }
    path
}
