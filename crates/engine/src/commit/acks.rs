//! Acknowledgement in groups: one thread that runs many sessions, and their commits that wait for the log together.
//!
//! A session that waits by itself ([`Engine::wait_durable`](crate::Engine::wait_durable)) asks for a flush at once,
//! stands in the log's queue, and is woken one by one by the thread that flushes. For a thread with many sessions all
//! of that can be had once for many of them: its waiting sessions stand in a queue of its own, it asks when enough of
//! them wait or when it has nothing else to do, and it finds out by looking at one number who may go on. Where a flush
//! is cheaper than waking another thread, it flushes by itself. Source of the idea: flush pipelining in Johnson et al.,
//! "Aether" (PVLDB 3(1), 2010), whose agent threads detach a transaction and run the next; and autonomous commit
//! (SIGMOD 2025), whose workers write their batches of the log by themselves.
//!
//! Neighbours: the executor of a thread owns one and calls it between its turns; `log` asks, flushes and waits.
//!
//! **Invariants**
//! - Nobody goes on before what it waits for may be told: durable (unless commit is asynchronous) and visible.
//! - A thread that sleeps is woken when the first of its sessions may go on, or when the log has failed.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use esker_wal::{Driven, Turn};

use super::env::CommitEnv;
use super::log::Durable;
use crate::{Result, Seq};

/// The sessions of a thread that wait for the log.
pub struct Acks {
    env: Arc<CommitEnv>,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    /// Ascending by sequence.
    waiting: VecDeque<(Seq, Waker)>,
    /// How many of them the log has not been asked for.
    unasked: usize,
    /// Sessions that can run in this turn of the thread.
    in_turn: usize,
    /// The log has failed: everybody is to find out by itself.
    has_failed: bool,
    /// What the thread sleeps on, or has slept on: the first of its sessions, and its wait.
    rests_on: Option<(Seq, Durable)>,
}

impl State {
    /// Mostly at or near the back, because sequences are given in order.
    fn push(&mut self, seq: Seq, waker: &Waker) {
        let later = self.waiting.iter().rev().take_while(|w| w.0 > seq).count();
        self.waiting
            .insert(self.waiting.len() - later, (seq, waker.clone()));
        debug_assert!(
            self.waiting.iter().is_sorted_by_key(|waiting| waiting.0),
            "those that wait ascend"
        );
    }

    /// Whether this one waits already.
    fn has(&self, seq: Seq, waker: &Waker) -> bool {
        let before = self.waiting.partition_point(|w| w.0 < seq);
        self.waiting
            .range(before..)
            .take_while(|w| w.0 == seq)
            .any(|w| w.1.will_wake(waker))
    }
}

impl Acks {
    /// An empty queue for the calling thread.
    pub(crate) fn of(env: &Arc<CommitEnv>) -> Self {
        Acks {
            env: Arc::clone(env),
            state: RefCell::default(),
        }
    }

    /// Resolves when `seq` may be told, as [`Engine::wait_durable`](crate::Engine::wait_durable). For tasks of a thread
    /// that calls [`Acks::begin_turn`] before each of its turns and [`Acks::rest`] before it sleeps; without these it
    /// never resolves.
    ///
    /// # Errors
    /// The log has failed.
    pub fn wait(&self, seq: Seq) -> Acknowledged<'_> {
        Acknowledged {
            acks: self,
            seq,
            step: Step::New,
        }
    }

    /// A turn of the thread begins, in which so many sessions can run: wakes those that may go on, too.
    pub fn begin_turn(&self, sessions: usize) {
        self.state.borrow_mut().in_turn = sessions;
        self.wake_told();
    }

    /// Wakes the sessions that may go on, and says how many.
    fn wake_told(&self) -> usize {
        if self.state.borrow().waiting.is_empty() {
            return 0;
        }
        let told = self.env.tellable();
        let mut woken = 0;
        loop {
            // A waker is foreign code: not while the queue is borrowed.
            let first = {
                let waiting = &mut self.state.borrow_mut().waiting;
                waiting.pop_front_if(|(seq, _)| *seq <= told)
            };
            let Some((_, waker)) = first else {
                return woken;
            };
            waker.wake();
            woken += 1;
        }
    }

    /// The thread has nothing to do: sees to it that the log goes on. False if some session can go on. True if the
    /// thread may sleep until `waker` is woken.
    pub fn rest(&self, waker: &Waker) -> bool {
        if self.wake_told() > 0 {
            return false;
        }
        let (first, last) = {
            let waiting = &self.state.borrow().waiting;
            match (waiting.front(), waiting.back()) {
                (Some(first), Some(last)) => (first.0, last.0),
                _ => return true,
            }
        };
        debug_assert!(first <= last);
        if self.env.drive(last, Turn::Idle).is_err() {
            self.wake_all();
            return false;
        }
        let mut state = self.state.borrow_mut();
        state.unasked = 0;
        let (_, wait) = match state.rests_on.take() {
            Some((seq, wait)) if seq == first => state.rests_on.insert((seq, wait)),
            _ => {
                let wait = self.env.wait_durable(first);
                state.rests_on.insert((first, wait))
            }
        };
        let polled = Pin::new(wait).poll(&mut Context::from_waker(waker));
        match polled {
            Poll::Pending => return true,
            Poll::Ready(_) => state.rests_on = None,
        }
        drop(state);
        if matches!(polled, Poll::Ready(Err(_))) {
            self.wake_all();
        }
        self.wake_told();
        false
    }

    /// Everybody finds out what has become of the log.
    fn wake_all(&self) {
        let waiting = {
            let mut state = self.state.borrow_mut();
            state.has_failed = true;
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// Puts a session in the queue, unless it may go on after all.
    fn enqueue(&self, seq: Seq, waker: &Waker) -> Result<bool> {
        let turn = {
            let mut state = self.state.borrow_mut();
            // Those that others have flushed do not wait any more.
            state.unasked = (state.unasked + 1).min(state.waiting.len() + 1);
            debug_assert!(state.unasked > 0);
            Turn::Busy {
                waiting: state.unasked,
                in_turn: state.in_turn,
            }
        };
        let driven = self.env.drive(seq, turn)?;
        if driven != Driven::NotYet {
            self.state.borrow_mut().unasked = 0;
        }
        if driven == Driven::Durable {
            self.wake_told();
            if self.env.may_be_told(seq) {
                return Ok(false);
            }
        }
        self.state.borrow_mut().push(seq, waker);
        Ok(true)
    }
}

enum Step {
    New,
    Queued,
    /// The log has failed, or commit is asynchronous: it waits by itself.
    Alone(Durable),
}

/// Made by [`Acks::wait`].
#[must_use = "a future does nothing unless awaited"]
pub struct Acknowledged<'a> {
    acks: &'a Acks,
    seq: Seq,
    step: Step,
}

impl Future for Acknowledged<'_> {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let Acknowledged { acks, seq, step } = &mut *self;
        let env = &acks.env;
        loop {
            match step {
                Step::Alone(wait) => return Pin::new(wait).poll(context),
                _ if env.may_be_told(*seq) => return Poll::Ready(Ok(())),
                _ if env.switches.async_commit() || acks.state.borrow().has_failed => {
                    *step = Step::Alone(env.wait_durable(*seq));
                }
                Step::New => match acks.enqueue(*seq, context.waker()) {
                    Ok(true) => {
                        *step = Step::Queued;
                        return Poll::Pending;
                    }
                    Ok(false) => return Poll::Ready(Ok(())),
                    Err(error) => return Poll::Ready(Err(error)),
                },
                Step::Queued => {
                    // Woken for something else.
                    let mut state = acks.state.borrow_mut();
                    if !state.has(*seq, context.waker()) {
                        state.push(*seq, context.waker());
                    }
                    return Poll::Pending;
                }
            }
        }
    }
}
