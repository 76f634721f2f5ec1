//! A client of MySQL's protocol that blocks: statements as text, or prepared once for each text and then executed.
//!
//! Both take the same texts with `?` and the same values, so a transaction is written once.
//! **Invariant**: an answer is read to its end before the next statement is sent.

use std::collections::HashMap;
use std::io::{self, BufReader, Read, Write};
use std::net::TcpStream;

const COM_QUERY: u8 = 0x03;
const COM_STMT_PREPARE: u8 = 0x16;
const COM_STMT_EXECUTE: u8 = 0x17;
const TYPE_LONGLONG: u8 = 8;
const TYPE_STRING: u8 = 254;
/// CLIENT_LONG_PASSWORD, CONNECT_WITH_DB, PROTOCOL_41, SECURE_CONNECTION, PLUGIN_AUTH.
const CAPABILITIES: u32 = 1 | 1 << 3 | 1 << 9 | 1 << 15 | 1 << 19;
/// Deadlock, timeout of a lock, write conflict: the transaction is to be run again.
const TRANSIENT: [u16; 3] = [1213, 1205, 1020];

/// Why a statement has no answer.
pub enum Failed {
    /// The transaction is to be rolled back and run again.
    Transient,
    Other(io::Error),
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Failed::Other(error)
    }
}

/// A parameter.
#[derive(Clone)]
pub enum Value {
    Int(i64),
    /// A number with a point: a literal without quotes, or text.
    Decimal(String),
    Text(String),
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Value::Int(number)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::Text(text)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Text(text.to_owned())
    }
}

/// Values of a row as text; NULL is empty.
pub type Row = Vec<String>;

pub struct Connection {
    stream: BufReader<TcpStream>,
    is_text: bool,
    prepared: HashMap<&'static str, u32>,
}

impl Connection {
    pub fn open(port: u16, database: &str, is_text: bool) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        let mut connection = Connection {
            stream: BufReader::new(stream),
            is_text,
            prepared: HashMap::new(),
        };
        connection.packet()?;
        let mut login = CAPABILITIES.to_le_bytes().to_vec();
        login.extend(16_777_216_u32.to_le_bytes());
        login.push(45);
        login.extend([0; 23]);
        login.extend(format!("root\0\0{database}\0mysql_native_password\0").as_bytes());
        connection.send(1, &login)?;
        let mut answer = connection.packet()?;
        if answer.first() == Some(&0xfe) {
            connection.send(3, &[])?;
            answer = connection.packet()?;
        }
        match answer.first() {
            Some(0) => Ok(connection),
            _ => Err(io::Error::other(String::from_utf8_lossy(&answer))),
        }
    }

    /// Runs a statement with its values in place of the question marks.
    pub fn run(&mut self, text: &'static str, values: &[Value]) -> Result<Vec<Row>, Failed> {
        if self.is_text {
            return self.query(&with_literals(text, values));
        }
        let id = match self.prepared.get(text) {
            Some(id) => *id,
            None => self.prepare(text)?,
        };
        self.send(0, &execution(id, values))?;
        self.answer(binary_row)
    }

    /// Runs a statement that is text and nothing else.
    pub fn query(&mut self, text: &str) -> Result<Vec<Row>, Failed> {
        self.send(0, &[&[COM_QUERY], text.as_bytes()].concat())?;
        self.answer(|packet, types| {
            let mut at = 0;
            types
                .iter()
                .map(|_| string(packet, &mut at))
                .collect::<Option<_>>()
        })
    }

    fn prepare(&mut self, text: &'static str) -> Result<u32, Failed> {
        self.send(0, &[&[COM_STMT_PREPARE], text.as_bytes()].concat())?;
        let answer = self.packet()?;
        checked(&answer)?;
        let u16_at = |at: usize| u16::from_le_bytes([answer[at], answer[at + 1]]);
        let (columns, params) = (u16_at(5), u16_at(7));
        for count in [params, columns] {
            for _ in 0..count + u16::from(count > 0) {
                self.packet()?;
            }
        }
        let id = u32::from_le_bytes([answer[1], answer[2], answer[3], answer[4]]);
        self.prepared.insert(text, id);
        Ok(id)
    }

    /// Reads an answer to its end; `decode` makes a row of a packet, with the columns' types.
    fn answer(&mut self, decode: impl Fn(&[u8], &[u8]) -> Option<Row>) -> Result<Vec<Row>, Failed> {
        let head = self.packet()?;
        checked(&head)?;
        if head[0] == 0 {
            return Ok(Vec::new());
        }
        let mut types = Vec::new();
        for _ in 0..head[0] {
            let column = self.packet()?;
            // From the end: filler 2, decimals 1, flags 2, type 1.
            types.push(column[column.len() - 6]);
        }
        self.packet()?;
        let mut rows = Vec::new();
        loop {
            let packet = self.packet()?;
            checked(&packet)?;
            if packet[0] == 0xfe && packet.len() < 9 {
                return Ok(rows);
            }
            let row = decode(&packet, &types);
            rows.push(row.ok_or_else(|| io::Error::other("a row that cannot be read"))?);
        }
    }

    fn packet(&mut self) -> io::Result<Vec<u8>> {
        let mut head = [0; 4];
        self.stream.read_exact(&mut head)?;
        let mut body = vec![0; u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize];
        self.stream.read_exact(&mut body)?;
        match body.is_empty() {
            true => Err(io::Error::other("an empty packet")),
            false => Ok(body),
        }
    }

    fn send(&mut self, seq: u8, body: &[u8]) -> io::Result<()> {
        assert!(body.len() < 1 << 24, "a packet of its own");
        let mut packet = (body.len() as u32).to_le_bytes()[..3].to_vec();
        packet.push(seq);
        packet.extend_from_slice(body);
        self.stream.get_mut().write_all(&packet)
    }
}

/// An error's packet as an error.
fn checked(packet: &[u8]) -> Result<(), Failed> {
    if packet[0] != 0xff {
        return Ok(());
    }
    let code = u16::from_le_bytes([packet[1], packet[2]]);
    match TRANSIENT.contains(&code) {
        true => Err(Failed::Transient),
        false => Err(io::Error::other(String::from_utf8_lossy(&packet[3..])).into()),
    }
}

fn with_literals(text: &str, values: &[Value]) -> String {
    let mut parts = text.split('?');
    let mut whole = parts.next().unwrap_or("").to_owned();
    let mut values = values.iter();
    for part in parts {
        match values.next().expect("a value for each question mark") {
            Value::Int(number) => whole += &number.to_string(),
            Value::Decimal(number) => whole += number,
            Value::Text(text) => whole += &format!("'{text}'"),
        }
        whole += part;
    }
    whole
}

fn execution(id: u32, values: &[Value]) -> Vec<u8> {
    let mut body = vec![COM_STMT_EXECUTE];
    body.extend(id.to_le_bytes());
    // No cursor, one iteration.
    body.extend([0, 1, 0, 0, 0]);
    if values.is_empty() {
        return body;
    }
    // None of them is NULL.
    body.resize(body.len() + values.len().div_ceil(8), 0);
    body.push(1);
    for value in values {
        let type_ = match value {
            Value::Int(_) => TYPE_LONGLONG,
            Value::Decimal(_) | Value::Text(_) => TYPE_STRING,
        };
        body.extend([type_, 0]);
    }
    for value in values {
        match value {
            Value::Int(number) => body.extend(number.to_le_bytes()),
            Value::Decimal(text) | Value::Text(text) => {
                match text.len() {
                    len @ 0..251 => body.push(len as u8),
                    len => {
                        body.push(0xfc);
                        body.extend(u16::try_from(len).expect("a short text").to_le_bytes());
                    }
                }
                body.extend(text.as_bytes());
            }
        }
    }
    body
}

/// A string behind its length; NULL is empty.
fn string(packet: &[u8], at: &mut usize) -> Option<String> {
    let (head, len) = match *packet.get(*at)? {
        0xfb => (1, 0),
        0xfc => {
            let low = *packet.get(*at + 1)?;
            (
                3,
                usize::from(u16::from_le_bytes([low, *packet.get(*at + 2)?])),
            )
        }
        len => (1, usize::from(len)),
    };
    let bytes = packet.get(*at + head..*at + head + len)?;
    *at += head + len;
    Some(String::from_utf8_lossy(bytes).into_owned())
}

/// A row of the binary protocol.
fn binary_row(packet: &[u8], types: &[u8]) -> Option<Row> {
    let mut at = 1 + (types.len() + 2).div_ceil(8);
    let mut row = Row::new();
    for (i, type_) in types.iter().enumerate() {
        let bit = i + 2;
        if packet.get(1 + bit / 8)? >> (bit % 8) & 1 == 1 {
            row.push(String::new());
            continue;
        }
        // TINY, SHORT, LONG and INT24, LONGLONG; all else has its length before it.
        let width = match type_ {
            1 => 1,
            2 => 2,
            3 | 9 => 4,
            8 => 8,
            7 | 10 | 12 => {
                // A time's value is not looked at.
                at += 1 + usize::from(*packet.get(at)?);
                row.push(String::new());
                continue;
            }
            _ => {
                row.push(string(packet, &mut at)?);
                continue;
            }
        };
        let bytes = packet.get(at..at + width)?;
        at += width;
        let is_negative = bytes[width - 1] & 0x80 != 0;
        let mut whole = [if is_negative { 0xff } else { 0 }; 8];
        whole[..width].copy_from_slice(bytes);
        row.push(i64::from_le_bytes(whole).to_string());
    }
    Some(row)
}
