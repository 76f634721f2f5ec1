//! Streams that break in the middle of a transaction: what was cut comes again, and nothing is lost or done twice.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};

use super::*;
use crate::common::free_port;

/// Types of events.
const QUERY: u8 = 2;
const TABLE_MAP: u8 = 19;
const GTID: u8 = 33;
/// Connections that break.
const CUTS: usize = 3;

/// A packet with its head; `None`: the peer has gone.
fn packet(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut packet = vec![0; 4];
    stream.read_exact(&mut packet).ok()?;
    let length = u32::from_le_bytes([packet[0], packet[1], packet[2], 0]);
    packet.resize(4 + length as usize, 0);
    stream.read_exact(&mut packet[4..]).ok()?;
    Some(packet)
}

/// Passes packets on to a source. The first connection breaks behind the first event of a type, the next one behind the
/// second, and so on.
fn cut_behind(kind: u8, source: u16) -> u16 {
    let port = free_port();
    let listener = TcpListener::bind(("127.0.0.1", port)).expect("listen");
    std::thread::spawn(move || {
        for (nth, client) in listener.incoming().enumerate() {
            let last = (nth < CUTS).then_some(nth + 1);
            let client = client.expect("accept");
            std::thread::spawn(move || pass(client, source, (kind, last)));
        }
    });
    port
}

fn pass(mut client: TcpStream, source: u16, (kind, last): (u8, Option<usize>)) {
    let mut source = TcpStream::connect(("127.0.0.1", source)).expect("source");
    let mut requests = client.try_clone().expect("socket");
    let mut there = source.try_clone().expect("socket");
    std::thread::spawn(move || {
        while let Some(request) = packet(&mut requests) {
            if there.write_all(&request).is_err() {
                break;
            }
        }
    });
    let mut seen = 0;
    while let Some(answer) = packet(&mut source) {
        // An event behind the byte that says that all is well.
        seen += usize::from(answer.len() > 23 && answer[4] == 0 && answer[9] == kind);
        if client.write_all(&answer).is_err() || last.is_some_and(|last| seen >= last) {
            break;
        }
    }
    for side in [client, source] {
        // It may have gone.
        let _ = side.shutdown(Shutdown::Both);
    }
}

#[test]
fn what_a_broken_stream_has_cut_comes_again() {
    let dir = tempfile::tempdir().expect("folder");
    let source = source(dir.path());
    let mut there = source.connect();
    write(&mut there, 0..20);
    there.run("CREATE TABLE d.u (id INT PRIMARY KEY); INSERT INTO d.u VALUES (1)");
    write(&mut there, 20..40);
    let expected = contents(&mut there);
    let by_position = "SOURCE_LOG_FILE = 'binlog.000001', SOURCE_LOG_POS = 4";
    let ways = ["SOURCE_AUTO_POSITION = 1", by_position];
    for (nth, kind) in [GTID, QUERY, TABLE_MAP].into_iter().enumerate() {
        for (way, how) in ways.into_iter().enumerate() {
            let place = dir.path().join(format!("replica-{nth}-{way}"));
            let replica = Server::start(&place, &REPLICA);
            let mut c = replica.connect();
            change(&mut c, cut_behind(kind, source.port), how);
            c.run("START REPLICA");
            follow(&mut there, &mut c);
            assert_eq!(contents(&mut c), expected, "{kind}, {how}");
            assert_eq!(c.value("SELECT COUNT(*) FROM d.u"), "1", "{kind}, {how}");
        }
    }
}
