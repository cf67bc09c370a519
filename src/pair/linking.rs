//! Placeholders for pairs of plain parse trees.
//!
//! The paper links words of the two sentences by an anchoring method and passes the links
//! up to phrases by their semantic heads. Here both are simple and deterministic:
//!
//! 1. Trees are cleaned: a `ROOT` around the sentence goes, so do empty elements
//!    (`-NONE-`) and function tags (`NP-SBJ-1` is `NP`).
//! 2. A word, by its tag, has a *key* or none: nouns, verbs, adjectives, adverbs and
//!    numbers that are no stop words have their stem ([`key`]).
//! 3. Each key that occurs in both trees is a placeholder, of all its words' tags,
//!    numbered by the first occurrence in the right tree, from 1.
//! 4. A phrase has the placeholder of its head child ([`HeadRules`]); words have none.
//!
//! ```
//! use treekernel_rs::Forest;
//! use treekernel_rs::pair::linking::{self, HeadRules};
//!
//! let left = Forest::from_brackets("(S (NP (NNS Farmers)) (VP (VB feed) (NP (NNS cows))))")?;
//! let right = Forest::from_brackets("(S (NP (NNS Cows)) (VP (VB eat)))")?;
//! let rules = HeadRules::default();
//! let pairs = linking::anchored(
//!     [&left, &right],
//!     &mut |label, children| Ok(rules.head(label, children)),
//!     &mut |word, tag| Ok(linking::key(word, tag)),
//! )?;
//! assert_eq!(pairs.to_brackets(0, ":")[1], "(S (NP:1 (NNS:1 Cows)) (VP (VB eat)))");
//! # Ok::<(), treekernel_rs::Error>(())
//! ```
//!
//! # Complexity
//! Linear in the trees. Head and key are computed once for each distinct question.

use std::collections::HashMap; // bounded: rules for labels

use super::forest::{PairForest, Side};
use super::stemmer::stem;
use crate::memory::{self, Map};
use crate::{Context, Error, Forest, NodeId, Nodes, Result};

/// A child as its parent's head rule sees it: label, and the word that is its own head.
pub type Child<'a> = (&'a str, &'a str);

/// Which child of a phrase, given its label, is the head.
pub type Head<'h> = dyn FnMut(&str, &[Child<'_>]) -> Result<usize> + 'h;

/// What a word with its tag must share with another one to be linked; None: nothing.
pub type Key<'k> = dyn FnMut(&str, &str) -> Result<Option<String>> + 'k;

/// Links the trees of two forests, the first with the first, and so on.
///
/// # Errors
/// [`Error::Length`] if there are more trees on one side, [`Error::Parameter`] if `head`
/// answers with no child's index, [`Error::Capacity`], and what `head` and `key` return.
pub fn anchored(
    forests: [&Forest; 2],
    head: &mut Head<'_>,
    key: &mut Key<'_>,
) -> Result<PairForest> {
    anchored_with(forests, head, key, &Context::default())
}

/// As [`anchored`], in a context.
///
/// # Errors
/// As [`anchored`], and what `context` returns.
pub fn anchored_with(
    forests: [&Forest; 2],
    head: &mut Head<'_>,
    key: &mut Key<'_>,
    context: &Context,
) -> Result<PairForest> {
    let n = forests[0].len();
    if forests[1].len() != n {
        let expected = format!("{n}, one for each of left");
        return Err(Error::Length { array: "right", expected, got: forests[1].len() });
    }
    for forest in forests {
        // All sizes first: a small store may hold a tree that is too large to be
        // written out.
        for size in forest.try_n_nodes()? {
            let what = "a tree of anchored pairs";
            crate::forest::check_size(what, "nodes", size, MAX_NODES)?;
        }
    }
    let mut linker = Linker { head, key, keys: Map::default(), heads: Map::default() };
    let mut right = None;
    PairForest::build(n, context, |pair, side, builder| {
        // Both at once, when it is the left one's turn.
        let tree = if let (Side::Right, Some(tree)) = (side, right.take()) {
            tree
        } else {
            let tree =
                |side: usize| (forests[side].nodes(), forests[side].roots()[pair]);
            let [(left, a), (other, b)] = [tree(0), tree(1)];
            let trees = [clean(left, a, context)?, clean(other, b, context)?];
            let [left, other] = linker.link(trees, context)?;
            right = Some(other);
            left
        };
        let (nodes, root) = stored(&tree, context)?;
        let mut items = tree.iter();
        builder.tree(&nodes, root, |_| {
            let item = items.next();
            Ok(item.map_or(("", None), |item| (item.label, item.placeholder)))
        })
    })
}

/// A node of a clean tree, in preorder.
#[derive(Debug, Clone)]
struct Item<'n> {
    label: &'n str,
    children: Vec<u32>,
    placeholder: Option<u32>,
}

/// The most nodes of a sentence's tree, written out.
const MAX_NODES: u64 = 1 << 20;

/// Labels of what stands around a whole sentence.
const WRAPPERS: [&str; 4] = ["ROOT", "TOP", "S1", ""];
/// The label of what stands for nothing.
const EMPTY: &str = "-NONE-";

/// A tree without wrapper, empty elements and function tags. A tree of nothing but empty
/// elements keeps them.
fn clean<'n>(
    nodes: &'n Nodes,
    root: NodeId,
    context: &Context,
) -> Result<Vec<Item<'n>>> {
    let (needed, limit) = (nodes.try_size(root)?, MAX_NODES);
    if needed > limit {
        let (what, unit) = ("a tree to be linked", "nodes");
        return Err(Error::Expansion { what, unit, needed, limit });
    }
    // 1. The tree in preorder, each node with its parent's place.
    let mut order: Vec<(NodeId, usize)> = Vec::new();
    let mut todo = memory::collect([(root, 0)])?;
    while let Some((node, parent)) = todo.pop() {
        context.check()?;
        let place = order.len();
        memory::push(&mut order, (node, parent))?;
        let children = nodes.children(node).iter().rev();
        memory::extend(&mut todo, children.map(|&child| (child, place)))?;
    }
    // 2. From the end, so that children come before their parents.
    // Whether there is a word below, or what counts as one.
    let mut has_words = memory::filled(false, order.len())?;
    for (place, &(node, parent)) in order.iter().enumerate().rev() {
        has_words[place] |= nodes.is_leaf(node);
        has_words[place] &= nodes.is_leaf(node) || nodes.name(node) != EMPTY;
        if place > 0 && has_words[place] {
            has_words[parent] = true;
        }
    }
    // 3. What is left, numbered anew. Without any word the tree is kept as it is,
    // rather than lost.
    let keeps_all = !has_words[0];
    let mut items: Vec<Item<'_>> = Vec::new();
    let mut number: Vec<Option<u32>> = memory::filled(None, order.len())?;
    for (place, &(node, parent)) in order.iter().enumerate() {
        context.check()?;
        // What stands below something that was left out is left out, too.
        if place > 0 && number[parent].is_none() || !keeps_all && !has_words[place] {
            continue;
        }
        let here = items.len() as u32;
        number[place] = Some(here);
        if let (true, Some(parent)) = (place > 0, number[parent]) {
            memory::push(&mut items[parent as usize].children, here)?;
        }
        let name = nodes.name(node);
        let label = if nodes.is_leaf(node) { name } else { bare(name) };
        let item = Item { label, children: Vec::new(), placeholder: None };
        memory::push(&mut items, item)?;
    }
    // 4. Wrappers around the whole. In preorder, what is left without its only child's
    // wrapper is one place on.
    let mut wrapped = 0;
    while let [child] = items[wrapped].children[..]
        && WRAPPERS.contains(&items[wrapped].label)
        && !items[child as usize].children.is_empty()
    {
        wrapped = child as usize;
    }
    items.drain(..wrapped);
    for item in &mut items {
        item.children.iter_mut().for_each(|child| *child -= wrapped as u32);
    }
    Ok(items)
}

/// A label without function tags, indices and gap marks.
fn bare(label: &str) -> &str {
    // `-LRB-` is a tag of its own.
    match label.char_indices().skip(1).find(|&(_, c)| c == '-' || c == '=') {
        Some((at, _)) if !label.starts_with('-') => &label[..at],
        _ => label,
    }
}

/// A clean tree in a store of its own.
fn stored(tree: &[Item<'_>], context: &Context) -> Result<(Nodes, NodeId)> {
    let mut nodes = Nodes::default();
    let mut here = memory::filled(NodeId(0), tree.len())?;
    let mut below = Vec::new();
    // Backwards through a preorder: children are stored before their parents.
    for (place, item) in tree.iter().enumerate().rev() {
        context.check()?;
        let label = nodes.labels_mut().intern(item.label)?;
        below.clear();
        let children = item.children.iter();
        memory::extend(&mut below, children.map(|&child| here[child as usize]))?;
        here[place] = nodes.intern(label, &below)?;
    }
    Ok((nodes, here[0]))
}

struct Linker<'a, 'h, 'k> {
    head: &'a mut Head<'h>,
    key: &'a mut Key<'k>,
    /// Answers known, by word and tag.
    keys: Map<(String, String), Option<String>>,
    /// By label and children.
    heads: Map<(String, Vec<(String, String)>), usize>,
}

impl Linker<'_, '_, '_> {
    fn link<'n>(
        &mut self,
        mut trees: [Vec<Item<'n>>; 2],
        context: &Context,
    ) -> Result<[Vec<Item<'n>>; 2]> {
        let keys = [self.keys(&trees[0], context)?, self.keys(&trees[1], context)?];
        // Numbered by the right tree; what the left one does not have, is not there.
        let left = keys[0].iter().flatten().map(|key| (key, ()));
        let left: Map<&String, ()> = Map::of(left)?;
        // By the first occurrence in the right tree, from 1.
        let mut number: Map<&String, u32> = Map::default();
        for key in keys[1].iter().flatten().filter(|key| left.contains_key(key)) {
            let next = number.len() as u32 + 1;
            number.get_or(key, next)?;
        }
        for (tree, keys) in trees.iter_mut().zip(&keys) {
            let number_of = |key: &Option<String>| {
                key.as_ref().and_then(|key| number.get(key).copied())
            };
            let numbers = memory::collect(keys.iter().map(number_of))?;
            self.pass_up(tree, &numbers, context)?;
        }
        Ok(trees)
    }

    /// By node: its key, if it is the tag of a word that has one.
    fn keys(
        &mut self,
        tree: &[Item<'_>],
        context: &Context,
    ) -> Result<Vec<Option<String>>> {
        let mut keys = memory::filled(None, tree.len())?;
        for (item, node_key) in tree.iter().zip(&mut keys) {
            context.check()?;
            let Some(word) = word_of(tree, item) else { continue };
            // A node without a name could not be written with a placeholder.
            if item.label.is_empty() {
                continue;
            }
            let question = (memory::text(word)?, memory::text(item.label)?);
            let answer = if let Some(answer) = self.keys.get(&question) {
                answer
            } else {
                let answer = (self.key)(word, item.label)?;
                &*self.keys.get_or(question, answer)?
            };
            *node_key = answer.as_deref().map(memory::text).transpose()?;
        }
        Ok(keys)
    }

    /// Gives tags their placeholders, and phrases those of their heads.
    fn pass_up(
        &mut self,
        tree: &mut [Item<'_>],
        numbers: &[Option<u32>],
        context: &Context,
    ) -> Result<()> {
        // By node: the word that is its head, or its own text where there is none.
        let mut words = memory::collect(tree.iter().map(|item| item.label))?;
        // Backwards, so that children have their words and placeholders.
        for place in (0..tree.len()).rev() {
            context.check()?;
            let item = &tree[place];
            if let Some(word) = word_of(tree, item) {
                words[place] = word;
                tree[place].placeholder = numbers[place];
                continue;
            }
            if item.children.is_empty() {
                continue;
            }
            let children = item.children.iter();
            let children: Vec<Child<'_>> = memory::collect(
                children.map(|&c| (tree[c as usize].label, words[c as usize])),
            )?;
            let head = self.head_of(item.label, &children)?;
            let child = item.children[head] as usize;
            words[place] = words[child];
            // A node without a name could not be written with a placeholder.
            let named = !item.label.is_empty();
            tree[place].placeholder = tree[child].placeholder.filter(|_| named);
        }
        Ok(())
    }

    fn head_of(&mut self, label: &str, children: &[Child<'_>]) -> Result<usize> {
        let owned = |&(label, word): &Child<'_>| {
            Ok((memory::text(label)?, memory::text(word)?))
        };
        let children_of = memory::try_collect(children.iter().map(owned))?;
        let question = (memory::text(label)?, children_of);
        if let Some(&head) = self.heads.get(&question) {
            return Ok(head);
        }
        let head = (self.head)(label, children)?;
        // Rules may be a caller's function: what it says is checked.
        if head >= children.len() {
            return Err(Error::Parameter {
                name: "head_rules",
                expected: "to give the index of a child",
                got: format!("{head} for {label} with {} children", children.len()),
            });
        }
        self.heads.insert(question, head)?;
        Ok(head)
    }
}

/// The word, if the node is the tag of one.
fn word_of<'n>(tree: &[Item<'n>], item: &Item<'n>) -> Option<&'n str> {
    match item.children[..] {
        [child] if tree[child as usize].children.is_empty() => {
            Some(tree[child as usize].label)
        }
        _ => None,
    }
}

/// How a rule searches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Search {
    /// The leftmost child with one of the labels.
    Left,
    /// The rightmost.
    Right,
    /// The leftmost, if no verb before it is more than an auxiliary or a modal.
    Auxiliary,
}

/// Rules for one label, the first that finds a child decides.
type LabelRules = Vec<(Search, Vec<String>)>;

/// Head rules: by label of the phrase, where to search for which labels. A label that ends
/// in `*` stands for all that begin so. Without a rule that finds one, the last child is
/// the head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeadRules(pub HashMap<String, LabelRules>); // bounded: rules for labels

/// As [`HeadRules`], written down.
type Written = &'static [(Search, &'static [&'static str])];

/// The rules by default, after Collins (1999), for semantic heads.
const RULES: &[(&str, Written)] = &[
    ("NP", NOUN),
    ("NX", NOUN),
    ("NML", NOUN),
    ("WHNP", NOUN),
    (
        "VP",
        &[
            (Search::Auxiliary, &["VP"]),
            (Search::Left, &["VB*"]),
            (Search::Left, &["VP", "MD", "TO"]),
        ],
    ),
    ("S", CLAUSE),
    ("SINV", CLAUSE),
    ("SQ", CLAUSE),
    ("SBARQ", &[(Search::Left, &["SQ", "S", "SINV"])]),
    ("SBAR", &[(Search::Left, &["S", "SQ", "SINV"])]),
    ("PP", &[(Search::Left, &["IN", "TO"])]),
    ("WHPP", &[(Search::Left, &["IN", "TO"])]),
    ("ADJP", &[(Search::Right, &["JJ*", "VBN", "VBG", "NN*"])]),
    ("ADVP", &[(Search::Right, &["RB*"])]),
    ("QP", &[(Search::Right, &["CD"])]),
];
const NOUN: Written =
    &[(Search::Right, &["NN*", "NX", "NML"]), (Search::Left, &["NP"])];
const CLAUSE: Written = &[(Search::Left, &["VP"]), (Search::Left, &["SQ", "S"])];

impl Default for HeadRules {
    fn default() -> Self {
        let rules = RULES.iter().map(|(label, rules)| {
            let owned = |(search, labels): &(Search, &[&str])| {
                let labels = labels.iter().map(|&label| label.to_owned());
                (*search, labels.collect()) // bounded: the rules above
            };
            let rules = rules.iter().map(owned);
            ((*label).to_owned(), rules.collect()) // bounded: the rules above
        });
        Self(rules.collect()) // bounded: the rules above
    }
}

impl HeadRules {
    /// The index of the head among a phrase's children, of which there is at least one.
    pub fn head(&self, label: &str, children: &[Child<'_>]) -> usize {
        // The first rule that finds a child decides.
        for (search, labels) in self.0.get(label).into_iter().flatten() {
            let is_wanted = |&(label, _): &Child<'_>| {
                labels.iter().any(|wanted| match wanted.strip_suffix('*') {
                    Some(start) => label.starts_with(start),
                    None => label == wanted,
                })
            };
            let found = match search {
                Search::Left => children.iter().position(is_wanted),
                Search::Right => children.iter().rposition(is_wanted),
                Search::Auxiliary => {
                    // A main verb before it is the head: then this is no auxiliary's
                    // clause.
                    let before = |&at: &usize| {
                        children[..at].iter().all(|&(label, word)| {
                            !label.starts_with("VB") || is_auxiliary(word)
                        })
                    };
                    children.iter().position(is_wanted).filter(before)
                }
            };
            if let Some(found) = found {
                return found;
            }
        }
        children.len() - 1
    }
}

/// Forms of be, have and do.
const AUXILIARIES: &[&str] = &[
    "'d", "'m", "'re", "'s", "'ve", "am", "are", "be", "been", "being", "did", "do",
    "does", "doing", "done", "had", "has", "have", "having", "is", "was", "were",
];

fn is_auxiliary(word: &str) -> bool {
    AUXILIARIES.contains(&&*word.to_lowercase())
}

/// What is no content, though its tag may say so.
const STOP_WORDS: &[&str] = &[
    "about", "again", "ago", "all", "almost", "already", "also", "always", "as",
    "away", "back", "down", "else", "even", "ever", "far", "here", "how", "however",
    "in", "just", "least", "less", "more", "most", "much", "n't", "never", "no", "not",
    "now", "off", "often", "on", "only", "other", "out", "over", "own", "quite",
    "rather", "same", "so", "soon", "still", "such", "than", "then", "there", "thus",
    "together", "too", "up", "very", "well", "when", "where", "why", "yet",
];

/// Tags of content words; with `*`: and all that begin so.
const CONTENT: &[&str] = &["NN*", "VB*", "JJ*", "RB*", "CD", "FW"];

/// The key of a word by default: its stem if it is a content word, else none.
pub fn key(word: &str, tag: &str) -> Option<String> {
    let is_content = CONTENT.iter().any(|content| match content.strip_suffix('*') {
        Some(start) => tag.starts_with(start),
        None => tag == *content,
    });
    let lower = word.to_lowercase();
    let is_stop = || AUXILIARIES.contains(&&*lower) || STOP_WORDS.contains(&&*lower);
    (is_content && !is_stop()).then(|| stem(&lower))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_content_words_have_keys() {
        assert_eq!(key("Cows", "NNS").as_deref(), Some("cow"));
        assert_eq!(key("27.5", "CD").as_deref(), Some("27.5"));
        for (word, tag) in [("is", "VBZ"), ("Not", "RB"), ("the", "DT"), ("of", "IN")] {
            assert_eq!(key(word, tag), None, "{word}");
        }
    }

    #[test]
    fn an_auxiliary_leaves_the_head_to_the_verb_phrase() {
        let rules = HeadRules::default();
        let cases: [(&str, &[Child<'_>], usize); 7] = [
            ("VP", &[("VBZ", "is"), ("VP", "eating")], 1),
            ("VP", &[("MD", "may"), ("RB", "not"), ("VP", "eat")], 2),
            ("VP", &[("VBZ", "helps"), ("VP", "eat")], 0),
            ("NP", &[("DT", "the"), ("NN", "milk"), ("NN", "cow"), ("PP", "of")], 2),
            ("NP", &[("NP", "cow"), ("PP", "of")], 0),
            ("PP", &[("IN", "of"), ("NP", "milk")], 0),
            ("X", &[("A", "a"), ("B", "b")], 1),
        ];
        for (label, children, head) in cases {
            assert_eq!(rules.head(label, children), head, "{label} {children:?}");
        }
    }

    #[test]
    fn cleaning_drops_wrapper_empty_elements_and_function_tags() {
        let cases = [
            ("( (S (NP-SBJ-1 (-NONE- *)) (VP (VB go))) )", "(S (VP (VB go)))"),
            ("(ROOT (NP=2 (-LRB- x-y)))", "(NP (-LRB- x-y))"),
            ("(ROOT (TOP (S x)))", "(S x)"),
            ("(ROOT x)", "(ROOT x)"),
            ("(S (-NONE- *))", "(S (-NONE- *))"),
            ("(x)", "(x)"),
        ];
        for (text, expected) in cases {
            let forest = Forest::from_brackets(text).unwrap();
            let context = &Context::default();
            let tree = clean(forest.nodes(), forest.roots()[0], context).unwrap();
            let (nodes, root) = stored(&tree, context).unwrap();
            let mut got = String::new();
            nodes.print(root, usize::MAX, &mut got).unwrap();
            assert_eq!(got, expected);
        }
    }
}
