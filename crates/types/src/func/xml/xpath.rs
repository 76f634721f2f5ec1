//! A recursive descent parser of XPath 1.0, as far as MySQL knows it.
//!
//! Neighbours: `eval` walks the tree that it makes.
//! **Invariants**: the axes that MySQL does not know (`following`, `preceding`, …) are `child`, as there; tests of node
//! types (`text()`) stay where they are, as there. Expressions nest [`MAX_DEPTH`] levels at most,
//! and have [`MAX_OPERATORS`] operators at most.

use std::ops::Range;

use crate::error::SqlResult;
use crate::errors::unknown_error;

/// Deepest nesting of parentheses, predicates and calls.
const MAX_DEPTH: usize = 64;
/// Most operators: each may be one level of the tree.
const MAX_OPERATORS: usize = 256;
/// Bytes of the expression that an error shows.
const SHOWN: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Axis {
    Ancestor { or_self: bool },
    Attribute,
    Child,
    Descendant { or_self: bool },
    Itself,
    Parent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Boolean,
    Ceiling,
    Concat,
    Contains,
    Count,
    False,
    Floor,
    Last,
    Not,
    Number,
    Position,
    Round,
    StringLength,
    Substring,
    Sum,
    True,
}

/// Name, function, fewest and most arguments.
const FUNCTIONS: &[(&str, Function, usize, usize)] = &[
    ("boolean", Function::Boolean, 1, 1),
    ("ceiling", Function::Ceiling, 1, 1),
    ("concat", Function::Concat, 2, 255),
    ("contains", Function::Contains, 2, 2),
    ("count", Function::Count, 1, 1),
    ("false", Function::False, 0, 0),
    ("floor", Function::Floor, 1, 1),
    ("last", Function::Last, 0, 0),
    ("not", Function::Not, 1, 1),
    ("number", Function::Number, 0, 1),
    ("position", Function::Position, 0, 0),
    ("round", Function::Round, 1, 1),
    ("string-length", Function::StringLength, 0, 1),
    ("substring", Function::Substring, 2, 3),
    ("sum", Function::Sum, 1, 1),
    ("true", Function::True, 0, 0),
];

const NODE_TYPES: [&str; 4] = ["comment", "node", "processing-instruction", "text"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arith {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

/// One step of a path.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) axis: Axis,
    /// `None`: any.
    pub(super) name: Option<Box<[u8]>>,
    pub(super) predicates: Vec<Expr>,
}

/// Where a path begins.
#[derive(Debug)]
pub(super) enum Start {
    Document,
    Here,
    Of(Box<Expr>),
}

#[derive(Debug)]
pub(super) enum Expr {
    Number(f64),
    Text(Box<[u8]>),
    Variable(Box<str>),
    Or(Box<Expr>, Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Compare(Compare, Box<Expr>, Box<Expr>),
    Arith(Arith, Box<Expr>, Box<Expr>),
    Negative(Box<Expr>),
    Union(Box<Expr>, Box<Expr>),
    Path(Start, Vec<Step>),
    Call(Function, Vec<Expr>),
}

impl Expr {
    /// Is its value a set of nodes?
    pub(super) fn is_nodes(&self) -> bool {
        matches!(self, Self::Path(..) | Self::Union(..))
    }
}

/// Parses an expression.
///
/// # Errors
/// 1105.
pub(super) fn parse(text: &[u8]) -> SqlResult<Expr> {
    let mut parser = Parser {
        text,
        token: Token::End,
        place: 0..0,
        depth: 0,
        operators: 0,
    };
    parser.advance();
    let expr = parser.expr()?;
    match parser.token {
        Token::End => Ok(expr),
        _ => parser.wrong(),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    End,
    Name,
    Number,
    Text,
    /// One or two characters.
    Mark(&'static str),
    Unknown,
}

/// The longer ones first.
const MARKS: [&str; 23] = [
    "//", "::", "..", "!=", "<=", ">=", "/", ":", ".", "=", "<", ">", "(", ")", "[", "]", "@", ",",
    "|", "+", "-", "*", "$",
];

struct Parser<'a> {
    text: &'a [u8],
    /// What comes next, and where it stands.
    token: Token,
    place: Range<usize>,
    depth: usize,
    operators: usize,
}

fn is_name_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.') || b >= 0x80
}

/// Length of a name that may have a prefix, `a:b`; an axis' `::` does not belong to it.
fn name_len(rest: &[u8]) -> usize {
    let word = |text: &[u8]| text.iter().take_while(|b| is_name_byte(**b)).count();
    let len = word(rest);
    match &rest[len..] {
        [b':', b':', ..] => len,
        [b':', tail @ ..] if word(tail) > 0 => len + 1 + word(tail),
        _ => len,
    }
}

impl<'a> Parser<'a> {
    fn wrong<T>(&self) -> SqlResult<T> {
        let rest = &self.text[self.place.start..];
        let shown = String::from_utf8_lossy(&rest[..rest.len().min(SHOWN)]);
        Err(unknown_error(format!("XPATH syntax error: '{shown}'")))
    }

    fn word(&self) -> &'a [u8] {
        &self.text[self.place.clone()]
    }

    fn advance(&mut self) {
        let blank = self.text[self.place.end..].iter();
        let at = self.place.end + blank.take_while(|b| b.is_ascii_whitespace()).count();
        let rest = &self.text[at..];
        let mark = MARKS.iter().find(|m| rest.starts_with(m.as_bytes()));
        let digits = |text: &[u8]| text.iter().take_while(|b| b.is_ascii_digit()).count();
        let (token, len) = match rest.first() {
            None => (Token::End, 0),
            Some(b) if b.is_ascii_digit() => {
                let whole = digits(rest);
                let fraction = match rest.get(whole) {
                    Some(b'.') => 1 + digits(&rest[whole + 1..]),
                    _ => 0,
                };
                (Token::Number, whole + fraction)
            }
            Some(quote @ (b'"' | b'\'')) => match rest[1..].iter().position(|b| b == quote) {
                Some(end) => (Token::Text, end + 2),
                None => (Token::Unknown, 0),
            },
            Some(b) if b.is_ascii_alphabetic() || *b == b'_' || *b >= 0x80 => {
                (Token::Name, name_len(rest))
            }
            Some(_) => match mark {
                Some(mark) => (Token::Mark(mark), mark.len()),
                None => (Token::Unknown, 0),
            },
        };
        (self.token, self.place) = (token, at..at + len);
    }

    fn is(&self, mark: &str) -> bool {
        matches!(self.token, Token::Mark(m) if m == mark)
    }

    fn eat(&mut self, mark: &str) -> bool {
        let found = self.is(mark);
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, mark: &str) -> SqlResult<()> {
        match self.eat(mark) {
            true => Ok(()),
            false => self.wrong(),
        }
    }

    /// An operator that is a word.
    fn eat_word(&mut self, word: &str) -> bool {
        let found = self.token == Token::Name && self.word() == word.as_bytes();
        if found {
            self.advance();
        }
        found
    }

    /// Counts an operator.
    fn operator(&mut self) -> SqlResult<()> {
        self.operators += 1;
        match self.operators <= MAX_OPERATORS {
            true => Ok(()),
            false => self.wrong(),
        }
    }

    fn expr(&mut self) -> SqlResult<Expr> {
        if self.depth == MAX_DEPTH {
            return self.wrong();
        }
        self.depth += 1;
        let mut left = self.and()?;
        while self.eat_word("or") {
            self.operator()?;
            left = Expr::Or(Box::new(left), Box::new(self.and()?));
        }
        self.depth -= 1;
        Ok(left)
    }

    fn and(&mut self) -> SqlResult<Expr> {
        let mut left = self.comparison()?;
        while self.eat_word("and") {
            self.operator()?;
            left = Expr::And(Box::new(left), Box::new(self.comparison()?));
        }
        Ok(left)
    }

    fn comparison(&mut self) -> SqlResult<Expr> {
        let mut left = self.sum()?;
        loop {
            let at = self.place.start;
            let op = match self.token {
                Token::Mark("=") => Compare::Eq,
                Token::Mark("!=") => Compare::Ne,
                Token::Mark("<") => Compare::Lt,
                Token::Mark("<=") => Compare::Le,
                Token::Mark(">") => Compare::Gt,
                Token::Mark(">=") => Compare::Ge,
                _ => return Ok(left),
            };
            self.advance();
            self.operator()?;
            let right = self.sum()?;
            if left.is_nodes() && right.is_nodes() {
                let rest = &self.text[at..];
                let shown = String::from_utf8_lossy(&rest[..rest.len().min(SHOWN)]);
                let what =
                    format!("XPATH error: comparison of two nodesets is not supported: '{shown}'");
                return Err(unknown_error(what));
            }
            left = Expr::Compare(op, Box::new(left), Box::new(right));
        }
    }

    fn sum(&mut self) -> SqlResult<Expr> {
        let mut left = self.product()?;
        loop {
            let op = match self.token {
                Token::Mark("+") => Arith::Add,
                Token::Mark("-") => Arith::Subtract,
                _ => return Ok(left),
            };
            self.advance();
            self.operator()?;
            left = Expr::Arith(op, Box::new(left), Box::new(self.product()?));
        }
    }

    fn product(&mut self) -> SqlResult<Expr> {
        let mut left = self.signed()?;
        loop {
            let op = if self.eat("*") {
                Arith::Multiply
            } else if self.eat_word("div") {
                Arith::Divide
            } else if self.eat_word("mod") {
                Arith::Modulo
            } else {
                return Ok(left);
            };
            self.operator()?;
            left = Expr::Arith(op, Box::new(left), Box::new(self.signed()?));
        }
    }

    fn signed(&mut self) -> SqlResult<Expr> {
        let mut negative = false;
        while self.eat("-") {
            negative = !negative;
        }
        let expr = self.union()?;
        Ok(match negative {
            true => Expr::Negative(Box::new(expr)),
            false => expr,
        })
    }

    fn union(&mut self) -> SqlResult<Expr> {
        let mut left = self.path()?;
        while self.is("|") {
            self.advance();
            self.operator()?;
            if !left.is_nodes() {
                return self.wrong();
            }
            let right = self.path()?;
            if !right.is_nodes() {
                return self.wrong();
            }
            left = Expr::Union(Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    /// A path, or a value.
    fn path(&mut self) -> SqlResult<Expr> {
        match self.token {
            Token::Number => {
                let text = String::from_utf8_lossy(self.word());
                let number = text.parse().unwrap_or(0.0);
                self.advance();
                Ok(Expr::Number(number))
            }
            Token::Text => {
                let text = &self.text[self.place.start + 1..self.place.end - 1];
                self.advance();
                Ok(Expr::Text(text.into()))
            }
            Token::Mark("$") => self.variable(),
            Token::Mark("(") => {
                self.advance();
                let inner = self.expr()?;
                self.expect(")")?;
                match inner.is_nodes() && (self.is("/") || self.is("//")) {
                    true => self.steps(Start::Of(Box::new(inner)), false),
                    false => Ok(inner),
                }
            }
            Token::Mark("/") => {
                self.advance();
                match self.begins_step() {
                    true => self.steps(Start::Document, true),
                    // A path that ends here is the document.
                    false if self.token == Token::End => {
                        Ok(Expr::Path(Start::Document, Vec::new()))
                    }
                    false => self.wrong(),
                }
            }
            Token::Mark("//") => self.steps(Start::Document, false),
            Token::Name if self.call_begins() => self.call(),
            _ => self.steps(Start::Here, true),
        }
    }

    fn variable(&mut self) -> SqlResult<Expr> {
        let start = self.place.start;
        self.advance();
        if !self.eat("@") {
            let rest = &self.text[start..];
            let shown = String::from_utf8_lossy(&rest[..rest.len().min(SHOWN)]);
            return Err(unknown_error(format!(
                "Unknown XPATH variable at: '{shown}'"
            )));
        }
        if self.token != Token::Name {
            return self.wrong();
        }
        let name = String::from_utf8_lossy(self.word()).to_lowercase();
        self.advance();
        Ok(Expr::Variable(name.into()))
    }

    /// Is the word that comes next the name of a function that is called?
    fn call_begins(&self) -> bool {
        let behind = self.text[self.place.end..].trim_ascii_start();
        behind.starts_with(b"(") && FUNCTIONS.iter().any(|f| f.0.as_bytes() == self.word())
    }

    fn call(&mut self) -> SqlResult<Expr> {
        let found = FUNCTIONS.iter().find(|f| f.0.as_bytes() == self.word());
        let &(_, function, least, most) = found.expect("a name that was found before");
        self.advance();
        self.expect("(")?;
        let mut args = Vec::new();
        while args.len() < most {
            if args.len() >= least && self.is(")") {
                break;
            }
            if !args.is_empty() {
                self.expect(",")?;
            }
            args.push(self.expr()?);
        }
        let sets = matches!(function, Function::Count | Function::Sum);
        if sets && !args.iter().all(Expr::is_nodes) {
            self.place.start = self.text.len();
            return self.wrong();
        }
        self.expect(")")?;
        Ok(Expr::Call(function, args))
    }

    fn begins_step(&self) -> bool {
        let mark = ["*", "@", ".", ".."].iter().any(|m| self.is(m));
        mark || self.token == Token::Name
    }

    /// The steps of a path; `first`: one comes at once, without a slash before it.
    fn steps(&mut self, start: Start, mut first: bool) -> SqlResult<Expr> {
        let mut steps = Vec::new();
        loop {
            if !std::mem::take(&mut first) {
                if self.eat("//") {
                    steps.push(Step {
                        axis: Axis::Descendant { or_self: true },
                        name: None,
                        predicates: Vec::new(),
                    });
                } else if !self.eat("/") {
                    return Ok(Expr::Path(start, steps));
                }
            }
            steps.push(self.step()?);
        }
    }

    fn step(&mut self) -> SqlResult<Step> {
        let (axis, name) = if self.eat(".") {
            (Axis::Itself, None)
        } else if self.eat("..") {
            (Axis::Parent, None)
        } else {
            let axis = self.axis()?;
            self.node_test(axis)?
        };
        let mut predicates = Vec::new();
        while self.eat("[") {
            predicates.push(self.expr()?);
            self.expect("]")?;
        }
        Ok(Step {
            axis,
            name,
            predicates,
        })
    }

    fn axis(&mut self) -> SqlResult<Axis> {
        if self.eat("@") {
            return Ok(Axis::Attribute);
        }
        let named = self.token == Token::Name && self.text[self.place.end..].starts_with(b"::");
        if !named {
            return Ok(Axis::Child);
        }
        let axis = match self.word() {
            b"ancestor" => Axis::Ancestor { or_self: false },
            b"ancestor-or-self" => Axis::Ancestor { or_self: true },
            b"attribute" => Axis::Attribute,
            b"descendant" => Axis::Descendant { or_self: false },
            b"descendant-or-self" => Axis::Descendant { or_self: true },
            b"parent" => Axis::Parent,
            b"self" => Axis::Itself,
            b"child" | b"following" | b"following-sibling" | b"namespace" | b"preceding"
            | b"preceding-sibling" => Axis::Child,
            _ => return self.wrong(),
        };
        self.advance();
        self.expect("::")?;
        Ok(axis)
    }

    fn node_test(&mut self, axis: Axis) -> SqlResult<(Axis, Option<Box<[u8]>>)> {
        if self.eat("*") {
            return Ok((axis, None));
        }
        if self.token != Token::Name {
            return self.wrong();
        }
        let name = self.word();
        self.advance();
        if self.is("(") && NODE_TYPES.iter().any(|t| t.as_bytes() == name) {
            self.advance();
            self.expect(")")?;
            return Ok((Axis::Itself, None));
        }
        Ok((axis, Some(name.into())))
    }
}
