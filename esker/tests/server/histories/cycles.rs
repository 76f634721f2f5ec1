//! Cycles in a graph: strongly connected components, and a shortest way around in each.
//!
//! Neighbours: `checker` makes the graph.

use std::collections::{HashMap, VecDeque};

/// Why one vertex comes before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// Within a transaction or a session.
    Order,
    /// The second appended behind the first.
    WriteWrite(u32),
    /// The second read what the first appended.
    WriteRead(u32),
    /// The second appended what the first had not read.
    ReadWrite(u32),
}

/// A graph whose vertices are numbers.
#[derive(Default)]
pub struct Graph {
    edges: Vec<Vec<(usize, Why)>>,
}

impl Graph {
    pub fn add_vertex(&mut self) -> usize {
        self.edges.push(Vec::new());
        self.edges.len() - 1
    }

    pub fn add_edge(&mut self, from: usize, to: usize, why: Why) {
        if from != to {
            self.edges[from].push((to, why));
        }
    }

    /// A cycle of each component that has one: its vertices, each with the reason for the step to the next one. Cycles
    /// with few reads that missed something come first to mind, so within a component such steps are avoided where that
    /// is possible.
    pub fn cycles(&self) -> Vec<Vec<(usize, Why)>> {
        let all = self.components();
        all.iter()
            .map(|component| self.cycle_in(component))
            .collect()
    }

    /// Tarjan's components of more than one vertex, without recursion: histories are long.
    fn components(&self) -> Vec<Vec<usize>> {
        const UNSEEN: usize = usize::MAX;
        let count = self.edges.len();
        let (mut index, mut low) = (vec![UNSEEN; count], vec![0; count]);
        let mut on_stack = vec![false; count];
        let (mut stack, mut found, mut next) = (Vec::new(), Vec::new(), 0);
        for root in 0..count {
            if index[root] != UNSEEN {
                continue;
            }
            let mut calls = vec![(root, 0)];
            while let Some((at, edge)) = calls.last_mut() {
                let at = *at;
                if *edge == 0 && index[at] == UNSEEN {
                    (index[at], low[at]) = (next, next);
                    next += 1;
                    stack.push(at);
                    on_stack[at] = true;
                }
                if let Some((to, _)) = self.edges[at].get(*edge) {
                    *edge += 1;
                    if index[*to] == UNSEEN {
                        calls.push((*to, 0));
                    } else if on_stack[*to] {
                        low[at] = low[at].min(index[*to]);
                    }
                    continue;
                }
                calls.pop();
                if let Some((above, _)) = calls.last() {
                    low[*above] = low[*above].min(low[at]);
                }
                if low[at] == index[at] {
                    let from = stack.iter().rposition(|v| *v == at).expect("it was pushed");
                    let component = stack.split_off(from);
                    component.iter().for_each(|v| on_stack[*v] = false);
                    if component.len() > 1 {
                        found.push(component);
                    }
                }
            }
        }
        found
    }

    /// The cycle with the fewest reads that missed something, among those of one start.
    fn cycle_in(&self, component: &[usize]) -> Vec<(usize, Why)> {
        let inside: HashMap<usize, ()> = component.iter().map(|v| (*v, ())).collect();
        let weigh = |why: &Why| u64::from(matches!(why, Why::ReadWrite(_)));
        // From the end of an edge back to its beginning; edges of a few vertices are enough to show one.
        const STARTS: usize = 64;
        let mut best: Option<(u64, Vec<(usize, Why)>)> = None;
        for start in component.iter().take(STARTS) {
            let mut came: HashMap<usize, (usize, Why)> = HashMap::new();
            let mut cost: HashMap<usize, u64> = HashMap::from([(*start, 0)]);
            let mut queue = VecDeque::from([*start]);
            let mut closing: Option<(u64, usize, Why)> = None;
            while let Some(at) = queue.pop_front() {
                let so_far = cost[&at];
                for (to, why) in &self.edges[at] {
                    let there = so_far + weigh(why);
                    if to == start {
                        if closing.is_none_or(|(known, ..)| there < known) {
                            closing = Some((there, at, *why));
                        }
                    } else if inside.contains_key(to) && cost.get(to).is_none_or(|c| there < *c) {
                        cost.insert(*to, there);
                        came.insert(*to, (at, *why));
                        match weigh(why) {
                            0 => queue.push_front(*to),
                            _ => queue.push_back(*to),
                        }
                    }
                }
            }
            let Some((total, mut at, last)) = closing else {
                continue;
            };
            let mut cycle = vec![(at, last)];
            while at != *start {
                let (before, why) = came[&at];
                cycle.push((before, why));
                at = before;
            }
            cycle.reverse();
            let is_better = best.as_ref().is_none_or(|(known, cycle_known)| {
                (total, cycle.len()) < (*known, cycle_known.len())
            });
            if is_better {
                best = Some((total, cycle));
            }
        }
        best.expect("a component has a cycle through each vertex").1
    }
}
