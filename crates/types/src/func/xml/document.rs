//! A non-validating XML reader: tags, attributes and texts of a document as nodes in the order of the text.
//!
//! Neighbours: `eval` walks the nodes. Declarations (`<?xml …?>`, `<!DOCTYPE …>`) are elements, too, as in MySQL.
//! **Invariants**: node 0 is the document; the nodes below a node follow it directly, up to its `end`.

use std::ops::Range;

/// A node's number, in the order of the text.
pub(super) type NodeId = usize;

/// The document itself.
pub(super) const ROOT: NodeId = 0;

/// Deepest nesting of elements.
const MAX_DEPTH: usize = 4096;
/// Most nodes.
const MAX_NODES: usize = 1 << 20;

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Element,
    Attribute,
    Text,
}

/// Part of a document.
#[derive(Debug)]
pub(super) struct Node<'a> {
    pub(super) kind: Kind,
    /// The name; of a text the text.
    pub(super) name: &'a [u8],
    pub(super) parent: NodeId,
    /// Behind the last node below it.
    pub(super) end: NodeId,
    /// Where it stands.
    place: Range<usize>,
}

/// The nodes of a text.
#[derive(Debug)]
pub(super) struct Document<'a> {
    nodes: Vec<Node<'a>>,
}

impl<'a> Document<'a> {
    /// # Errors
    /// What is wrong, and where.
    pub(super) fn parse(text: &'a [u8]) -> Result<Self, String> {
        let root = Node {
            kind: Kind::Element,
            name: b"",
            parent: ROOT,
            end: 0,
            place: 0..text.len(),
        };
        let mut reader = Reader {
            text,
            at: 0,
            nodes: vec![root],
            open: vec![ROOT],
        };
        match reader.read() {
            Ok(()) => Ok(Self {
                nodes: reader.nodes,
            }),
            Err(what) => Err(reader.located(&what)),
        }
    }

    pub(super) fn node(&self, id: NodeId) -> &Node<'a> {
        &self.nodes[id]
    }

    /// The nodes directly below a node.
    pub(super) fn children(&self, of: NodeId) -> impl Iterator<Item = NodeId> {
        let end = self.nodes[of].end;
        let first = Some(of + 1).filter(|id| *id < end);
        std::iter::successors(first, move |id| {
            Some(self.nodes[*id].end).filter(|next| *next < end)
        })
    }

    /// Is it the text of one of these nodes, which are in order?
    fn is_text_of(&self, id: NodeId, nodes: &[NodeId]) -> bool {
        let node = &self.nodes[id];
        node.kind == Kind::Text && nodes.binary_search(&node.parent).is_ok()
    }

    /// The texts directly below these nodes, in the order of the document.
    pub(super) fn texts_of(&self, nodes: &[NodeId]) -> impl Iterator<Item = &'a [u8]> {
        debug_assert!(nodes.is_sorted());
        let ends = nodes.iter().map(|id| self.nodes[*id].end);
        let all = nodes.first().copied().unwrap_or(0)..ends.max().unwrap_or(0);
        all.filter(|id| self.is_text_of(*id, nodes))
            .map(|id| self.nodes[id].name)
    }

    /// The same as one text.
    pub(super) fn text_of(&self, nodes: &[NodeId]) -> Vec<u8> {
        self.texts_of(nodes).collect::<Vec<_>>().join(&b' ')
    }

    /// Where a node stands in the text.
    pub(super) fn place_of(&self, id: NodeId) -> Range<usize> {
        self.nodes[id].place.clone()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    End,
    Ident,
    Text,
    Mark(u8),
    Comment,
    CData,
    Unknown,
}

impl Token {
    fn name(self) -> String {
        match self {
            Self::End => "END-OF-INPUT".to_owned(),
            Self::Ident => "IDENT".to_owned(),
            Self::Text => "STRING".to_owned(),
            Self::Mark(mark) => format!("'{}'", char::from(mark)),
            Self::Comment => "COMMENT".to_owned(),
            Self::CData => "CDATA".to_owned(),
            Self::Unknown => "unknown token".to_owned(),
        }
    }
}

const CDATA_BEGIN: &[u8] = b"<![CDATA[";
const CDATA_END: &[u8] = b"]]>";
const COMMENT_BEGIN: &[u8] = b"<!--";
const COMMENT_END: &[u8] = b"-->";

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    nodes: Vec<Node<'a>>,
    /// The elements that have begun.
    open: Vec<NodeId>,
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|w| w == what)
}

impl<'a> Reader<'a> {
    /// MySQL's message about what is wrong here.
    fn located(&self, what: &str) -> String {
        let before = &self.text[..self.at];
        let line = 1 + before.iter().filter(|b| **b == b'\n').count();
        let newline = before.iter().rposition(|b| *b == b'\n').unwrap_or(0);
        let column = self.at - newline + 1;
        format!("parse error at line {line} pos {column}: {what}")
    }

    /// The next token, and where it stands.
    fn token(&mut self) -> (Token, Range<usize>) {
        let blank = self.text[self.at..]
            .iter()
            .take_while(|b| b.is_ascii_whitespace());
        self.at += blank.count();
        let (start, rest) = (self.at, &self.text[self.at..]);
        let past = |begin: &[u8], end: &[u8]| {
            let body = rest.strip_prefix(begin)?;
            Some(find(body, end).map_or(rest.len(), |at| begin.len() + at + end.len()))
        };
        let (token, len) = match rest.first() {
            None => (Token::End, 0),
            _ if rest.starts_with(COMMENT_BEGIN) => (
                Token::Comment,
                past(COMMENT_BEGIN, COMMENT_END).unwrap_or(rest.len()),
            ),
            _ if rest.starts_with(CDATA_BEGIN) => (
                Token::CData,
                past(CDATA_BEGIN, CDATA_END).unwrap_or(rest.len()),
            ),
            Some(mark @ (b'?' | b'=' | b'>' | b'<' | b'/' | b'!')) => (Token::Mark(*mark), 1),
            Some(quote @ (b'"' | b'\'')) => {
                let end = rest[1..].iter().position(|b| b == quote);
                (Token::Text, end.map_or(rest.len(), |end| end + 2))
            }
            Some(b) if is_name_start(*b) => {
                let len = rest.iter().take_while(|b| is_name_byte(**b));
                (Token::Ident, len.count())
            }
            Some(_) => (Token::Unknown, 0),
        };
        self.at += len;
        (token, start..start + len)
    }

    fn unexpected<T>(token: Token, wanted: &str) -> Result<T, String> {
        Err(format!("{} unexpected ({wanted} wanted)", token.name()))
    }

    fn read(&mut self) -> Result<(), String> {
        while self.at < self.text.len() {
            if self.nodes.len() > MAX_NODES {
                return Err(format!("more than {MAX_NODES} nodes"));
            }
            if self.text[self.at] == b'<' {
                self.markup()?;
            } else {
                let rest = &self.text[self.at..];
                let len = rest.iter().position(|b| *b == b'<').unwrap_or(rest.len());
                self.add_text(self.at..self.at + len);
                self.at += len;
            }
        }
        if self.open.len() > 1 {
            return Err("unexpected END-OF-INPUT".to_owned());
        }
        self.nodes[ROOT].end = self.nodes.len();
        Ok(())
    }

    fn markup(&mut self) -> Result<(), String> {
        let (token, place) = self.token();
        match token {
            Token::Comment => return Ok(()),
            Token::CData => {
                let closed = self.text[place.clone()].ends_with(CDATA_END);
                let tail = if closed { CDATA_END.len() } else { 0 };
                self.add_text(place.start + CDATA_BEGIN.len()..place.end - tail);
                return Ok(());
            }
            _ => {}
        }
        let begin = place.start;
        let (mut token, mut place) = self.token();
        if token == Token::Mark(b'/') {
            return self.end_tag();
        }
        let sort = match token {
            Token::Mark(mark @ (b'!' | b'?')) => {
                (token, place) = self.token();
                Some(mark)
            }
            _ => None,
        };
        if token != Token::Ident {
            return Self::unexpected(token, "ident or '/'");
        }
        self.enter(Kind::Element, &self.text[place], begin)?;
        let mut token = self.attributes(sort == Some(b'!'))?;
        if token == Token::Mark(b'/') && sort.is_none() {
            token = self.token().0;
            self.leave_here();
        }
        if sort == Some(b'?') {
            if token != Token::Mark(b'?') {
                return Self::unexpected(token, "'?'");
            }
            token = self.token().0;
        }
        if sort.is_some() {
            self.leave_here();
        }
        match token {
            Token::Mark(b'>') => Ok(()),
            _ => Self::unexpected(token, "'>'"),
        }
    }

    /// Reads attributes, or the words and quoted texts of a declaration; gives the token behind them.
    fn attributes(&mut self, declares: bool) -> Result<Token, String> {
        let (mut token, mut place) = self.token();
        loop {
            match token {
                Token::Ident => {}
                Token::Text if declares => {
                    (token, place) = self.token();
                    continue;
                }
                _ => return Ok(token),
            }
            let name = place;
            (token, place) = self.token();
            self.enter(Kind::Attribute, &self.text[name.clone()], name.start)?;
            if token == Token::Mark(b'=') {
                (token, place) = self.token();
                match token {
                    Token::Ident => self.add_text(place),
                    Token::Text => {
                        let closed =
                            place.len() > 1 && self.text[place.start] == self.text[place.end - 1];
                        self.add_text(place.start + 1..place.end - usize::from(closed));
                    }
                    _ => return Self::unexpected(token, "ident or string"),
                }
                self.leave(self.at);
                (token, place) = self.token();
            } else {
                self.leave(name.end);
            }
        }
    }

    fn end_tag(&mut self) -> Result<(), String> {
        let (token, place) = self.token();
        if token != Token::Ident {
            return Self::unexpected(token, "ident");
        }
        let name = &self.text[place];
        let shown = String::from_utf8_lossy(name);
        let open = self.open.last().copied().filter(|id| *id != ROOT);
        let wanted = open.map(|id| self.nodes[id].name);
        match wanted {
            Some(wanted) if wanted == name => {}
            None => return Err(format!("'</{shown}>' unexpected (END-OF-INPUT wanted)")),
            Some(wanted) => {
                let wanted = String::from_utf8_lossy(wanted);
                return Err(format!("'</{shown}>' unexpected ('</{wanted}>' wanted)"));
            }
        }
        let token = self.token().0;
        self.leave_here();
        match token {
            Token::Mark(b'>') => Ok(()),
            _ => Self::unexpected(token, "'>'"),
        }
    }

    fn enter(&mut self, kind: Kind, name: &'a [u8], begin: usize) -> Result<(), String> {
        if self.open.len() >= MAX_DEPTH {
            return Err(format!("more than {MAX_DEPTH} elements inside each other"));
        }
        self.open.push(self.nodes.len());
        self.push(kind, name, begin..begin);
        Ok(())
    }

    fn push(&mut self, kind: Kind, name: &'a [u8], place: Range<usize>) {
        // Itself, if it is the one that is being opened.
        let above = self.open.iter().rev().find(|id| **id < self.nodes.len());
        self.nodes.push(Node {
            kind,
            name,
            parent: above.copied().unwrap_or(ROOT),
            end: self.nodes.len() + 1,
            place,
        });
    }

    fn add_text(&mut self, place: Range<usize>) {
        if !place.is_empty() {
            self.push(Kind::Text, &self.text[place.clone()], place);
        }
    }

    /// Closes the innermost node, which ends here.
    fn leave_here(&mut self) {
        self.leave(self.at);
    }

    fn leave(&mut self, end: usize) {
        assert!(self.open.len() > 1, "the document ends with the text");
        if let Some(id) = self.open.pop() {
            let nodes = self.nodes.len();
            self.nodes[id].end = nodes;
            self.nodes[id].place.end = end;
        }
    }
}

fn is_name_start(b: u8) -> bool {
    b.is_ascii_alphabetic() || matches!(b, b'_' | b':') || b >= 0x80
}

fn is_name_byte(b: u8) -> bool {
    is_name_start(b) || b.is_ascii_digit() || matches!(b, b'-' | b'.')
}
