//! Trees as everybody would write them down, with the slow twins of store and parser:
//! equality is derived, reading goes character by character, and everything recurses.

#![allow(dead_code)] // every test takes what it needs

use treekernel_rs::{NodeId, Nodes};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Plain {
    pub(crate) label: String,
    pub(crate) children: Vec<Plain>,
}

impl Plain {
    pub(crate) fn new(label: impl Into<String>, children: Vec<Self>) -> Self {
        Self { label: label.into(), children }
    }

    /// The tree that a store holds under an id.
    pub(crate) fn of(nodes: &Nodes, root: NodeId) -> Self {
        let below = nodes.children(root).iter().map(|&c| Self::of(nodes, c));
        Self::new(nodes.name(root), below.collect())
    }

    /// The tree and all below it, in preorder, each with its parent's position.
    pub(crate) fn preorder(&self) -> Vec<(&Self, Option<usize>)> {
        let mut order = Vec::new();
        self.add_to(&mut order, None);
        order
    }

    fn add_to<'a>(
        &'a self,
        order: &mut Vec<(&'a Self, Option<usize>)>,
        up: Option<usize>,
    ) {
        let at = order.len();
        order.push((self, up));
        self.children.iter().for_each(|child| child.add_to(order, Some(at)));
    }

    pub(crate) fn depth(&self) -> u64 {
        1 + self.children.iter().map(Self::depth).max().unwrap_or(0)
    }

    /// Brackets with every backslash doubled, leaves with brackets and blanks or
    /// without by the bits of `style`: more ways to write than the printer has.
    pub(crate) fn write(&self, style: &mut u64, text: &mut String) {
        text.push('(');
        self.write_label(text);
        for child in &self.children {
            *style = style.rotate_right(1);
            let bare = *style & 1 == 1 && child.children.is_empty();
            if bare || *style & 2 == 2 {
                text.push([' ', '\t', '\n'][*style as usize % 3]);
            }
            if bare { child.write_label(text) } else { child.write(style, text) }
        }
        text.push(')');
    }

    fn write_label(&self, text: &mut String) {
        if self.label.is_empty() {
            text.push_str("\\e");
        }
        for char in self.label.chars() {
            if is_blank(char) || "()\\".contains(char) {
                text.push('\\');
            }
            text.push(char);
        }
    }
}

fn is_blank(char: char) -> bool {
    " \t\n\u{b}\u{c}\r".contains(char)
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Open,
    Close,
    Label(String),
    End,
}

/// The grammar, word by word. An error is the tree's number and the byte offset.
pub(crate) fn read(
    text: &str,
    exactly_one: bool,
) -> Result<Vec<Plain>, (usize, usize)> {
    let mut reader = Reader { tokens: tokens(text), at: 0 };
    let mut trees = Vec::new();
    loop {
        let tree = if exactly_one { 0 } else { trees.len() };
        trees.push(reader.tree(true).map_err(|offset| (tree, offset))?);
        match (reader.peek(), exactly_one) {
            (Token::End, _) => return Ok(trees),
            (_, true) => return Err((0, reader.offset())),
            (_, false) => {}
        }
    }
}

fn tokens(text: &str) -> Vec<(usize, Token)> {
    let mut tokens = Vec::new();
    let mut chars = text.char_indices().peekable();
    chars.next_if(|&(_, c)| c == '\u{feff}');
    while let Some(&(at, char)) = chars.peek() {
        match char {
            '(' | ')' => {
                tokens.push((at, if char == '(' { Token::Open } else { Token::Close }));
                chars.next();
            }
            _ if is_blank(char) => {
                chars.next();
            }
            _ => {
                let (mut name, mut end) = (String::new(), at);
                while let Some((at, c)) =
                    chars.next_if(|&(_, c)| !is_blank(c) && c != '(' && c != ')')
                {
                    let escapes =
                        |&(_, n): &(usize, char)| is_blank(n) || "()\\".contains(n);
                    let escaped = if c == '\\' { chars.next_if(escapes) } else { None };
                    let (last, c) = escaped.unwrap_or((at, c));
                    name.push(c);
                    end = last + c.len_utf8();
                }
                let is_empty = &text[at..end] == "\\e";
                tokens.push((
                    at,
                    Token::Label(if is_empty { String::new() } else { name }),
                ));
            }
        }
    }
    tokens.push((text.len(), Token::End));
    tokens
}

struct Reader {
    tokens: Vec<(usize, Token)>,
    at: usize,
}

impl Reader {
    fn peek(&self) -> Token {
        self.tokens[self.at].1.clone()
    }

    fn offset(&self) -> usize {
        self.tokens[self.at].0
    }

    fn expect(&mut self, token: &Token) -> Result<(), usize> {
        if self.peek() != *token {
            return Err(self.offset());
        }
        self.at += 1;
        Ok(())
    }

    fn tree(&mut self, outside: bool) -> Result<Plain, usize> {
        self.expect(&Token::Open)?;
        let mut tree = match self.peek() {
            Token::Label(label) => Plain::new(label, vec![]),
            Token::Open if outside => {
                let inner = self.tree(true)?;
                let end = self.offset();
                self.expect(&Token::Close)?;
                return if inner.children.is_empty() { Err(end) } else { Ok(inner) };
            }
            _ => return Err(self.offset()),
        };
        self.at += 1;
        loop {
            match self.peek() {
                Token::Open => tree.children.push(self.tree(false)?),
                Token::Label(label) => {
                    self.at += 1;
                    tree.children.push(Plain::new(label, vec![]));
                }
                Token::Close => {
                    self.at += 1;
                    return Ok(tree);
                }
                Token::End => return Err(self.offset()),
            }
        }
    }
}
