//! The watermark by itself. Its interleavings are explored in `interleaving_tests`.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::thread;

use proptest::prelude::*;

use super::watermark::Watermark;

#[test]
fn gap_holds_the_watermark_back() {
    let watermark = Watermark::new(10);
    watermark.complete(20, 30);
    assert_eq!(watermark.visible(), 10);
    watermark.complete(30, 45);
    assert_eq!(watermark.visible(), 10);
    watermark.complete(10, 20);
    assert_eq!(watermark.visible(), 45);
}

#[test]
fn waiters_of_both_kinds_are_woken() {
    let watermark = Watermark::new(10);
    let other = Arc::clone(&watermark);
    let thread = thread::spawn(move || {
        other.block_until(30);
        other.visible()
    });
    struct Flag(AtomicUsize);
    impl std::task::Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let flag = Arc::new(Flag(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&flag));
    let mut context = Context::from_waker(&waker);
    let mut future = watermark.reached(20);
    assert!(Pin::new(&mut future).poll(&mut context).is_pending());
    watermark.complete(20, 30);
    assert_eq!(flag.0.load(Ordering::SeqCst), 0);
    watermark.complete(10, 20);
    assert_eq!(flag.0.load(Ordering::SeqCst), 1);
    assert!(Pin::new(&mut future).poll(&mut context).is_ready());
    assert_eq!(thread.join().unwrap(), 30);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn watermark_is_the_prefix_without_gaps(order in Just((0..40u64).collect::<Vec<_>>()).prop_shuffle()) {
        let watermark = Watermark::new(100);
        let mut done = [false; 40];
        for record in order {
            watermark.complete(100 + record * 3, 103 + record * 3);
            done[record as usize] = true;
            let prefix = done.iter().take_while(|d| **d).count() as u64;
            prop_assert_eq!(watermark.visible(), 100 + prefix * 3);
        }
    }
}
