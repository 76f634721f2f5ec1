//! Wrong logins: random users, mutated proofs, broken exchanges. Nobody gets in, and the server stays.
//!
//! Neighbours: `hostile` has clients that break the protocol after or without a login. Settings from the environment:
//! `ESKER_TEST_GUESSES` (attempts, 400), `ESKER_TEST_SEED`.

use std::io::{Read, Write};
use std::net::TcpStream;

use esker_server::client::{Client, ClientError};
use esker_wire::auth;

use crate::common::{Ask, PATIENCE, Server, setting};

/// Longest exchange that a guest goes on with.
const MOST_ROUNDS: usize = 8;
const PASSWORD: &[u8] = b"the right one";

/// Xorshift.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }
}

fn packet(seq: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = (payload.len() as u32).to_le_bytes()[..3].to_vec();
    out.push(seq);
    out.extend_from_slice(payload);
    out
}

fn read(stream: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
    let mut header = [0; 4];
    stream.read_exact(&mut header).ok()?;
    let length = u32::from_le_bytes([header[0], header[1], header[2], 0]);
    let mut payload = vec![0; length as usize];
    stream.read_exact(&mut payload).ok()?;
    Some((header[3], payload))
}

/// The 20 bytes of a greeting's challenge.
fn challenge(greeting: &[u8]) -> Option<Vec<u8>> {
    let version = greeting.iter().position(|b| *b == 0)?;
    let first = greeting.get(version + 5..version + 13)?;
    let second = greeting.get(version + 32..version + 44)?;
    Some([first, second].concat())
}

/// A proof that is right but for something.
fn proof(random: &mut Random, plugin: &str, challenge: &[u8]) -> Vec<u8> {
    let mut proof = match plugin {
        auth::NATIVE => auth::native_response(PASSWORD, challenge),
        _ => auth::sha2_response(PASSWORD, challenge),
    };
    match random.below(6) {
        0 => random.bytes(proof.len()),
        1 => {
            let length = random.below(40);
            random.bytes(length)
        }
        2 => {
            proof.truncate(random.below(proof.len()));
            proof
        }
        3 => {
            proof.push(0);
            proof
        }
        4 => Vec::new(),
        _ => {
            let bit = random.below(proof.len() * 8);
            proof[bit / 8] ^= 1 << (bit % 8);
            proof
        }
    }
}

/// A login packet of some user, with some proof.
fn login(random: &mut Random, scramble: &[u8]) -> Vec<u8> {
    let users = [
        "native",
        "sha2",
        "twice",
        "root",
        "",
        "nobody",
        "nat",
        "native\u{0}x",
    ];
    let user = match random.below(10) {
        n if n < users.len() => users[n].as_bytes().to_vec(),
        _ => {
            let length = random.below(40);
            random.bytes(length)
        }
    };
    let plugins = [
        auth::NATIVE,
        auth::CACHING_SHA2,
        "mysql_clear_password",
        "nope",
    ];
    let plugin = plugins[random.below(plugins.len())];
    let capabilities: u32 = 1 | 0x200 | 0x8000 | 0x8_0000 | 0x100_0000;
    let mut login = capabilities.to_le_bytes().to_vec();
    login.extend_from_slice(&(1_u32 << 24).to_le_bytes());
    login.push(45);
    login.extend_from_slice(&[0; 23]);
    login.extend_from_slice(&user);
    login.push(0);
    let first = proof(random, plugin, scramble);
    login.push(first.len() as u8);
    login.extend_from_slice(&first);
    login.extend_from_slice(plugin.as_bytes());
    login.push(0);
    if random.below(10) == 0 {
        let length = random.below(login.len());
        login.truncate(length);
    }
    login
}

/// An answer to what the server asks, other than that the login is over.
fn reply(random: &mut Random, scramble: &[u8], asked: &[u8]) -> Vec<u8> {
    if asked.first() == Some(&0xfe) {
        let end = asked.iter().position(|b| *b == 0).unwrap_or(asked.len());
        let name = String::from_utf8_lossy(&asked[1..end]).into_owned();
        let fresh = asked.get(end + 1..end + 21).unwrap_or_default();
        // An answer to the first challenge is worth nothing for the second one.
        let challenge = if random.below(2) == 0 {
            scramble
        } else {
            fresh
        };
        return proof(random, &name, challenge);
    }
    match random.below(5) {
        0 => vec![2],
        1 => random.bytes(256),
        2 => [PASSWORD, &[0]].concat(),
        3 => Vec::new(),
        _ => {
            let length = random.below(300);
            random.bytes(length)
        }
    }
}

/// One attempt; true: it got in.
fn attempt(server: &Server, random: &mut Random) -> bool {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).expect("connect");
    stream.set_read_timeout(Some(PATIENCE)).expect("timeout");
    let (_, greeting) = read(&mut stream).expect("greeting");
    let scramble = challenge(&greeting).expect("challenge");
    let login = login(random, &scramble);
    // The server may have closed already: then the answer tells.
    let _ = stream.write_all(&packet(1, &login));
    if random.below(20) == 0 {
        return false;
    }
    for _ in 0..MOST_ROUNDS {
        let Some((seq, answer)) = read(&mut stream) else {
            return false;
        };
        let reply = match answer.first() {
            Some(0) => return true,
            Some(0xff) | None => return false,
            _ => reply(random, &scramble, &answer),
        };
        let _ = stream.write_all(&packet(seq.wrapping_add(1), &reply));
    }
    false
}

#[test]
fn no_guess_gets_in() {
    let dir = tempfile::tempdir().expect("folder");
    let free = "--connection-control-failed-connections-threshold=0";
    let server = Server::start(dir.path(), &["--skip-ssl", free]);
    let mut root = server.connect();
    root.run(
        "CREATE USER native IDENTIFIED WITH mysql_native_password BY 'the right one';
         CREATE USER sha2 IDENTIFIED BY 'the right one';
         CREATE USER twice IDENTIFIED BY 'the right one';
         ALTER USER twice IDENTIFIED BY 'the next one' RETAIN CURRENT PASSWORD;
         ALTER USER root@localhost IDENTIFIED BY 'the right one'",
    );
    let right = |user: &str| Client::connect("127.0.0.1", server.port, user, "the right one", None);
    for user in ["native", "sha2", "twice", "root"] {
        // From now on the server knows the digests of quick proofs.
        right(user).expect(user);
    }
    let seed = setting("ESKER_TEST_SEED", 7);
    let mut random = Random(seed | 1);
    for n in 0..setting("ESKER_TEST_GUESSES", 400) {
        assert!(
            !attempt(&server, &mut random),
            "seed {seed}: attempt {n} got in"
        );
    }
    for user in ["native", "sha2", "twice", "root"] {
        right(user).expect(user);
    }
    // Unknown users and wrong passwords read the same.
    let refusal = |user: &str| match Client::connect("127.0.0.1", server.port, user, "x", None) {
        Err(ClientError::Server(e)) => (e.code, e.message.replace(user, "U")),
        _ => panic!("{user} is in"),
    };
    assert_eq!(refusal("sha2"), refusal("nobody"));
}
