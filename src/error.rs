//! What can go wrong, with all that the caller needs to act on it.

use std::fmt;

/// The result of everything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// Every error of this crate.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Bracketed text that is not a tree.
    #[error(transparent)]
    Parse(#[from] Box<ParseError>),
    /// Bracketed text of one side of a list of pairs that is not a tree.
    #[error("{side}: {error}")]
    PairParse {
        /// The side, "left" or "right".
        side: &'static str,
        /// Where in its text, and why.
        error: Box<ParseError>,
    },
    /// Flat arrays that do not describe trees.
    #[error("{array}[{index}]: expected {expected}, got {got}")]
    Array {
        /// The array at fault, by its public name.
        array: &'static str,
        /// The entry at fault.
        index: usize,
        /// What would have been right there.
        expected: String,
        /// What stands there.
        got: String,
    },
    /// Arrays whose lengths do not fit together.
    #[error("{array} has {got} entries, expected {expected}")]
    Length {
        /// The array at fault, by its public name.
        array: &'static str,
        /// The length that would have been right, in words.
        expected: String,
        /// The length it has.
        got: usize,
    },
    /// More labels, productions, nodes or edges than 32-bit ids can name, or more of something
    /// else than one computation may hold.
    #[error("limit of {limit} {what} exceeded")]
    Capacity {
        /// What ran out.
        what: &'static str,
        /// How many there can be.
        limit: u64,
    },
    /// Trees that share subtrees and would have too many nodes written out.
    #[error(
        "{what} would have {}{needed} {unit}, above the limit of {limit}: use fewer or \
         smaller trees",
        if *needed == u64::MAX { "at least " } else { "" }
    )]
    Expansion {
        /// What would be made.
        what: &'static str,
        /// What it is measured in, nodes or bytes.
        unit: &'static str,
        /// How many there would be; 2^64 - 1 stands for all numbers above it.
        needed: u64,
        /// How many there can be.
        limit: u64,
    },
    /// The system gives no more memory.
    #[error("out of memory: {bytes} bytes are not available")]
    Memory {
        /// How many were requested at once.
        bytes: usize,
    },
    /// A parameter outside its range.
    #[error("{name} must be {expected}, got {got}")]
    Parameter {
        /// The parameter, by its public name.
        name: &'static str,
        /// Its range, in words.
        expected: &'static str,
        /// The value given.
        got: String,
    },
    /// Trees with more features than can be made.
    #[error(
        "the trees have {}{count} features, counted before any is made, and at most {limit} \
         are made: lower {name}, or take fewer trees at a time",
        if *count == u64::MAX { "at least " } else { "" }
    )]
    TooManyFeatures {
        /// Of their distinct subtrees; 2^64 - 1 stands for all numbers above it.
        count: u64,
        /// How many there can be.
        limit: u64,
        /// The parameter that makes them fewer.
        name: &'static str,
    },
    /// A kernel that cannot do what others can.
    #[error("{kernel} does not support {what}; use {}", listed(can))]
    Unsupported {
        /// The kernel's name.
        kernel: &'static str,
        /// What it has not.
        what: &'static str,
        /// The names of the kernels that have it.
        can: Vec<&'static str>,
    },
    /// A kernel value beyond what a 64-bit float holds (1.8e308).
    #[error(
        "the kernel of tree {row} and tree {column} is too large for a float: lower decay, \
         or normalise"
    )]
    Overflow {
        /// Index of the first tree, in X.
        row: usize,
        /// Index of the second tree, in Y (in X where there is no Y).
        column: usize,
    },
    /// A kernel of a tree with itself that is not above 0, so that nothing can be normalised.
    #[error(
        "the kernel of tree {tree} of {set} with itself is {value}, so it cannot be \
         normalised: the similarity of labels is indefinite. Use cosines without a \
         threshold, or a power of them before the threshold"
    )]
    Indefinite {
        /// Index of the tree.
        tree: usize,
        /// X or Y.
        set: &'static str,
        /// Its kernel with itself.
        value: f64,
    },
    /// A vector with numbers beyond what its type holds.
    #[error(
        "the vector of tree {tree} is too large for its type: lower decay or \
         sketch_decay, {}",
        if *wider { "set max_height, or use a wider type" } else { "or set max_height" }
    )]
    VectorOverflow {
        /// Index of the tree.
        tree: usize,
        /// Whether there is a type that holds more.
        wider: bool,
    },
    /// A score beyond what a 64-bit float holds (1.8e308).
    #[error(
        "the score of tree {tree} is too large for a float: lower decay or the weights, \
         or normalise a kernel that is not"
    )]
    ScoreOverflow {
        /// Index of the tree.
        tree: usize,
    },
    /// Kernels of pairs that need more sets of placeholder pairs than the caller allows.
    #[error("{}", constraint_limit(pairs, *limit))]
    ConstraintLimit {
        /// The pairs by their indices, in X and in Y (in X where there is no Y).
        pairs: Vec<(usize, usize)>,
        /// How many sets there may be.
        limit: u64,
    },
    /// A search for fragments that did not end within its limit.
    #[error(
        "the {k} best fragments are not certain after {max_states} states of the search: \
         raise max_states, or lower k, max_size or decay"
    )]
    Search {
        /// How many to find.
        k: usize,
        /// The limit.
        max_states: usize,
    },
    /// The caller stopped the work (Ctrl-C in Python). Nothing was changed,
    /// except in a model that learns: it keeps what it has learned.
    #[error("interrupted")]
    Interrupted,
}

/// Text in single quotes, as messages show what they got.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.escape_debug()).replace("\\\"", "\"")
}

/// Names with "or" before the last.
pub(crate) fn listed(names: &[impl AsRef<str>]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => {
            format!("{} or {last}", others.join(", "))
        }
        _ => names.concat(),
    }
}

fn constraint_limit(pairs: &[(usize, usize)], limit: u64) -> String {
    let (row, column) = pairs.first().copied().unwrap_or_default();
    let others = match pairs.len() {
        0 | 1 => String::new(),
        2 => ", and one other,".to_owned(),
        n => format!(", and {} others,", n - 1),
    };
    format!(
        "the kernel of pair {row} and pair {column}{others} needs more sets of \
         placeholder pairs than max_constraints={limit}: raise it, or use fewer \
         placeholders"
    )
}

/// Where bracketed text stops being a tree, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// The tree's number, from 0: in a list of items the item's.
    pub tree: usize,
    /// Line within the text (or item), from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Offset in bytes of UTF-8, from 0.
    pub offset: usize,
    /// What would have been right there.
    pub expected: &'static str,
    /// What stands there, shortened.
    pub got: String,
    /// Line and column of the innermost bracket that is still open, if any.
    pub open: Option<(usize, usize)>,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tree, line, column, offset, expected, got, open } = self;
        write!(
            f,
            "tree {tree}, line {line}, column {column} (byte {offset}): \
             expected {expected}, got {got}"
        )?;
        if let Some((line, column)) = open {
            write!(f, "; the bracket opened at line {line}, column {column} is open")?;
        }
        Ok(())
    }
}

impl std::error::Error for ParseError {}
