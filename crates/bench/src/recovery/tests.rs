//! Data as `esker bench recovery` makes them come back, and what did not come back is noticed.

use super::*;

const MEMORY: usize = 64 << 20;

fn shape() -> Shape {
    Shape {
        rows: 2000,
        value_bytes: 100,
        dead: 0,
        two_phase: 0,
        prepared: 0,
        indexes: 0,
        order: Order::Sequential,
        batch: 1,
        group_bytes: 64 << 10,
        seed: 1,
    }
}

const ALL: [Replay; 3] = [Replay::SerialSync, Replay::SerialAsync, Replay::Parallel];

/// Writes, and restarts in each mode on a copy of its own, the last time twice.
fn written_and_restarted(shape: &Shape) -> (Content, Outcome) {
    let dir = tempfile::tempdir().expect("a directory");
    let original = dir.path().join("original");
    let content = data::write(shape, &original, MEMORY, &|_| {}).expect("writes");
    let restart = |replay: Replay, again: &Path| {
        let mut config = data::config(again, MEMORY);
        config.recovery = replay.into();
        restart::restart(config, Key(shape.middle_key())).expect("restarts")
    };
    let outcomes = ALL.map(|replay| {
        let again = dir.path().join(replay.name());
        copy::copy(&original, &again).expect("copies");
        let outcome = restart(replay, &again);
        assert_eq!(outcome.content, content, "{replay:?}");
        outcome
    });
    let again = restart(Replay::Parallel, &dir.path().join("parallel"));
    assert_eq!(again.content, content);
    (content, outcomes[2])
}

#[test]
fn every_shape_comes_back() {
    let shapes = [
        shape(),
        Shape {
            order: Order::Random,
            indexes: 2,
            ..shape()
        },
        Shape {
            two_phase: 50,
            prepared: 20,
            batch: 7,
            ..shape()
        },
        Shape {
            dead: 80,
            batch: 100,
            ..shape()
        },
    ];
    for shape in shapes {
        let (content, outcome) = written_and_restarted(&shape);
        let live = shape.rows * (1 + shape.indexes) + 1;
        assert_eq!(content.entries, live + shape.dead_rows(), "{shape:?}");
        check(&shape, &content, &outcome).expect("all is there");
        assert_eq!(outcome.flushes, 0);
        assert!(
            outcome.opened <= outcome.ready
                && outcome.ready <= outcome.first_read
                && outcome.first_read <= outcome.built
        );
        // The log is all there, with what is dead.
        let row = (data::KEY_BYTES as u64 + shape.value_bytes) * (shape.rows + shape.dead_rows());
        assert!(outcome.log_bytes > row, "{} of {row}", outcome.log_bytes);
    }
}

#[test]
fn dead_rows_are_a_share_of_the_log() {
    let shape = Shape {
        dead: 75,
        ..shape()
    };
    assert_eq!(shape.dead_rows(), 6000);
    assert_eq!(Shape { dead: 0, ..shape }.dead_rows(), 0);
}

#[test]
fn what_is_missing_is_noticed() {
    let (content, outcome) = written_and_restarted(&shape());
    let less = Content {
        entries: content.entries + 1,
        ..content
    };
    assert!(check(&shape(), &less, &outcome).is_err());
    let other = Content {
        checksum: content.checksum ^ 1,
        ..content
    };
    assert!(check(&shape(), &other, &outcome).is_err());
    let prepared = Shape {
        prepared: 1,
        ..shape()
    };
    assert!(check(&prepared, &content, &outcome).is_err());
}

#[test]
fn an_outcome_survives_its_line() {
    let outcome = Outcome {
        opened: 0.125,
        ready: 0.25,
        first_read: 0.5,
        built: 0.75,
        cpu: 1.5,
        peak_bytes: 1 << 30,
        flushes: 2,
        log_bytes: 3,
        prepared: 4,
        content: Content {
            entries: 5,
            checksum: u64::MAX,
        },
    };
    assert_eq!(
        outcome.to_string().parse::<Outcome>().expect("a line"),
        outcome
    );
    assert!("1 2".parse::<Outcome>().is_err());
    let key = Key(*b"0123456789abcdef");
    assert_eq!(key.to_string().parse(), Ok(key));
}

#[test]
fn the_median_is_in_the_middle() {
    assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    assert_eq!(median(vec![4.0, 1.0]), 1.0);
}
