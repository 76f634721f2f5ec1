//! Following the end of a relay log.
//!
//! Neighbours: the applier takes the events. **Invariants**: memory is bounded by the longest event; the head of a file
//! that this server wrote itself is not given out; the first event is the source's format description, also where the
//! reader begins behind it: then it does not say that the source has started, for that was told before.

use std::sync::Arc;
use std::time::Duration;

use super::log::{RelayFile, Shared, not_a_start};
use crate::Result;
use crate::apply::{EventSource, Incoming, RelayPlace};
use crate::event::EventType;
use crate::files::{FIRST_EVENT, Scan};

/// Reads the events of a relay log, and waits for more.
pub struct Reader {
    shared: Arc<Shared>,
    scan: Scan,
    file: RelayFile,
    /// The source's format description, before the first event.
    format: Option<Incoming>,
}

impl Reader {
    pub(super) fn open(shared: Arc<Shared>, from: RelayPlace) -> Result<Option<Self>> {
        let found = shared.view(|view| {
            let is_it = |file: &&RelayFile| u64::from(file.number.0) == from.file;
            match from.file {
                0 => view.files.front().copied(),
                _ => view.files.iter().find(is_it).copied(),
            }
        });
        let Some(file) = found.filter(|file| from.offset <= file.size) else {
            return Ok(None);
        };
        let path = shared.names.path(file.number);
        let mut scan = Scan::open(&*shared.fs, &path, Some(file.size))?;
        let mut format = None;
        while format.is_none() && scan.offset() < from.offset {
            let Some((start, event)) = scan.next_event()? else {
                break;
            };
            let is_format = event.header.event_type() == Some(EventType::FormatDescription);
            if is_format && start != FIRST_EVENT {
                format = Some(Incoming {
                    header: event.header,
                    body: not_a_start(event.body),
                    relay: from,
                });
            }
        }
        if scan.offset() < from.offset {
            scan.skip_to(from.offset);
        }
        Ok(Some(Self {
            shared,
            scan,
            file,
            format,
        }))
    }

    /// The next event that is there.
    fn ready(&mut self) -> Result<Option<Incoming>> {
        if let Some(format) = self.format.take() {
            return Ok(Some(format));
        }
        loop {
            let number = self.file.number;
            let (file, next) = self.shared.view(|view| {
                let at = view.files.iter().position(|file| file.number == number);
                let file = at.map_or(self.file, |at| view.files[at]);
                (file, at.and_then(|at| view.files.get(at + 1).copied()))
            });
            self.file = file;
            self.scan.grow_to(file.size);
            if let Some((start, event)) = self.scan.next_event()? {
                if start == FIRST_EVENT {
                    continue;
                }
                let (header, body) = (event.header, event.body.to_vec());
                let relay = RelayPlace {
                    file: number.0.into(),
                    offset: self.scan.offset(),
                };
                return Ok(Some(Incoming {
                    header,
                    body,
                    relay,
                }));
            }
            let Some(next) = next else { return Ok(None) };
            let path = self.shared.names.path(next.number);
            self.scan = Scan::open(&*self.shared.fs, &path, Some(next.size))?;
            self.file = next;
        }
    }
}

impl EventSource for Reader {
    fn next(&mut self, wait: Duration) -> Result<Option<Incoming>> {
        if let Some(event) = self.ready()? {
            return Ok(Some(event));
        }
        self.shared.wait(self.file, wait);
        self.ready()
    }
}
