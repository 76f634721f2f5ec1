//! Tests of the registry: kills, and the shutdown of all.

use std::sync::atomic::AtomicBool;
use std::task::Wake;
use std::time::Duration;

use super::*;

fn registry_with(ids: &[u64]) -> (Registry, Vec<Arc<Process>>) {
    let registry = Registry::default();
    let processes = ids
        .iter()
        .map(|id| {
            let on_kill = Box::new(|| ());
            registry.add(
                *id,
                "u",
                "localhost".into(),
                Connection::default(),
                0,
                on_kill,
            )
        })
        .collect();
    (registry, processes)
}

#[test]
fn kill_ends_a_sleep_and_query_kills_are_forgotten() {
    let (registry, p) = registry_with(&[7]);
    let sleeper = p[0].clone();
    let thread =
        std::thread::spawn(move || sleeper.sleep_until(Instant::now() + Duration::from_secs(60)));
    registry.find(7).unwrap().kill(false);
    assert!(thread.join().unwrap());
    assert_eq!(p[0].kill_error().unwrap().code, 1317);
    p[0].clear_query_kill();
    assert!(p[0].kill_error().is_none());
    p[0].kill(true);
    p[0].clear_query_kill();
    assert!(p[0].kill_error().is_some());
    assert_eq!(registry.find(8).err().unwrap().code, 1094);
}
/// Looks, when its task is woken, whether another session has heard that it is over.
struct Looks {
    other: Arc<Process>,
    was_marked: AtomicBool,
}

impl Wake for Looks {
    fn wake(self: Arc<Self>) {
        let marked = self.other.is_killed();
        self.was_marked.store(marked, Ordering::Relaxed);
    }
}

#[test]
fn at_shutdown_all_are_marked_before_any_is_woken() {
    let (registry, p) = registry_with(&[1, 2]);
    let both = [(0, 1), (1, 0)].map(|(own, other)| {
        let looks = Arc::new(Looks {
            other: p[other].clone(),
            was_marked: AtomicBool::new(false),
        });
        *p[own].wake.task.lock() = Some(looks.clone().into());
        looks
    });
    registry.shut_down();
    for looks in both {
        assert!(looks.was_marked.load(Ordering::Relaxed));
    }
    assert_eq!(p[0].kill_error().unwrap().code, 1053);
    assert_eq!(p[1].kill_error().unwrap().code, 1053);
    let late = registry.add(
        3,
        "u",
        "h".into(),
        Connection::default(),
        0,
        Box::new(|| ()),
    );
    late.clear_query_kill();
    assert_eq!(late.kill_error().unwrap().code, 1053, "it logged in late");
}
